"""Programs and indexes as services: one HTTP application, and tools of MCP clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowgap.lazy import export_lazily

if TYPE_CHECKING:
    from knowgap.service.server import Server as Server
else:
    __all__, __getattr__, __dir__ = export_lazily(__name__)
