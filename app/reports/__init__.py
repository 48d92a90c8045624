"""Pages for the browser, and tables: evaluations, and questions to look through."""
