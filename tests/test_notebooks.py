"""The notebooks run from top to bottom, each in an empty folder, beside a running event loop, as in Jupyter."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def run_cells(notebook: Path) -> None:
    """Run the code cells in one namespace."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(json.loads(notebook.read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{notebook.name}, cell {number}", "exec"), names)


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
