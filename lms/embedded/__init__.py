"""The reader that answers if no language model is configured."""
