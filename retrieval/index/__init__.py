"""The folder of an index: manifest, passages on disk, changes."""

NEW_INDEX = "hybrid"
"""The engine of a new index if none is named."""
