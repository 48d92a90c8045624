"""What the methods are measured against: same retriever, same language model, same trace."""
