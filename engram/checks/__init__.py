"""The contract that methods, networks and scenarios keep, as facts that can be checked: `engram check`."""
