"""Datasets: where they come from, and what they are in memory. Import from the modules; tables need no arrays."""
