"""Scores of (query, text) pairs."""
