"""The folder of an index: manifest, passages on disk, changes."""
