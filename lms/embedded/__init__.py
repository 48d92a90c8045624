"""The reader that answers where no language model is configured."""
