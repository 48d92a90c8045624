"""What of the retrieved passages a model reads, and what it cites."""
