"""Subword Segmental Machine Translation: one model that learns to translate and where to cut words."""

__version__ = "0.1.0"
