"""What the sub-modules of RA-ISF judge with, and the tree of its sub-questions."""
