"""Evaluate programs on questions with known answers, compile them, and save them.

>>> from knowgap.compiling import evaluate, compile, save
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
