"""The command line: one file for each group of commands."""

from knowgap.cli.main import app, main

__all__ = ["app", "main"]
