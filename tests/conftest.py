"""Every test runs alone: no home folder, no cache, no network settings of the machine it runs on."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

# DSPy reads these when it is first imported.
os.environ["DSPY_CACHEDIR"] = tempfile.mkdtemp(prefix="knowgap-test-dspy-")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pytest

pytest.register_assert_rewrite("conformance.material")  # its failed assertions show their values, too

HOME = Path(tempfile.mkdtemp(prefix="knowgap-test-home-"))
"""The home folder of knowgap in all tests of a worker: caches, and indexes that are built at first use."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background, where processes inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests, so that none of them is left for the end, when the other workers are idle."""
    order = ("test_notebooks", "test_docs", "test_stopping", "test_smoke")
    items.sort(key=lambda item: order.index(item.path.stem) if item.path.stem in order else len(order))


def pytest_unconfigure():
    """Remove the folders of this worker."""
    for folder in (HOME, os.environ["DSPY_CACHEDIR"]):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Take one worker more than there are cores, since some tests wait: for a process that dies, or for a time-out."""
    return (yield) + 1


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory):
    """Keep the variables that configure knowgap out of the tests, and what a test configures out of the next one."""
    for name in [name for name in os.environ if name.startswith("KNOWGAP_") and name != "KNOWGAP_TEST_DATA"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("KNOWGAP_HOME", str(HOME))
    import dspy
    from dspy.clients.cache import Cache

    kept = {"lm": dspy.settings.lm, "disable_history": dspy.settings.disable_history}
    cache, dspy.cache = dspy.cache, Cache(False, True, "")  # in memory, and empty
    yield
    if any(dspy.settings.get(name) is not value for name, value in kept.items()):
        dspy.configure(**kept)
    dspy.cache = cache
    if "optuna" in sys.modules:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.INFO)


def build_once(folders: pytest.TempPathFactory, name: str, build: Callable[[Path], object]) -> Path:
    """A folder that `build` fills, once for all workers. Tests must not change it."""
    from filelock import FileLock

    ours = folders.getbasetemp()
    place = (ours.parent if "PYTEST_XDIST_WORKER" in os.environ else ours) / name
    with FileLock(f"{place}.lock"):
        if not place.exists():
            build(place.with_suffix(".partial"))
            place.with_suffix(".partial").rename(place)
    return place


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch):
    """An endpoint in this process; there is no key for another one."""
    from endpoint import endpoint

    from knowgap.lms import quiet_dspy

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    quiet_dspy()
    with endpoint() as server:
        yield server


@pytest.fixture(scope="session")
def sample_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index that commands on the bundled sample use; tests take copies."""
    from knowgap.cli.main import main

    def build(home: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KNOWGAP_HOME", str(home))
            with pytest.raises(SystemExit):
                main(["search", "Stozette Prulonvik", "--index", "sample"])

    [index] = (build_once(tmp_path_factory, "sample-home", build) / "indexes").iterdir()
    return index


@pytest.fixture(scope="session")
def tiny_generator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generator of RQ-RAG that writes the format."""
    from tests.tiny import write_generator

    return build_once(tmp_path_factory, "tiny-generator", write_generator)
