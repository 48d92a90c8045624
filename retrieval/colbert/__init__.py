"""Late interaction: the ColBERT index, its encoder and its scoring."""
