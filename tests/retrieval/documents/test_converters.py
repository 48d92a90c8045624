"""What converters keep of real pages, books and sheets, and what they leave out."""

from __future__ import annotations

import datetime
import io

import pytest

from knowgap.retrieval.documents.conversion import convert
from knowgap.retrieval.documents.splitting import Splitter
from knowgap.retrieval.documents.text import Text, Unreadable
from knowgap.retrieval.minilm import embedded_window
from tests.retrieval.documents.files import pdf, sheet

SPLITTER = Splitter(embedded_window())


def passages(text: Text) -> list[tuple[str, str]]:
    pieces = SPLITTER.split_file("file", text)
    return [(passage.title, passage.text) for passage, _ in pieces]


PAGE = """<title>Orle</title>
<nav><a href=/>Home</a> <a href=/about>About us</a></nav>
<div class="nav-panel">Next: <a href=b.html rel=next>Tarn</a>, Up: <a href=. rel=up>Towns</a></div>
<ul id=toc><li><a href="#b">Bridge</a></li></ul>
<div role=navigation>Search</div>
<h1 id=b>Bridge<a class=headerlink href="#b">¶</a></h1>
<p>Built by <a href=venn.html>Ada Venn</a> for my_town*2; see <a href="#x">below</a>.</p>
<article><p>Quoted.</p><footer>Said by Ada.</footer></article>
<footer>Copyright 2024 <a href=/imprint>Imprint</a></footer>
"""


def test_what_leads_around_a_site_is_no_passage():
    assert passages(convert("HTML", PAGE.encode())) == [
        ("Orle / Bridge", "Built by Ada Venn for my_town*2; see below.\n\nQuoted.\n\nSaid by Ada.")
    ]


def test_a_page_that_only_leads_around_is_read():
    page = b"<nav><a href=/orle>The town of Orle</a> <a href=/tarn>Tarn</a></nav>"
    assert convert("HTML", page).text == "The town of Orle Tarn"


def test_a_page_is_read_in_the_encoding_that_it_declares_or_else_is_guessed_and_that_is_said():
    page = "<title>Göteborg</title>{}<p>Höjden är fyra meter, och därför är det trångt på ön.".format
    meta = "<meta charset={}>".format
    for declared, encoding in ((meta("latin1"), "latin-1"), (meta("utf-8"), "utf-8"), ("", "utf-8"), ("", "utf-16")):
        made = convert("HTML", page(declared).encode(encoding))
        assert (made.title, made.note) == ("Göteborg", "")
    for declared in ("", meta("utf-8"), meta("none")):
        made = convert("HTML", page(declared).encode("cp1252"))
        assert (made.title, made.text[:6]) == ("Göteborg", "Höjden")
        assert made.note.startswith("is not UTF-8; read as ")
    with pytest.raises(Unreadable, match="is not text"):
        convert("HTML", bytes(range(256)) * 9)


def test_a_table_that_lays_out_a_page_is_no_table_and_a_first_row_is_a_header():
    inner = "<table><tr><td>town</td><td>river</td></tr><tr><td>Tarn</td><td>Isk</td></tr></table>"
    page = f"<table><tr><td><h2>Towns</h2>{inner}</td><td><p>Beside.</p></td></tr></table>"
    text = convert("HTML", page.encode()).text
    assert text == "## Towns\n\n| town | river |\n| --- | --- |\n| Tarn | Isk |\n\nBeside."


def test_a_paragraph_is_one_line_and_what_is_stressed_quoted_or_defined_has_no_marks():
    quoted = "<blockquote><dl><dt>Toll</dt>\n<dd>Two marks\na day.</dl></blockquote>"
    assert (
        convert("HTML", f"<p>The <b>Orle\nBridge</b> is <em>old</em>.{quoted}".encode()).text
        == "The Orle Bridge is old.\n\nToll\n\nTwo marks a day."
    )
    assert convert("HTML", b"<pre>let a\n  b</pre>").text == "```\nlet a\n  b\n```"


def book(pages: int = 5) -> bytes:
    """A PDF with a running head, page numbers, and a heading in larger letters on each page."""
    from reportlab.pdfgen.canvas import Canvas

    file = io.BytesIO()
    canvas = Canvas(file)
    canvas.setTitle("The bridges of Orle")
    for number in range(1, pages + 1):
        canvas.setFont("Helvetica", 10)
        canvas.drawString(50, 800, f"Orle County Council · {number}")
        canvas.setFont("Helvetica", 18)
        canvas.drawString(50, 760, f"{number}. Bridge number {number}")
        canvas.setFont("Helvetica", 10)
        name = "ABCDE"[number - 1]
        for line in range(6):
            canvas.drawString(50, 700 - 14 * line, f"Line {line} says that bridge {name} was built by Ada Venn.")
        canvas.drawString(300, 40, str(number))
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def test_a_pdf_has_its_headings_and_no_running_heads():
    found = passages(convert("PDF", book()))
    assert [title for title, _ in found[-5:]] == [
        f"The bridges of Orle / {n}. Bridge number {n}" for n in range(1, 6)
    ]  # fmt: skip
    text = "\n".join(text for _, text in found)
    assert text.count("Orle County Council") == 1
    assert all(text.count(f"bridge {n} was built") == 6 for n in "ABCDE")
    assert not [line for line in text.splitlines() if line.strip().isdigit()]


