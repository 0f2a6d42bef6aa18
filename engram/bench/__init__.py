"""Speed and memory on this machine."""
