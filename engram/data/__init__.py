"""Image sets: where they come from, and what they are in memory."""

from engram.data.catalog import CATALOG, available, blank, get, images
from engram.data.images import DataError, Images

__all__ = ["CATALOG", "DataError", "Images", "available", "blank", "get", "images"]
