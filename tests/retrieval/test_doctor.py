from importlib.metadata import PackageNotFoundError
from unittest.mock import Mock

import pytest

from knowgap.retrieval import BM25Index, doctor
from tests.retrieval.conformance import corpus, flip_last_bit


def test_this_machine():
    findings = {finding.name: finding for finding in doctor.examine()}
    assert findings["embedded encoder"].state == "ok"
    assert findings["colbert-ai loads"].state == "ok"
    assert findings["torch"].detail[0].isdigit()
    assert {finding.state for finding in findings.values()} <= {"ok", "absent"}
    assert all(finding.detail for finding in findings.values())


def test_a_healthy_index_and_an_altered_one(tmp_path):
    BM25Index.build(corpus(), tmp_path / "index")
    findings = doctor.examine_index(tmp_path / "index")
    states = {finding.name.split()[-1]: finding.state for finding in findings}
    assert states == {"manifest": "ok", "files": "ok", "search": "ok"}
    flip_last_bit(tmp_path / "index" / "segment-0" / "bm25" / "scores.npy")
    files = doctor.examine_index(tmp_path / "index")[1]
    assert files.state == "broken"
    assert "altered" in files.detail
    assert "build it again" in files.remedy


def test_no_index_but_an_unfinished_build(tmp_path):
    def stream():
        yield corpus()[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        BM25Index.build(stream(), tmp_path / "index")
    findings = doctor.examine_index(tmp_path / "index")
    assert [finding.state for finding in findings] == ["broken", "broken", "broken", "absent"]
    assert "not finished" in findings[0].detail


def test_what_is_missing_or_fails_is_named(monkeypatch):
    monkeypatch.setattr(doctor, "version", Mock(side_effect=PackageNotFoundError))
    monkeypatch.setattr("os.sysconf", Mock(side_effect=OSError("not on this machine")))
    findings = {finding.name: finding for finding in doctor.examine()}
    assert (findings["syntok"].state, findings["syntok"].remedy) == ("broken", "pip install syntok")
    assert findings["qdrant-client"].state == "absent"
    assert (findings["memory"].state, findings["memory"].detail) == ("broken", "OSError: not on this machine")