def test_a_pdf_without_a_title_has_that_of_its_first_page():
    from reportlab.pdfgen.canvas import Canvas

    file = io.BytesIO()
    canvas = Canvas(file)
    canvas.setTitle("a.dvi")
    for size, line in (
        (20, "arXiv:2601.01234v1"),
        (17, "The Bridges of Orle"),
        (17, "and of Tarn"),
        (10, "By Ada Venn."),
    ):
        canvas.setFont("Helvetica", size)
        canvas.drawString(50, 700 - 20 * (20 - size), line)
    for number in range(2):
        canvas.setFont("Helvetica", 12)
        canvas.drawString(50, 400, f"Part {number}")
        canvas.setFont("Helvetica", 10)
        for line in range(9):
            canvas.drawString(50, 380 - 14 * line, f"Line {line} of part {number}.")
        canvas.showPage()
    canvas.save()
    titles = [title for title, _ in passages(convert("PDF", file.getvalue()))]
    assert titles[-2:] == ["The Bridges of Orle and of Tarn / Part 0", "The Bridges of Orle and of Tarn / Part 1"]


def test_a_pdf_of_page_numbers_alone_has_no_text():
    with pytest.raises(Unreadable, match="has 3 pages without text"):
        convert("PDF", pdf([["1"], ["2"], ["3"]]))


def test_lines_with_leaders_are_no_text():
    contents = [f"{n}.1 Bridge number {n} {'. ' * 30}{n}" for n in range(1, 7)]
    assert convert("PDF", pdf([contents, ["The Orle Bridge.", "See page 9"]])).text == "The Orle Bridge.\nSee page 9"
    assert convert("PDF", pdf([contents])).text.startswith("1.1 Bridge number 1")


MARKDOWN = """---
title: "Bridges of the Isk"
layout: default
---
(target)=
# *Orle* `Bridge`

<!-- YAML
added: v1 -->

## Table of contents

* [Opening](#opening)
  * [Later](#later)

## Opening

| town       | year       |
| ---------- | ---------- |
| Orle       | 1931       |

```html
<!-- kept -->
- [kept](#too)
```

[other]: other.md
[site]: https://orle.example
"""


def test_markdown_has_no_front_matter_comments_or_lists_of_its_headings():
    assert passages(convert("Markdown", MARKDOWN.encode())) == [
        (
            "Bridges of the Isk / Orle Bridge / Opening",
            "| town | year |\n| --- | --- |\n| Orle | 1931 |\n\n"
            "```html\n<!-- kept -->\n- [kept](#too)\n```\n\n[site]: https://orle.example",
        )
    ]


def test_escapes_of_markdown_are_read_as_the_signs_they_are():
    source = b"(of the house)=\n# Orle\n\nBuilt for x86\\_64, \\[not\\] for `a\\_b`.\n\n    code\\_\n"
    assert passages(convert("Markdown", source)) == [("Orle", "Built for x86_64, [not] for `a\\_b`.\n\n    code\\_")]


def test_plain_text_has_underlined_headings_and_a_table_none():
    text = "1. Bridges\n==========\n\nMany.\n\nOrle\n----\n\nOpened in 1931.\n\ntown   year\n----------\nOrle   1931\n"
    assert passages(convert("text", text.encode())) == [
        ("1. Bridges", "Many."),
        ("1. Bridges / Orle", "Opened in 1931.\n\ntown   year\n----------\nOrle   1931"),
    ]


def test_a_title_is_not_repeated_by_the_first_heading():
    page = "<title>Heaps — Tarn&nbsp;1.2</title><h1><code>Heaps</code></h1><p>A.</p><h2>Push</h2><p>B.</p>"
    page += '<div class="navheader"><table><tr><th>8.1.&nbsp;Types, of which there are very many</th></tr>'
    page += "<tr><td><a href=a>Prev</a></td><td><a href=b>Up</a></td><td><a href=c>Next</a></td></tr></table></div>"
    assert passages(convert("HTML", page.encode())) == [
        ("Heaps — Tarn 1.2", "A."),
        ("Heaps — Tarn 1.2 / Push", "B."),
    ]


def test_the_names_of_columns_stand_right_above_numbers_and_dates():
    notes = [["Notes", None, None], ["which", "name", "nothing"], ["Name", "Age", "Born"]]
    rows = [*notes, ["Vera", 88, datetime.date(1928, 7, 23)], ["Ada", 36, datetime.date(1815, 12, 10)]]
    assert convert("Excel", sheet("S", rows)).text.endswith(
        "which; name; nothing\nName: Vera; Age: 88; Born: 1928-07-23\nName: Ada; Age: 36; Born: 1815-12-10"
    )


def test_lines_that_open_few_pages_and_the_numbers_of_a_table_stay():
    pages = [["Minutes", "The council met.", "12"], ["Minutes", "The council met again.", "13 votes"]]
    assert convert("PDF", pdf(pages)).text == "Minutes\nThe council met.\n12\nMinutes\nThe council met again.\n13 votes"


