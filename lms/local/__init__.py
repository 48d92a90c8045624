"""Local models of Transformers: loaded from a folder, asked in batches, as engines of DSPy."""
