"""The notebooks run from top to bottom, each in an empty folder, beside a running event loop, as in Jupyter."""

import ast
import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def run_cells(notebook: Path) -> None:
    """Run the code cells in one namespace; what a cell ends with is formatted as Jupyter would show it."""
    from IPython.core.formatters import DisplayFormatter

    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(json.loads(notebook.read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] != "code":
            continue
        place = f"{notebook.name}, cell {number}"
        *statements, last = ast.parse("".join(cell["source"]), place).body
        if not isinstance(last, ast.Expr):
            statements.append(last)
        exec(compile(ast.Module(statements, []), place, "exec"), names)
        if isinstance(last, ast.Expr):
            DisplayFormatter().format(eval(compile(ast.Expression(last.value), place, "eval"), names))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
@pytest.mark.filterwarnings("ignore")
def test_a_notebook_runs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KNOWGAP_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    loop = asyncio.new_event_loop()
    done = loop.create_future()

    def run() -> None:
        try:
            done.set_result(run_cells(notebook))
        except BaseException as error:
            done.set_exception(error)

    loop.call_soon(run)
    try:
        loop.run_until_complete(done)
    finally:
        loop.close()