def merged() -> bytes:
    from openpyxl import Workbook

    book, file = Workbook(), io.BytesIO()
    page = book.active
    page.title = "Towns"
    for row in (
        ["The towns of the Isk valley"],
        [],
        ["valley", "town", "founded", "opened", "share", 2024],
        ["Isk", "Tarn", datetime.datetime(1931, 5, 2), datetime.datetime(2020, 1, 2, 15, 4), 0.125, 7.5],
        [None, "Orle", datetime.date(1902, 11, 30), None, 1.0, None],
        ["Lome", "Venn", None, None, None, 3],
    ):
        page.append(row)
    for place in ("A1:F1", "A4:A5", "C6:E6"):
        page.merge_cells(place)
    page["E4"].number_format = page["E5"].number_format = "0.0%"
    book.create_sheet("Empty")
    book.save(file)
    return file.getvalue()


def test_cells_keep_their_places_and_merged_ones_are_in_each():
    assert convert("Excel", merged()).text == (
        "## Towns\n\nThe towns of the Isk valley\n"
        "valley: Isk; town: Tarn; founded: 1931-05-02; opened: 2020-01-02 15:04; share: 12.5%; 2024: 7.5\n"
        "valley: Isk; town: Orle; founded: 1902-11-30; share: 100%\n"
        "valley: Lome; town: Venn; 2024: 3"
    )


def test_a_sheet_of_numbers_or_of_one_row_has_no_names():
    assert convert("Excel", sheet("S", [[1, 2], [3, 4]])).text == "## S\n\n1; 2\n3; 4"
    assert convert("Excel", sheet("S", [["a", "b"]])).text == "## S\n\na; b"


def test_a_cell_of_a_table_may_hold_a_whole_document():
    rows = f"title,text\nOrle,{'A long book. ' * 20_000}\n"
    assert len(convert("CSV", rows.encode()).text) > 250_000


@pytest.mark.parametrize("header", ['\r\ntown;"founded, about"\r\n', '"town";"founded, in, or, about"\n'])
def test_the_separator_of_a_table_is_looked_for_in_its_first_line_outside_of_quotes(header: str):
    lines = convert("CSV", f"{header}Tarn;1931\n".encode()).text.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["town"]
    assert lines[0].endswith("about: 1931")


def drawn(*texts: tuple[float, float, str]) -> bytes:
    """A PDF of texts at places, in points from the left and the bottom of the page."""
    from reportlab.pdfgen.canvas import Canvas

    file = io.BytesIO()
    canvas = Canvas(file)
    canvas.setFont("Helvetica", 10)
    for x, y, text in texts:
        canvas.drawString(x, y, text)
    canvas.save()
    return file.getvalue()


@pytest.mark.parametrize("count", [2, 3])
def test_columns_that_are_drawn_row_by_row_are_read_one_after_another(count: int):
    title = "A report on all of the bridges of the Isk valley and of the Lome, by the council and its engineers"
    words = [[f"Column {c} line {n} on rivers and tolls"[: 66 // count] for n in range(9)] for c in range(count)]
    rows = [(50 + 510 / count * c, 700 - 14.0 * n, words[c][n]) for n in range(9) for c in range(count)]
    found = convert("PDF", drawn((50, 760, title), *rows, (50, 500, title.lower()))).text.split("\n")
    assert found == [title, *(line for column in words for line in column), title.lower()]


def test_letters_that_are_set_apart_are_joined_to_words():
    apart = [(60.0 + 14 * n + 20 * (n > 6), 700.0, letter) for n, letter in enumerate("WARNUNGVORNE")]
    made = convert("PDF", drawn((60, 740, "S p e r r u n g of the bridge, plan A or B"), *apart, (60, 600, "A B C")))
    assert made.text == "Sperrung of the bridge, plan A or B\nWARNUNG VORNE\nA B C"


def test_slides_are_read_with_their_titles_tables_and_notes():
    from pptx import Presentation
    from pptx.util import Inches

    talk, file = Presentation(), io.BytesIO()
    place = [Inches(1)] * 4
    first, second = (talk.slides.add_slide(talk.slide_layouts[5]) for _ in range(2))
    first.shapes.title.text = "Towns"
    first.shapes.add_group_shape().shapes.add_textbox(*place).text_frame.text = "Tarn lies on the Orle."
    first.notes_slide.notes_text_frame.text = "Show the map."
    table = second.shapes.add_table(2, 2, *place).table
    for cell, text in zip(table.iter_cells(), ("town", "founded", "Tarn", "1931"), strict=True):
        cell.text = text
    talk.save(file)
    made = convert("PowerPoint", file.getvalue())
    assert passages(made) == [
        ("file / Towns", "Tarn lies on the Orle.\n\nShow the map."),
        ("file / Slide 2", "| town | founded |\n| --- | --- |\n| Tarn | 1931 |"),
    ]
    assert (made.unit, [number for _, number in made.pages]) == ("slide", [1, 2])
