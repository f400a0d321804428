"""Searches: from a source to target strings. `beam` is what they share; each other file is one search."""
