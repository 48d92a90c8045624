"""Programs and indexes as services: one HTTP application, and tools of MCP clients."""

from knowgap.errors import MissingDependency

try:
    from knowgap.service.server import Server
except ModuleNotFoundError as error:
    if error.name not in ("starlette", "uvicorn"):
        raise
    raise MissingDependency(f"{error.name} is not installed; `pip install 'knowgap[serve]'`") from error

__all__ = ["Server"]
