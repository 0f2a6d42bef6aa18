"""What all layers share: random streams, locks, validation, search ranges."""
