"""The records as one HTML page: a file that opens from disk, or served while a sweep runs. Works without torch."""
