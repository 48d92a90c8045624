"""Files, folders and record files whose writer is killed at any step, or cut off at any byte, and what is refused."""

import itertools
import os
from contextlib import suppress

import pytest
from pydantic import BaseModel

from knowgap.errors import DataError, UsageError
from knowgap.storage import files
from knowgap.storage.record_file import RecordFile, read_records

STEPS = ("open", "fsync", "replace", "unlink", "mkdir", "rename")


class Word(BaseModel, extra="forbid"):
    id: str
    text: str = "word"


def die_at(step):
    """Let this process die at its step-th call of a function that changes the disk."""
    left = itertools.count(step, -1)

    def counted(real):
        return lambda *args, **kwargs: real(*args, **kwargs) if next(left) > 0 else os._exit(9)

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    files._exchange = counted(files._exchange)


def killed_at_every_step(job):
    """Run a job in processes that die at their first, second, … step, until one survives; yields after each."""
    for step in range(200):
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                die_at(step)
                job()
                os._exit(0)
            os._exit(1)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, 9), status
        yield status == 0
        if status == 0:
            return
    raise AssertionError("the job never ended")


def test_a_file_has_its_old_content_or_the_new_one(tmp_path):
    path, seen = tmp_path / "file", set()
    files.write_file(path, "old")
    for survived in killed_at_every_step(lambda: files.write_file(path, "new")):
        seen.add((survived, path.read_text()))
        files.write_file(path, "old")
        assert os.listdir(tmp_path) == ["file"], "the next writer removes what the killed one left"
    assert (True, "new") in seen
    assert {(False, "old"), (False, "new")} <= seen <= {(False, "old"), (False, "new"), (True, "new")}


def test_a_folder_is_the_old_one_or_the_new_one(tmp_path):
    path, seen = tmp_path / "folder", set()

    def write(content):
        with files.write_folder(path) as beside:
            for name in "abc":
                (beside / name).write_text(content)

    write("old")
    for survived in killed_at_every_step(lambda: write("new")):
        seen.add((survived, "".join(sorted({(path / name).read_text() for name in "abc"}))))
        write("old")
        assert os.listdir(tmp_path) == ["folder"]
    assert (True, "new") in seen
    assert {text for _, text in seen} == {"old", "new"}


def test_a_record_file_keeps_what_was_appended(tmp_path):
    path, told = tmp_path / "records", tmp_path / "told"

    def job():
        with RecordFile(path, Word, {"a": 1}) as file, told.open("a") as done:
            for id in (str(number) for number in range(20) if str(number) not in file.records):
                file.append(Word(id=id))
                done.write(f"{id}\n")
                done.flush()

    for _ in killed_at_every_step(job):
        if path.exists() and path.stat().st_size:
            assert {*read_records(path, Word)[1]} >= {*told.read_text().split()} if told.exists() else True
    assert len(read_records(path, Word)[1]) == 20
    assert len(told.read_text().split()) == 20, "nothing was made twice"


def test_a_record_file_that_was_cut_off_anywhere_continues(tmp_path):
    path = tmp_path / "records"
    with RecordFile(path, Word, {"a": 1}) as file:
        for id in "xyz":
            file.append(Word(id=id))
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with RecordFile(path, Word, {"a": 1}) as file:
            assert len(file.records) == max(0, whole[:size].count(b"\n") - 1)
            for id in "xyz":
                if id not in file.records:
                    file.append(Word(id=id))
        assert path.read_bytes() == whole


def test_records_are_found_by_id_and_the_last_one_counts(tmp_path):
    path, about = tmp_path / "folder" / "words", {"teacher": "one", "index": 1}
    for text in ("first", "last"):
        with RecordFile(path, Word, about, "word") as file:
            file.append(Word(id="a", text=text))
            file.append(Word(id=text))
    ids = {"a": Word(id="a", text="last"), "first": Word(id="first"), "last": Word(id="last")}
    assert read_records(path, Word) == (about, ids)
    assert not list(path.parent.glob(".*")), "the lock is gone"


def test_another_files_are_refused(tmp_path):
    path, about = tmp_path / "words", {"teacher": "one", "index": 1}

    def opened(about=about):
        return RecordFile(path, Word, about, "word")

    with opened() as file:
        file.append(Word(id="a"))
        with pytest.raises(UsageError, match="another run is writing"):
            opened()
    with pytest.raises(UsageError, match="differs in: index, teacher"):
        opened({"teacher": "two", "index": 2})
    with path.open("a") as lines:
        lines.write("[]\n")
    for read in (opened, lambda: read_records(path, Word, "word")):
        with pytest.raises(DataError, match="words:3: damaged word"):
            read()
    for other in ("{}\n", "something else, without an end"):
        path.write_text(other)
        with pytest.raises(UsageError, match="is not a file of words"):
            opened()
