"""What records say: statistics and differences. No torch."""
