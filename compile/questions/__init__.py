"""Questions that a language model writes from an index, with answers and gold passages, each of them checked."""
