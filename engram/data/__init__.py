"""Datasets: where they come from, and what they are in memory."""

from engram.data.catalog import CATALOG, available, get, images, use_blank_images
from engram.data.images import DataError, Images

__all__ = ["CATALOG", "DataError", "Images", "available", "get", "images", "use_blank_images"]
