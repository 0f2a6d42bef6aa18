"""The error that everything about datasets raises."""


class DataError(ValueError):
    """Data are wrong or missing. The message says what was wrong, what was expected and what to do."""
