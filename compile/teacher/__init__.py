"""A language model as the author of data: asked for each record once, and its records kept in a file that continues."""
