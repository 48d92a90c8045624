"""A file of records that a later run continues."""

import pytest
from pydantic import BaseModel

from knowgap.compile.teacher.record_file import RecordFile, read_record_file
from knowgap.errors import DataError, UsageError


class Word(BaseModel, extra="forbid"):
    id: str
    text: str


def opened(path, made_with=None):
    return RecordFile(path, Word, "word", made_with)


def made(id):
    return Word(id=id, text=id.upper())


@pytest.mark.parametrize("made_with", [None, {"teacher": "one"}])
def test_a_file_is_filled_and_continued(tmp_path, made_with):
    path, asked, told = tmp_path / "folder" / "words", [], []

    def make(id):
        asked.append(id)
        return made(id) if id != "b" else None

    with opened(path, made_with) as file:
        file.fill(["a", "b", "c"], make, 1, lambda *step: told.append(step), lambda: str(len(file.records)))
    assert told == [(1, 3, "1"), (2, 3, "1"), (3, 3, "2")]
    with path.open("a") as lines:
        lines.write('{"id": "d", "te')  # as a killed run leaves it
    with opened(path, made_with) as file:
        assert list(file.records.values()) == [made("a"), made("c")]
        file.fill(["a", "b", "c", "d"], make, 4, lambda *step: told.append(step))
        assert list(file.records) == ["a", "c", "d"]
    assert asked == ["a", "b", "c", "b", "d"]
    assert [step[:2] for step in told[3:]] == [(3, 4), (4, 4)]
    if made_with is None:
        assert list(read_record_file(path, Word, "word")) == ["a", "c", "d"]
    assert not list(path.parent.glob(".*")), "the lock is gone"


def test_another_files_are_refused(tmp_path):
    path = tmp_path / "words"
    with opened(path, {"teacher": "one", "index": 1}) as file:
        file.append(made("a"))
        with pytest.raises(UsageError, match="another run is writing"):
            opened(path)
    with pytest.raises(UsageError, match="made with another index, teacher"):
        opened(path, {"teacher": "two", "index": 2})
    with pytest.raises(DataError, match="words:1: is no word"):
        read_record_file(path, Word, "word")
    with path.open("a") as lines:
        lines.write("[]\n")
    with pytest.raises(DataError, match="words:3: is no word"):
        opened(path, {"teacher": "one", "index": 1})
    path.write_text("{}\n")
    with pytest.raises(DataError, match="words:1: is no file of words"):
        opened(path, {"teacher": "one"})
    assert read_record_file(tmp_path / "none", Word, "word") == {}
