"""Runs: a spec, its key, its record, and the folder that keeps it."""
