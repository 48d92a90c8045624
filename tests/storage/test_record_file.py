"""A record file, which a later run continues."""

import pytest
from pydantic import BaseModel

from knowgap.errors import DataError, UsageError
from knowgap.storage.record_file import RecordFile, read_records


class Word(BaseModel, extra="forbid"):
    id: str
    text: str


ABOUT = {"teacher": "one", "index": 1}


def opened(path, about=ABOUT):
    return RecordFile(path, Word, about, "word")


def made(id):
    return Word(id=id, text=id.upper())


def test_a_file_is_filled_and_continued(tmp_path):
    path = tmp_path / "folder" / "words"
    with opened(path) as file:
        file.append(made("a"))
        file.append(made("c"))
    with path.open("a") as lines:
        lines.write('{"id": "d", "te')  # as a killed run leaves it
    with opened(path) as file:
        assert list(file.records.values()) == [made("a"), made("c")]
        file.append(made("b"))
        file.append(Word(id="a", text="the last counts"))
    expected = {"a": Word(id="a", text="the last counts"), "c": made("c"), "b": made("b")}
    assert read_records(path, Word) == (ABOUT, expected)
    assert not list(path.parent.glob(".*")), "the lock is gone"


def test_another_files_are_refused(tmp_path):
    path = tmp_path / "words"
    with opened(path) as file:
        file.append(made("a"))
        with pytest.raises(UsageError, match="another run is writing"):
            opened(path)
    with pytest.raises(UsageError, match="holds words about another index, teacher"):
        opened(path, {"teacher": "two", "index": 2})
    with path.open("a") as lines:
        lines.write("[]\n")
    for read in (lambda: opened(path), lambda: read_records(path, Word, "word")):
        with pytest.raises(DataError, match="words:3: damaged word"):
            read()
    path.write_text("{}\n")
    with pytest.raises(UsageError, match="is not a file of words"):
        opened(path)
    path.write_text("something else, without an end")
    with pytest.raises(UsageError, match="is not a file of words"):
        opened(path)
