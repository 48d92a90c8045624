"""A folder that is served: words first, vectors later, changes followed."""

import threading
import time
from contextlib import ExitStack, closing
from types import SimpleNamespace

import pytest

from knowgap.errors import IndexMissing
from knowgap.programs.baselines.rag import RAG
from knowgap.service import live_index as module
from knowgap.service.live_index import LiveIndex
from knowgap.service.searching import list_documents
from tests.app.service.conftest import SECONDS, asking, wait_until

ASKED = {"question": "Which river flows through Tarn?"}


def titles(index, query="river"):
    return sorted(hit.passage.id.partition("#")[0] for hit in index.search([query], 10)[0])


@pytest.fixture
def docs(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "tarn.md").write_text("The river Isk flows through Tarn.\n", encoding="utf-8")
    return folder


@pytest.fixture
def follow(docs, tmp_path):
    """Makes indexes that follow the folder; what they say is in `said`."""
    with ExitStack() as stack:

        def make(engine="bm25", seconds=0.05):
            said = []
            index = LiveIndex(docs, tmp_path / "kept", engine=engine, seconds=seconds, say=said.append)
            index.said = said
            return stack.enter_context(closing(index))

        yield make


@pytest.fixture
def live(follow):
    return follow()


def test_it_follows_the_folder(live, docs, follow):
    with pytest.raises(IndexMissing, match="still being read"):
        live.search(["river"], 1)
    live.start()
    wait_until(lambda: len(live) == 1)
    (docs / "orle.txt").write_text("The river Orle is short.\n", encoding="utf-8")
    wait_until(lambda: len(live) == 2)
    assert titles(live) == ["orle.txt", "tarn.md"]
    (docs / "tarn.md").unlink()
    wait_until(lambda: len(live) == 1)
    assert titles(live) == ["orle.txt"]
    (docs / "broken.pdf").write_bytes(b"junk")
    (docs / "notes.txt").write_bytes("Öl für Tarn".encode("cp1252"))
    (docs / "map.png").write_bytes(b"map")
    said = ("broken.pdf: cannot be read", "notes.txt: is not UTF-8", "left out: 1 .png")
    wait_until(lambda: all(any(line.startswith(start) for line in live.said) for start in said))
    listed = {each["name"]: each for each in list_documents(live)["documents"]}
    assert (listed["orle.txt"]["passages"], "cannot" in listed["broken.pdf"]["left_out"]) == (1, True)
    assert (listed["orle.txt"]["note"], "is not UTF-8" in listed["notes.txt"]["note"]) == ("", True)
    live.close()
    again = follow()
    again.start()
    wait_until(lambda: len(again) == 2)


@pytest.fixture
def gate(monkeypatch):
    """Builds of an index wait for `gate.go_on` where `gate.waits(engine)`; `gate.built` has the engines."""
    gate, build = SimpleNamespace(go_on=threading.Event(), built=[], waits=lambda engine: False), module.build_index

    def slowly(*arguments, engine, **options):
        if gate.waits(engine):
            assert gate.go_on.wait(SECONDS)
        gate.built.append(engine)
        return build(*arguments, engine=engine, **options)

    monkeypatch.setattr(module, "build_index", slowly)
    return gate


def test_words_can_be_searched_before_vectors(follow, gate):
    gate.waits = lambda engine: engine != "bm25"
    index = follow("dense")
    index.start()
    wait_until(lambda: len(index) == 1)
    assert index.manifest.engine == "bm25"
    gate.go_on.set()
    wait_until(lambda: index.manifest.engine == "dense")
    index.close()
    assert gate.built[:2] == ["bm25", "dense"]
    later = follow("dense")
    later.start()
    wait_until(lambda: len(later) == 1)
    assert later.manifest.engine == "dense"


def test_what_was_read_first_can_be_searched_while_the_others_are_read(docs, follow, monkeypatch, gate):
    for number in range(5):
        (docs / f"a-town-{number}.txt").write_text(f"Town {number} lies on a long river.\n" * 9, encoding="utf-8")
    monkeypatch.setattr(module, "_FIRST", 0.0)
    gate.waits = lambda engine: gate.built
    index = follow(seconds=SECONDS)
    assert index.being_read == (0, 6)
    with asking(RAG(index)) as client:
        index.start()
        wait_until(lambda: len(index))
        assert titles(index) == ["tarn.md"]
        part = {"searchable": 1, "documents": 6}
        assert client.get("/healthz").json()["index"]["being_read"] == part
        gate.go_on.set()
        wait_until(lambda: index.being_read is None)
        assert len(titles(index)) == 6
        assert "being_read" not in client.get("/healthz").json()["index"]
    assert len(gate.built) == 2


def test_an_error_of_any_kind_is_said_once_and_the_next_round_tries_again(live, gate, monkeypatch):
    monkeypatch.setattr(module, "_AFTER_FAILURE", 0.02)
    errors = [RuntimeError("locked"), RuntimeError("locked")]

    def fail(engine):
        if errors:
            raise errors.pop()

    gate.waits = fail
    live.start()
    wait_until(lambda: live.problem)
    assert "locked" not in live.problem
    wait_until(lambda: len(live) and not live.problem)
    assert len([line for line in live.said if "locked" in line]) == 1


@pytest.mark.parametrize("emptied", [False, True])
def test_a_folder_without_documents_has_no_index_and_clients_are_told(live, docs, tmp_path, monkeypatch, emptied):
    monkeypatch.setattr(module, "_AFTER_FAILURE", 0.1)
    if emptied:
        live.start()
        wait_until(lambda: len(live) == 1)
    (docs / "tarn.md").rename(tmp_path / "tarn.md")
    if not emptied:
        live.start()
    wait_until(lambda: live.problem)
    time.sleep(0.5)
    assert len([line for line in live.said if str(docs) in line]) == 1
    assert (len(live), live.being_read) == (0, None)
    with asking(RAG(live)) as client:
        refused, listed = client.post("/v1/ask", json=ASKED), client.get("/documents").json()
        assert (refused.status_code, refused.json()["error"]["message"]) == (503, listed["problem"])
        assert (listed["documents"], listed["busy"], str(docs) in listed["problem"]) == ([], "", False)
        assert client.post("/search", json={"query": "river"}).status_code == 503
    (tmp_path / "tarn.md").rename(docs / "tarn.md")
    wait_until(lambda: len(live) == 1 and not live.problem)
