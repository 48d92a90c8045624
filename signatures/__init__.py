"""What language models are asked: typed `dspy.Signature` classes, whose docstrings are the instructions.

There is one file for each method, named like the program in `knowgap.programs`, and one each for the baselines, for
metrics, for answers that several programs ask for, and for the types of the fields. Sources are given in comments above
the classes, since a docstring is sent to the model word for word.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
