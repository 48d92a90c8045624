"""The sources use DSPy by its public names, and make no class while they run."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path
    for room in ("app", "compile", "lms", "programs", "retrieval", "signatures")
    for path in (ROOT / room).rglob("*.py")
)
PRIVATE = re.compile(r"_(?!_)\w+|__\w+(?<!__)")
INNER = {"GLOBAL_HISTORY", "caller_modules", "record_history", "MAX_HISTORY_SIZE"}
INNER |= {"main_thread_config", "thread_local_overrides"}
"""How DSPy keeps its histories and settings."""
MODELS = re.compile(r"(.*_)?(lm|engine|adapter|predictor|predict|cache|settings)", re.IGNORECASE)
"""Names of variables that hold objects of DSPy's."""


def problems(source: str) -> list[str]:
    """What a source does that it should not, with the lines."""
    tree = ast.parse(source)
    own = {
        name.name if isinstance(name, (ast.FunctionDef, ast.ClassDef)) else name.attr
        for name in ast.walk(tree)
        if isinstance(name, (ast.FunctionDef, ast.ClassDef))
        or (isinstance(name, ast.Attribute) and isinstance(name.value, ast.Name) and name.value.id == "self")
    }
    from_dspy = set()
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            parts = [(alias.name.split("."), alias.asname) for alias in node.names]
            from_dspy |= {asname or path[0] for path, asname in parts if path[0] == "dspy"}
            found += [(node, ".".join(p)) for p, _ in parts if p[0] == "dspy" and any(map(PRIVATE.fullmatch, p))]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dspy":
            from_dspy |= {alias.asname or alias.name for alias in node.names}
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            found += [(node, name) for name in names if PRIVATE.fullmatch(name) or name in INNER]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type":
            found += [(node, "type(…)")] if len(node.args) == 3 else []
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            found += [(inner, f"class {inner.name}") for inner in ast.walk(node) if isinstance(inner, ast.ClassDef)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            root, whole = node.value, ast.unparse(node)
            while isinstance(root, (ast.Attribute, ast.Call)):
                root = root.value if isinstance(root, ast.Attribute) else root.func
            dspys = isinstance(root, ast.Name) and root.id in from_dspy
            likely = not dspys and MODELS.fullmatch(ast.unparse(node.value).rpartition(".")[2]) and node.attr not in own
            if (PRIVATE.fullmatch(node.attr) and (dspys or likely)) or node.attr in INNER:
                found.append((node, whole))
        elif isinstance(node, ast.keyword) and node.arg in INNER:
            found.append((node, str(node.arg)))
    return [f"{node.lineno}: {what}" for node, what in found]


def test_the_sources_use_public_names_and_make_no_class():
    found = {path.relative_to(ROOT).as_posix(): problems(path.read_text(encoding="utf-8")) for path in SOURCES}
    [wraps] = found.pop("programs/modules.py")  # a class for each module; its signature could not be pickled either
    assert wraps.endswith("type(…)")
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import dspy\ndspy.cache._lock",
        "import dspy.clients._http",
        "from dspy.clients.lm import _get_litellm",
        "from dspy.clients.base_lm import GLOBAL_HISTORY",
        "import dspy\nwith dspy.context(caller_modules=[]): pass",
        "from dspy.dsp.utils.settings import main_thread_config",
        "def f(lm): return lm._engine_spec",
        "made = type('A', (B,), {})",
        "def f():\n    class A: pass",
    ],
)
def test_what_is_refused_is_found(source):
    assert len(problems(source)) == 1
