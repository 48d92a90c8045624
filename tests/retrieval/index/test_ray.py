"""Indexes whose passages are encoded by workers of a local Ray, one of which dies: the same as those built here."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from knowgap.errors import MissingDependency, UsageError
from knowgap.retrieval import ColBERTIndex, DenseIndex, Passage

INSTALLED = importlib.util.find_spec("ray") is not None
PASSAGES = [Passage(str(i), f"Mill {i % 1500}", f"A mill on the river {i % 1500}.") for i in range(2000)]


@pytest.mark.skipif(not INSTALLED, reason="left out because Ray is not installed: pip install 'knowgap[ray]'")
@pytest.mark.long
def test_an_index_built_on_ray_is_the_same_as_one_built_here_although_a_worker_dies(tmp_path: Path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, __file__, str(tmp_path)], capture_output=True, env=environment, timeout=500, check=False
    )
    assert run.returncode == 0, run.stderr.decode()[-3000:]
    result = json.loads(run.stdout.decode().splitlines()[-1])
    assert (tmp_path / "tombstone").exists()
    assert len(result.pop("workers")) >= 2
    for engine, (there, here) in result.pop("files").items():
        assert there == here, engine
    assert "the folder of an index that is built on Ray" in result.pop("absent")
    assert not result


@pytest.mark.parametrize("build", [ColBERTIndex.build, DenseIndex.build])
def test_without_ray_the_way_to_get_it_is_said(build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependency, match=r"knowgap\[ray\]"):
        build(PASSAGES[:3], tmp_path / "index", ray_address="local")


@pytest.mark.skipif(not INSTALLED, reason="left out because Ray is not installed: pip install 'knowgap[ray]'")
@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:port"])
def test_where_no_cluster_listens_it_is_said_at_once(address: str, tmp_path: Path):
    with pytest.raises(UsageError, match=f"no Ray cluster at '{address}'"):
        DenseIndex.build(PASSAGES[:3], tmp_path / "index", ray_address=address)


class MortalEmbedding:
    """Digits of a digest as vectors; writes down which processes embed, and kills the one that first sees mill 900."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, texts: list[str]) -> list[list[int]]:
        with (self.folder / "embedded.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps([os.getpid(), len(texts)]) + "\n")
        tombstone = self.folder / "tombstone"
        if any("Mill 900" in text for text in texts) and not tombstone.exists():
            tombstone.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return [list(hashlib.sha256(text.encode()).digest()) for text in texts]


def vectors(folder: Path) -> dict[str, str]:
    """The digests of an index's arrays."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.rglob("*.npy"))}


def main(folder: Path) -> None:
    """Build indexes with two workers, and in this process; print what came of it."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    embed, few = MortalEmbedding(folder), PASSAGES[:700]
    there = DenseIndex.build(PASSAGES, folder / "dense", encoder=embed, ray_address="auto").path
    lines = (folder / "embedded.jsonl").read_text(encoding="utf-8").splitlines()
    workers = {process for process, size in map(json.loads, lines) if size > 1} - {os.getpid()}
    here = DenseIndex.build(PASSAGES, folder / "dense-here", encoder=embed).path
    files = {"dense": [vectors(there), vectors(here)]}
    there = ColBERTIndex.build(few, folder / "colbert", dim=32, clustered=True, ray_address="auto").path
    here = ColBERTIndex.build(few, folder / "colbert-here", dim=32, clustered=True).path
    files["colbert"] = [vectors(there), vectors(here)]
    absent = ""
    try:
        DenseIndex.build(few, folder / "absent", encoder=OnlyHere(), ray_address="auto")
    except UsageError as error:
        absent = str(error)
    sys.stdout.write(json.dumps({"workers": sorted(workers), "files": files, "absent": absent}))


class OnlyHere(MortalEmbedding):
    """An embedding whose vectors a worker cannot make."""

    def __init__(self) -> None:
        self.process = os.getpid()

    def __call__(self, texts: list[str]) -> list[list[int]]:
        return [[1, 0]] * (len(texts) if os.getpid() == self.process else 0)


if __name__ == "__main__":
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    main(Path(sys.argv[1]))
