"""Folders of files: what is read, and what hostile and broken files cost."""

import os
import subprocess

import pytest

import knowgap
from knowgap.retrieval.documents.conversion import Converter, convert
from knowgap.retrieval.documents.reading import Reading, find_files, read_documents
from knowgap.retrieval.documents.splitting import Splitter
from knowgap.retrieval.documents.text import NotNow, Unreadable
from tests.retrieval.documents.files import SPLITTER, pdf, sheet, word


def read(root):
    """By file name, the passages; and what reading has come to."""
    reading = Reading()
    files = {file.name: file for file in read_documents(find_files(root, reading), SPLITTER, reading)}
    return files, reading


def problems(root, files):
    for name, content in files.items():
        (root / name).write_bytes(content)
    return read(root)[1].problems


PAGE = """<title>Orle &amp; more</title><h2>Bridge</h2><p>Built by <a href='javascript:x()'>Ada</a>.
<script>evil()</script><style>p {}</style><img src=http://x alt='a bridge'>"""
KINDS = {
    "guide.md": (b"# Guide\n\n## Tarn\n\nA town.", [("Guide / Tarn", "A town.", "guide.md")]),
    "sub/page.html": (PAGE.encode(), [("Orle & more / Bridge", "Built by Ada. a bridge", "sub/page.html")]),
    "report.pdf": (pdf([["First."], ["Second."]]), [("report", "First.\nSecond.", "report.pdf, pages 1–2")]),
    "letter.docx": (word([("Heading1", "Letter"), ("", "Dear Ada.")]), [("Letter", "Dear Ada.", "letter.docx")]),
    "towns.csv": (
        b'town;remark\nOrle;"long;\n narrow"\n\nIsk;\n',
        [("towns", "town: Orle; remark: long; narrow\ntown: Isk", "towns.csv, rows 2–4")],
    ),
}


def test_each_kind_is_read_with_titles_and_places(tmp_path):
    (tmp_path / "sub").mkdir()
    assert problems(tmp_path, {name: content for name, (content, _) in KINDS.items()}) == {}
    found, _ = read(tmp_path)
    for name, (_, passages) in KINDS.items():
        assert [(each.title, each.text, str(source)) for each, source in found[name].placed] == passages


def test_what_cannot_be_read_is_named_and_the_others_go_on(tmp_path):
    told = {
        "binary.txt": (bytes(range(256)), "is not text"),
        "blank.md": (b" \n\n ", "has no text"),
        **dict.fromkeys(("broken.docx", "broken.pptx", "broken.xlsx"), (b"junk", "cannot be read as ")),
        "broken.pdf": (b"%PDF-1.4 junk", "cannot be read as PDF"),
        "empty.txt": (b"", "has no text"),
        "locked.pdf": (pdf([["Secret."]], password="key"), "cannot be read as PDF"),
        "old.docx": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 and so on", "is encrypted, or in a format older than 2007"),
        "pictures.pdf": (pdf([["1"], ["2"], ["3"], []]), "has 4 pages without text"),
    }
    found = problems(tmp_path, {"a.txt": b"Readable.", **{name: content for name, (content, _) in told.items()}})
    assert found.keys() == told.keys()
    assert all(found[name].startswith(problem) for name, (_, problem) in told.items())


FRENCH = "Dé­jà vu: la rivière coule près de l'église, où naquit Zoë, à côté du vieux château."


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        *((FRENCH, encoding) for encoding in ("utf-8-sig", "utf-16", "cp1252")),
        *((f"<meta charset={name}>Œuvre, 5 €", name) for name in ("iso-8859-15", "macintosh", "windows-1252")),
        *((f"encoding='{name}' Мост был открыт", name) for name in ("iso-8859-5", "koi8-u")),
        ("charset=iso-8859-2, charset=utf-16: „Příliš žluťoučký kůň úpěl“", "cp1250"),
        ("Verrà pagata entro giovedì.", "cp1252"),
        ("Die Straße ist für Fußgänger gesperrt.", "cp1252"),
        ("El niño comió una manzana en la montaña, según dijo su mamá.", "cp1252"),
        ("Preis: 20 € je Stück, 5 m² Fläche", "cp1252"),
        ("Zażółć gęślą jaźń. Wczoraj byłem w Łodzi, a dziś jestem w Krakowie.", "cp1250"),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy.", "cp1250"),
        ("A szerződést két évre kötötték, és az idő lejárta után újítják meg.", "cp1250"),
        ("Sözleşme iki yıl için geçerlidir ve çalışanların ücreti aylık ödenir.", "cp1254"),
        ("Līgums ir spēkā divus gadus, un maksājums jāveic katru mēnesi.", "cp1257"),
        *(("Мост через реку был построен в 1931 году архитектором.", name) for name in ("cp1251", "koi8_r", "cp866")),
        ("Η γέφυρα χτίστηκε το 1931 από τον αρχιτέκτονα.", "cp1253"),
        ("הגשר נבנה בשנת 1931 על ידי האדריכל.", "cp1255"),
        ("تم بناء الجسر في عام 1931 من قبل المهندس المعماري.", "cp1256"),
        ("สะพานนี้สร้างขึ้นในปี 1931 โดยสถาปนิก", "cp874"),
        *(("橋は1931年に建てられました。", name) for name in ("shift_jis", "euc_jp")),
        ("다리는 1931년에 건축가가 지었습니다.", "cp949"),
        ("这座桥是1931年由建筑师建造的,它在河的上游。", "gb18030"),
        ("這座橋是1931年由建築師建造的,它在河的上游。", "big5"),
    ],
)
def test_encodings_are_told_by_their_mark_or_else_the_common_one_is_guessed_and_that_is_said(text, encoding):
    made = convert("text", text.encode(encoding))
    assert made.text == text.replace("\xad", "")
    assert made.note.startswith("is not UTF-8; read as ") != encoding.startswith("utf")


