"""The dev set and what is done with it: evaluate, compile, save.

>>> from knowgap.compiling import evaluate, compile, save
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
