"""The papers' tables as files that run."""
