"""Readers of public file layouts, one file each, listed in `registry`."""
