"""RA-ISF's trained sub-models: self-knowledge, relevance of passages, decomposition."""
