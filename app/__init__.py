"""knowgap: question answering that notices what it does not know yet and goes and looks for it.

Modules are imported when one of their names is first used, so `import knowgap` loads nothing heavy.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
