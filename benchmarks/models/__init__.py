"""Language models that stand in for real ones: a server with a fixed delay, and a reader that knows the evidence."""
