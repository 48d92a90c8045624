"""The trace of a question: its steps, how they are recorded, and how a person reads them."""
