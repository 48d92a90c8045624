"""Folders of files: what is read, and what hostile and broken files cost."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from document_files import archive, pdf, sheet, slides, word

from knowgap.errors import DataError
from knowgap.retrieval.documents.conversion import Converter, Unreadable
from knowgap.retrieval.documents.reading import Reading, open_folder, read_bytes, read_documents
from knowgap.retrieval.documents.splitting import Splitter
from knowgap.retrieval.window import embedded_window

SPLITTER = Splitter(embedded_window())


def read(root: Path):
    """By file name, the passages; and what reading has come to."""
    reading = Reading()
    files = {file.name: file for file in read_documents(open_folder(root), SPLITTER, reading)}
    return files, reading


def problems(root: Path, files: dict[str, bytes]) -> dict[str, str]:
    for name, content in files.items():
        (root / name).write_bytes(content)
    return read(root)[1].problems


def test_each_kind_is_read_with_titles_and_places(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    files = {
        "notes.txt": b"The Isk is a river.",
        "guide.md": b"# Guide\n\nIntro.\n\n## Tarn\n\nTarn is a town.",
        "sub/page.html": b"<title>Orle &amp; more</title><h2>Bridge</h2><p>Built by <a href='javascript:x()'>Ada</a>."
        b"<script>evil()</script><style>p {}</style><img src=http://x alt='a bridge'>",
        "report.pdf": pdf([["First page here."], ["Second page here."]]),
        "letter.docx": word([("Heading1", "Letter"), ("", "Dear Ada.")]),
        "talk.pptx": slides([("Opening", "Welcome to Tarn."), ("Ending", "Goodbye.")]),
        "towns.xlsx": sheet("2024", [["town", "river"], ["Tarn", "Isk"]]),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    found, reading = read(tmp_path)
    assert reading.problems == {}
    assert dict(reading.kinds) == {
        "text": 1, "Markdown": 1, "HTML": 1, "PDF": 1, "Word": 1, "PowerPoint": 1, "Excel": 1,
    }  # fmt: skip
    texts = {name: [(p.title, p.text) for p, _ in file.placed or ()] for name, file in found.items()}
    assert texts["notes.txt"] == [("notes", "The Isk is a river.")]
    assert texts["guide.md"] == [("Guide", "Intro."), ("Guide / Tarn", "Tarn is a town.")]
    assert texts["sub/page.html"] == [("Orle & more / Bridge", "Built by Ada.a bridge")]
    assert texts["report.pdf"] == [("report", "First page here.\nSecond page here.")]
    assert texts["letter.docx"] == [("Letter", "Dear Ada.")]
    assert texts["talk.pptx"] == [("talk / Opening", "Welcome to Tarn."), ("talk / Ending", "Goodbye.")]
    assert texts["towns.xlsx"] == [("towns / 2024", "| town | river |\n| --- | --- |\n| Tarn | Isk |")]
    places = {name: [str(source) for _, source in file.placed or ()] for name, file in found.items()}
    assert places["report.pdf"] == ["report.pdf, pages 1–2"]
    assert places["talk.pptx"] == ["talk.pptx, slide 1", "talk.pptx, slide 2"]


def test_what_cannot_be_read_is_named_and_the_others_go_on(tmp_path: Path):
    told = {
        "binary.txt": (bytes(range(256)), "is not text"),
        "blank.md": (b" \n\n ", "has no text"),
        "broken.docx": (b"junk", "is damaged, or not an Office file"),
        "broken.pdf": (b"%PDF-1.4 junk", "is damaged, or not a PDF file"),
        "broken.xlsx": (archive({"a.txt": "no sheet"}), "is damaged ("),
        "empty.txt": (b"", "is empty"),
        "locked.pdf": (pdf([["Secret."]], password="key"), "is encrypted"),
        "old.docx": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 and so on", "is encrypted, or of a format from before 2007"),
        "pictures.pdf": (pdf([[], []]), "has 2 pages without text"),
    }
    found = problems(tmp_path, {"a.txt": b"Readable.", **{name: content for name, (content, _) in told.items()}})
    assert found.keys() == told.keys()
    assert all(found[name].startswith(problem) for name, (_, problem) in told.items())


def test_encodings_are_told_by_their_mark_or_guessed_and_that_is_said(tmp_path: Path):
    text = "Dé­jà vu: la rivière coule près de l'église, où naquit Zoë, à côté du vieux château."
    for name, encoding in {"a": "utf-8-sig", "b": "utf-16", "c": "cp1252"}.items():
        (tmp_path / f"{name}.txt").write_bytes(text.encode(encoding))
    found, reading = read(tmp_path)
    assert {passage.text for file in found.values() for passage, _ in file.placed or ()} == {text}
    assert list(reading.notes) == ["c.txt"]
    assert reading.notes["c.txt"].startswith("is not UTF-8; read as ")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such links, pipes and names")
def test_nothing_outside_the_folder_is_read_and_nothing_is_waited_for(tmp_path: Path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    for each in (root / ".hidden", outside):
        each.mkdir(parents=True)
    (outside / "secret.txt").write_text("secret", encoding="utf-8")
    (root / "a.txt").write_text("A text.", encoding="utf-8")
    (root / ".hidden" / "b.txt").write_text("hidden", encoding="utf-8")
    (root / ".c.txt").write_text("hidden", encoding="utf-8")
    (root / "picture.png").write_bytes(b"x")
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "loop").symlink_to(root)
    (root / "out").symlink_to(outside)
    os.mkfifo(root / "pipe.txt")
    found, reading = read(root)
    assert list(found) == ["a.txt"]
    assert reading.left_out == {
        "hidden": 1, "hidden folders": 1, "not regular files": 1, "of the unknown kind .png": 1, "symbolic links": 3,
    }  # fmt: skip
    with pytest.raises(Unreadable, match="is a symbolic link"):
        read_bytes(root / "link.txt")
    with pytest.raises(Unreadable, match="is not a regular file"):
        read_bytes(root / "pipe.txt")
    with pytest.raises(DataError, match="there is no such folder"):
        open_folder(root / "absent")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names")
def test_names_cannot_command_a_terminal(tmp_path: Path):
    for name in (b"a\x1b[31m\n.txt", b"b\xff.txt"):
        (tmp_path / os.fsdecode(name)).write_text("A text.", encoding="utf-8")
    found, _ = read(tmp_path)
    assert list(found) == [r"a\x1b[31m\n.txt", r"b\udcff.txt"]
    [(passage, _)] = found[r"b\udcff.txt"].placed
    assert passage.title == r"b\udcff"


def test_a_file_may_not_be_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with (tmp_path / "huge.txt").open("wb") as file:
        file.truncate(2**40)  # a hole, which takes no space on the disk
    found = problems(tmp_path, {"bomb.docx": archive({"word/document.xml": bytes(1 << 20)} | _bomb())})
    assert found["huge.txt"] == "has 1,048,576 MiB, and at most 256 are read"
    assert "unpacks to 1,1" in found["bomb.docx"]


def _bomb() -> dict[str, bytes]:
    zeros = bytes(64 << 20)
    return {f"word/media/{n}.bin": zeros for n in range(18)}


def test_a_file_may_not_take_too_long_and_the_next_one_is_read():
    with Converter(seconds=0.01) as converter, pytest.raises(Unreadable, match=r"takes longer than 0\.01 seconds"):
        converter.convert("HTML", b"<p>x</p>" * 1_000_000)
    with Converter() as converter:
        with pytest.raises(Unreadable, match="is nested too deeply"):
            converter.convert("HTML", b"<b>" * 20_000)
        assert converter.convert("HTML", b"<p>Next.").text == "Next."


def test_a_converter_that_dies_costs_one_file():
    with Converter() as converter:
        process = converter._running()
        process.kill()
        process.wait()
        with pytest.raises(Unreadable, match="brings its converter down"):
            converter.convert("HTML", b"<p>One.")
        assert converter.convert("HTML", b"<p>Two.").text == "Two."


def test_without_the_extra_the_file_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "pypdfium2.py").write_text("raise ImportError('none')")
    monkeypatch.syspath_prepend(tmp_path)
    with Converter() as converter:
        with pytest.raises(Unreadable, match=r"is a PDF file, which needs `pip install 'knowgap\[documents\]'`"):
            converter.convert("PDF", b"")
        assert converter.convert("HTML", b"<p>One.").text == "One."
