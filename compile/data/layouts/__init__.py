"""Readers of public file layouts, one file each; `registry` lists them."""
