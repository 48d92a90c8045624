"""What the methods are measured against: one baseline per file, same retriever, same language model, same trace."""
