"""Studies: tables of settings, and published numbers to compare with. No torch."""