def test_nothing_outside_the_folder_is_read_and_nothing_is_waited_for(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    for each in (root / ".hidden", outside):
        each.mkdir(parents=True)
    (outside / "secret.txt").write_text("secret", encoding="utf-8")
    (root / "a.txt").write_text("A text.", encoding="utf-8")
    (root / ".hidden" / "b.txt").write_text("hidden", encoding="utf-8")
    (root / ".c.txt").write_text("hidden", encoding="utf-8")
    (root / "README").write_text("Another text.", encoding="utf-8")
    (root / "program").write_bytes(b"\x7fELF\0")
    (root / "picture.png").write_bytes(b"x")
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "loop").symlink_to(root)
    (root / "out").symlink_to(outside)
    os.mkfifo(root / "pipe.txt")
    found, reading = read(root)
    assert list(found) == ["README", "a.txt"]
    assert reading.left_out == {
        "hidden": 2, "not regular files": 1, ".png (not a kind that is read)": 1, "symbolic links": 3,
        "with no ending such as .txt, and no text": 1,
    }  # fmt: skip


def test_an_index_among_the_documents_is_not_read(tmp_path):
    (tmp_path / "app").mkdir()
    for name in ("a.txt", "app/b.txt", "app/manifest.json"):
        (tmp_path / name).write_text("A text.", encoding="utf-8")
    knowgap.build_index(tmp_path, tmp_path / "index", engine="bm25")
    (tmp_path / "index" / "vocab.txt").write_text("as in the embedded checkpoint", encoding="utf-8")
    found, reading = read(tmp_path)
    assert list(found) == ["a.txt", "app/b.txt"]
    assert reading.left_out["indexes"] == 1


def test_names_cannot_command_a_terminal(tmp_path):
    for name in (b"a\x1b[31m\n.txt", b"b\xff.txt"):
        (tmp_path / os.fsdecode(name)).write_text("A text.", encoding="utf-8")
    found, _ = read(tmp_path)
    assert list(found) == [r"a\x1b[31m\n.txt", r"b\udcff.txt"]
    [(passage, _)] = found[r"b\udcff.txt"].placed
    assert passage.title == r"b\udcff"


def test_a_file_may_not_be_too_large(tmp_path):
    with (tmp_path / "huge.txt").open("wb") as file:
        file.truncate(2**40)  # a hole, which takes no space on the disk
    assert problems(tmp_path, {}) == {"huge.txt": "has 1,048,576 MiB, and at most 256 are read"}


HANGING = b"<b>Town</b> " * 300_000
FAR = sheet("Towns", [["Tarn"]], merged=("J1048575:J1048576",))


def test_a_file_that_takes_too_long_is_ended_and_the_next_one_is_read():
    with Converter(SPLITTER, 2, 0) as converter:
        with pytest.raises(Unreadable, match="takes longer than the 2 seconds"):
            converter.convert("a.html", "HTML", HANGING)
        assert _texts(converter, "text", b"Next.") == ["Next."]
        assert _texts(converter, "Excel", FAR) == ["Tarn"]


def test_what_is_nested_deeply_is_read_or_named(tmp_path):
    (tmp_path / "a.html").write_text("".join(f"<p>Town {n}" for n in range(8_000)), encoding="utf-8")
    (tmp_path / "b.html").write_text("<div>" * 20_000 + "Town", encoding="utf-8")
    found, reading = read(tmp_path)
    text = " ".join(passage.text for passage, _ in found["a.html"].placed)
    assert all(f"Town {n}" in text for n in range(8_000))
    assert reading.problems["b.html"].startswith("cannot be read as HTML")


def _texts(converter, kind, content):
    return [passage.text for passage, _ in converter.convert("next", kind, content)[0]]


def test_a_converter_that_dies_costs_one_file(monkeypatch):
    def ended(*arguments, start=subprocess.Popen, **options):
        process = start(["false"], **options)
        process.wait()
        return process

    with Converter(SPLITTER) as converter:
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "Popen", ended)
            with pytest.raises(NotNow, match="exit code 1"):
                converter.convert("one.html", "HTML", b"<p>One.")
        assert _texts(converter, "HTML", b"<p>Two.") == ["Two."]
    with Converter(SPLITTER) as converter:
        process = converter._running()
        process.kill()
        process.wait()
        with pytest.raises(NotNow, match="exit code -9"):
            converter.convert("one.html", "HTML", b"<p>One.")
        assert _texts(converter, "HTML", b"<p>Two.") == ["Two."]


def test_no_code_in_the_current_folder_is_run(tmp_path, monkeypatch):
    for name in ("json", "pickle", "psutil"):  # which a converter imports
        (tmp_path / f"{name}.py").write_text("open('ran', 'w')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with Converter(Splitter()) as converter:
        [(passage, _)], _ = converter.convert("a.txt", "text", b"Orle is a town.")
    assert passage.text == "Orle is a town."
    assert not (tmp_path / "ran").exists()


def test_without_the_extra_the_file_says_how_to_get_it(tmp_path, monkeypatch):
    (tmp_path / "pypdfium2.py").write_text("raise ImportError('none')")
    monkeypatch.syspath_prepend(tmp_path)
    with Converter(SPLITTER) as converter:
        with pytest.raises(NotNow, match=r"is a PDF file, which needs `pip install 'knowgap\[documents\]'`"):
            converter.convert("one.pdf", "PDF", b"")
        assert _texts(converter, "HTML", b"<p>One.") == ["One."]
