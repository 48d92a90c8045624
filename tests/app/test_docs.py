"""The code blocks of README and docs, executed in order in one empty folder.

A `sh` block is run line by line, a `python` block as it stands. In a block that begins with `# elsewhere:` (it needs a
network, a GPU or a service) the command lines are checked against the command's options, and Python is compiled, but
neither is run. A `python` block that begins with the name of a file, as in `# mine.py`, is written to that file
instead. The commands of a `sh` block that begins with `# fails:` are refused, and what they say on standard error
counts as printed. An `output` block is what the block before it prints; renew them all with
`python tests/app/test_docs.py`, or those of some pages with `python tests/app/test_docs.py PAGE …`. A block with output
that README.md has word for word is run there only.

Processors round differently. What that may change of an output is stated in `alike`; all else is compared line by line.
"""

import io
import itertools
import os
import re
import shlex
import shutil
import sys
import tempfile
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OTHERS = {"git", "pytest", "cd", "cp", "curl", "pip", "export", "accelerate", "wget", "transformers", "vllm"}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def command_lines(code: str) -> list[list[str]]:
    joined = code.replace("\\\n", " ")
    lines = [line.split(" #")[0].strip() for line in joined.splitlines()]
    return [shlex.split(line) for line in lines if line and not line.startswith("#")]


def check_make(words: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in (word for word in words[1:] if "=" not in word):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"the Makefile has no target {target}"


def check_options(words: list[str]) -> None:
    """Whether the command exists and takes these options, without running it."""
    import typer

    from knowgap.cli.main import app

    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for word in words:
        if word.startswith("-"):
            assert word.split("=")[0] in known, f"knowgap {command.name} has no option {word}"


def run_command(words: list[str], status: int = 0) -> None:
    from knowgap.cli.main import main

    with pytest.raises(SystemExit) as end:
        main(words)
    assert (end.value.code or 0) == status, f"knowgap {shlex.join(words)} exited with {end.value.code}"


def run_block(language: str, code: str, names: dict, page: str) -> str:
    """What a block prints."""
    elsewhere, fails, printed = code.startswith("# elsewhere:"), code.startswith("# fails:"), io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed) if fails else nullcontext():
        if language == "python":
            compiled = compile(code, page, "exec")
            if file := re.match(r"# (\w+\.py)\n", code):
                Path(file[1]).write_text(code, encoding="utf-8")
            elif not elsewhere:
                exec(compiled, names)
        elif language == "sh":
            for words in command_lines(code):
                if words[0] == "make":
                    check_make(words)
                elif words[0] == "knowgap":
                    check_options(words[1:]) if elsewhere else run_command(words[1:], 2 if fails else 0)
                elif words[0] == "mkdir":
                    Path(words[-1]).mkdir(parents=True, exist_ok=True)
                elif words[0] == "echo":
                    Path(words[3]).write_text(words[1] + "\n", encoding="utf-8")
                elif words[0] == "python":
                    assert elsewhere
                    assert (ROOT / words[1]).is_file(), f"{page} runs {words[1]}, which is not there"
                else:
                    assert words[0] in OTHERS, f"{page} has an unknown command {words}"
    return lines(printed.getvalue())


def lines(text: str) -> str:
    """A text without the blanks at the ends of its lines, and without what differs from run to run."""
    text = re.sub(r"\(\d+ from cache", "(… from cache", re.sub(r"\d+\.\d+ s$", "… s", text, flags=re.MULTILINE))
    return "".join(line.rstrip() + "\n" for line in text.rstrip().splitlines())


NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def alike(stands: str, printed: str) -> bool:
    """Whether two outputs differ at most by what another processor may change.

    The last digit of a decimal may differ by one, and lines beside each other that end with a score, such as `(-3.68)`,
    may be in another order.
    """
    mine, theirs = _ordered(stands), _ordered(printed)
    if NUMBER.sub("#", mine) != NUMBER.sub("#", theirs):
        return False
    return all(_near(one, other) for one, other in zip(*map(NUMBER.findall, (mine, theirs)), strict=True))


def _ordered(text: str) -> str:
    """A text with runs of lines that end with a score in the order of their words."""
    runs = itertools.groupby(text.splitlines(), key=lambda line: bool(re.search(r"\(-?\d+\.\d+\)$", line)))
    return "\n".join(line for scored, run in runs for line in (sorted(run, key=_words) if scored else run))


def _words(line: str) -> str:
    return re.sub(r"\(-?\d+\.\d+\)$", "", line)


def _near(one: str, other: str) -> bool:
    places = [len(number.partition(".")[2]) for number in (one, other)]
    digit = 1.5 * 10.0 ** -places[0] if places[0] else 0.0
    return one == other or (places[0] == places[1] and abs(float(one) - float(other)) <= digit)


def run_page(page: Path) -> list[tuple[str, str]]:
    """What each `output` block of a page has, and what it should have."""
    names: dict = {"__name__": "__main__"}
    printed, outputs, path, loaded = "", [], list(sys.path), {*sys.modules}
    of_readme = {} if page == PAGES[0] else dict(itertools.pairwise(blocks(PAGES[0])))
    try:
        for language, code in blocks(page):
            if language == "output":
                outputs.append((code, printed))
            elif (language, code) in of_readme and of_readme[language, code][0] == "output":
                printed = of_readme[language, code][1]
            else:
                printed = run_block(language, code, names, page.name)
        return outputs
    finally:
        sys.path[:] = path
        for name in {path.stem for path in Path.cwd().glob("*.py")} - loaded:
            sys.modules.pop(name, None)


@pytest.fixture
def _closed_studies():
    """Close the databases of studies that the code of a page opens with Optuna, as the end of its process would."""
    engines = []

    def opened(connection):
        engines.append(connection.engine)

    event.listen(Engine, "engine_connect", opened)
    yield
    event.remove(Engine, "engine_connect", opened)
    for engine in engines:
        engine.dispose()


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.usefixtures("_closed_studies")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_code_of_a_page_runs_and_prints_what_stands_there(
    page: Path, sample_index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The index of the sample is there already: a page that builds it finds it built."""
    (tmp_path / "page").mkdir()
    monkeypatch.chdir(tmp_path / "page")
    monkeypatch.setenv("KNOWGAP_HOME", str(tmp_path / "home"))
    for copy in (tmp_path / "home" / "indexes" / sample_index.name, Path("sample-index")):
        shutil.copytree(sample_index, copy, copy_function=os.link)
    for stands, printed in run_page(page):
        assert printed == lines(stands) or alike(lines(stands), printed)


def renew() -> None:
    """Write what the blocks print into the `output` blocks after them."""
    here = Path.cwd()
    os.environ["KNOWGAP_HOME"] = tempfile.mkdtemp()
    for page in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        text = page.read_text(encoding="utf-8")
        if "```output\n" not in text:
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                outputs = [lines(should) for _, should in run_page(page)]
            except (Exception, pytest.fail.Exception) as error:
                sys.stderr.write(f"{page}: left as it is, since its code fails: {error!r}\n")
                continue
            finally:
                os.chdir(here)
        parts = re.split(r"^```output\n.*?^```$", text, flags=re.MULTILINE | re.DOTALL)
        renewed = [f"```output\n{output}```{part}" for output, part in zip(outputs, parts[1:], strict=True)]
        page.write_text("".join([parts[0], *renewed]), encoding="utf-8")


if __name__ == "__main__":
    renew()
