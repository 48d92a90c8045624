"""Where passages come from: indexes, rerankers, entailment models and sentences.

Modules are imported when one of their names is first used, and with them their libraries.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
