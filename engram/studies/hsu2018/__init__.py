"""Hsu, Liu, Ramasamy, Kira (2018)."""
