"""Thresholds fitted to training questions."""
