"""Retrieval of passages: indexes, rerankers, entailment models and sentence splitting.

A module is imported, with the libraries that it needs, when one of its names is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
