"""The baselines, which share the methods' retriever, language model and trace."""
