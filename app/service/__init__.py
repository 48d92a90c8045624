"""Programs and indexes as services: one HTTP application, and tools of MCP clients."""

from importlib.util import find_spec

import lazy_loader

from knowgap.errors import MissingDependency

for package in ("starlette", "uvicorn"):
    if find_spec(package) is None:
        raise MissingDependency(f"{package} is not installed; `pip install 'knowgap[serve]'`")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
