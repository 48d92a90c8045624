"""The weights of the embedded parts."""
