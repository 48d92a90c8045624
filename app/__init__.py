"""knowgap: question answering that notices what it does not know yet and goes and looks for it."""
