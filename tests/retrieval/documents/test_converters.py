"""What converters keep of real pages, books and sheets, and what they leave out."""

import datetime
import io
import zipfile

import pytest

from knowgap.retrieval.documents.conversion import convert
from tests.retrieval.documents.files import drawn, passages_of, pdf, sheet

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
TITLED = (
    "<title>Heaps — Tarn&nbsp;1.2</title><h1><code>Heaps</code></h1><p>A.</p><h2>Push</h2><p>B.</p>"
    '<div class="navheader"><table><tr><th>8.1.&nbsp;Types, of which there are very many</th></tr>'
    "<tr><td><a href=a>Prev</a></td><td><a href=b>Up</a></td><td><a href=c>Next</a></td></tr></table></div>"
)
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

See [the bridge][Other] or [site] of `a[0]`, [not this].

![a picture](bridge.png)

[other]: other.md
[site]: https://orle.example "Orle"
"""
OPENING = (
    "| town | year |\n| --- | --- |\n| Orle | 1931 |\n\n```html\n<!-- kept -->\n- [kept](#too)\n```\n\n"
    "See the bridge or [site](https://orle.example) of `a[0]`, [not this].\n\na picture"
)
KIT = "---\ntitle: >-\n  The\n  Kit\n---\n# Use\n\n```run```\n\n<!-- x -->\n\n# Contents\n\nOne pump.\n\n# End\n\nx\n"
ESCAPED = "(of the house)=\n# Orle\n\nBuilt for x86\\_64, \\[not\\] for `a\\_b`.\n\n    code\\_\n"
TOWN_TABLE = "town   year\n----------\nOrle   1931"
UNDERLINED = f"=====\nTowns\n=====\n\n1. Bridges\n==========\n\nMany.\n\nOrle\n----\n\n{TOWN_TABLE}\n"


@pytest.mark.parametrize(
    ("kind", "content", "found"),
    [
        ("HTML", PAGE, [("Orle / Bridge", "Built by Ada Venn for my_town*2; see below.\n\nQuoted.\n\nSaid by Ada.")]),
        ("HTML", TITLED, [("Heaps — Tarn 1.2", "A."), ("Heaps — Tarn 1.2 / Push", "B.")]),
        ("Markdown", MARKDOWN, [("Bridges of the Isk / Orle Bridge / Opening", OPENING)]),
        (
            "Markdown",
            KIT,
            [("The Kit / Use", "```run```"), ("The Kit / Contents", "One pump."), ("The Kit / End", "x")],
        ),
        ("Markdown", ESCAPED, [("Orle", "Built for x86_64, [not] for `a\\_b`.\n\n    code\\_")]),
        ("text", UNDERLINED, [("Towns / 1. Bridges", "Many."), ("Towns / 1. Bridges / Orle", TOWN_TABLE)]),
    ],
)
def test_headings_are_titles_and_what_leads_around_is_left_out(kind, content, found):
    assert passages_of(convert(kind, content.encode())) == found


LAID_OUT = "<table><tr><td><h2>Towns</h2>{}</td><td><p>Beside.</p></td></tr></table>".format(
    "<table><tr><td>town</td><td>river</td></tr><tr><td>Tarn</td><td>Isk</td></tr></table>"
)
QUOTED = "<blockquote><dl><dt>Toll</dt>\n<dd>A\nday.</dl></blockquote>"
HIDING = ["style='display:none'", "STYLE='color: red; Display : NONE !important'", "hidden", "style=visibility:hidden"]
SHOWN = "<p style='display:block'>Too.<div>Yes."
HIDDEN = "<p>Seen.<div {}>No. <p style='display:none'>No.</p></div>" + SHOWN
ASKED = "<details><summary>How do I reset it?</summary>{}</details><details><summary>Where?</summary>{}</details>"
UNENDED = (
    "<!DOCTYPE html><html><head><meta charset=utf-8><title>Isk</title><body><p>Towns<table><thead><tr><th>Town<th>River"
    "<tbody><tr><td><p>Tarn<td>Isk<tr><td>Orle</table><ul><li>one<ol><li>first<li>next</ol><li>two</ul><dl><dt>A"
    "<dd>B<dt>C</dl>"
)
ENDED = "Towns\n\n| Town | River |\n| --- | --- |\n| Tarn | Isk |\n| Orle |\n\n"
ENDED += "* one\n  1. first\n  2. next\n* two\n\nA\n\nB\n\nC"
FORM = "<form><label>Size<input></label><select><option>A<option>B</select></form><p>Press <button>OK</button>."
LINTED = "<!-- lint off --> The pump needs 5 bar.\n\nThe valve opens.\n\n<!-- lint on --> <!--\non -->\nEnd."
BETWEEN_RULES = "---\n\n# Safety\n\nWear gloves.\n\n---\n\n# Use"
MOSTLY_UTF8 = "Die größte Brücke über den Fluß ist für Fußgänger schön, „alt“ und öffentlich. "
SPEAKERS = "[Alice]:\nIt is ready.\n\n[Bob]: Good."
CONTENTS = [f"{n}.1 Bridge number {n} {'. ' * 30}{n}" for n in range(1, 7)]
RECORDS = [[f"Invoice no. {n}", f"For {name}", f"Due: {n - 500} EUR"] for n, name in enumerate("ABC", 1001)]
MINUTES = [["Minutes", "The council met.", "12"], ["Minutes", "The council met again.", "13 votes"]]
NOTES = [["Notes", None], ["Name", "Age"]]
PEOPLE = [["Vera", 88], ["Ada", 36]]
AGES = "Name: Vera; Age: 88\nName: Ada; Age: 36"
QUARTERS = [["Plant", "Q1", None, "Q2", None], [None, "In", "Out", "In", "Out"], ["Orle", 1, 2, 3, 4]]
QUARTER = "Plant: Orle; Q1 In: 1; Q1 Out: 2; Q2 In: 3; Q2 Out: 4"
PRICES = "name: Orle; price: 1,50\nname: Tarn; price: 2,75"
TOWNS = [
    ["The towns of the Isk valley"],
    [],
    ["valley", "town", "founded", "opened", "share", 2024],
    ["Isk", "Tarn", datetime.datetime(1931, 5, 2), datetime.datetime(2020, 1, 2, 15, 4), 0.125, 7.5],
    [None, "Orle", datetime.date(1902, 11, 30), None, 1.0, None],
    ["Lome", "Venn", None, None, None, 3],
]


def naming_a_lost_part(book, kind):
    """An Excel file whose first sheet names a drawing, or comments, that the file does not have."""
    types, parts = "http://schemas.openxmlformats.org", io.BytesIO(book)
    named = f'<Relationship Id="a" Type="{types}/officeDocument/2006/relationships/{kind}" Target="lost.xml"/>'
    with zipfile.ZipFile(parts, "a") as archive:
        listed = f'<Relationships xmlns="{types}/package/2006/relationships">{named}</Relationships>'
        archive.writestr("xl/worksheets/_rels/sheet1.xml.rels", listed)
    return parts.getvalue()


TURNED = [(100 + 14 * n, 200, line, 10, 90) for n, line in enumerate(["A level line,", "and what is al-", "so level."])]
STAMPED = [(50, 700, "The bridge opened."), (100, 300, "DRAFT COPY", 60, 45), (50, 200, "It is old.")]
DIVIDED = [(50, 700, "The bridge was de-"), (50, 686, "signed by Ada Venn."), (50, 672, "Its tolls are low.")]
OWN_HYPHENS = """Rolls-|Royce of COVID-|19, state-of-the-|art, e-|mail, http://a.org/b-|c, MAR-|KET,
off-|line, off-line, Fc-|Config and FcConfig"""
HYPHENS = [(50, 700 - 14 * n, part) for n, part in enumerate(OWN_HYPHENS.replace("|", "\n").split("\n"))]
APART = [
    (60, 740, "S p e r r u n g of the bridge, plan A or B"),
    *((60.0 + 14 * n + 20 * (n > 6), 700.0, letter) for n, letter in enumerate("WARNUNGVORNE")),
    (60, 600, "A B C"),
]


@pytest.mark.parametrize(
    ("kind", "content", "text"),
    [
        ("HTML", LAID_OUT, "## Towns\n\n| town | river |\n| --- | --- |\n| Tarn | Isk |\n\nBeside."),
        ("HTML", f"<p>The <b>Orle\nBridge</b> is <em>old</em>.{QUOTED}", "The Orle Bridge is old.\n\nToll\n\nA day."),
        ("HTML", ASKED.format("Press.", "Behind it."), "How do I reset it?\n\nPress.\n\nWhere?\n\nBehind it."),
        ("HTML", FORM, "Size\n\nA\n\nB\n\nPress OK."),
        ("HTML", "<ul><li><label><input> One</label></li><li>Two</li></ul>", "* One\n* Two"),
        ("HTML", UNENDED, ENDED),
        ("HTML", "<main>A</main><aside>B</aside><figure>C</figure>", "A\n\nB\n\nC"),
        ("Markdown", LINTED, "<!-- lint off --> The pump needs 5 bar.\n\nThe valve opens.\n\n\nEnd."),
        ("Markdown", BETWEEN_RULES, BETWEEN_RULES),
        ("Markdown", "---\n# of the page\ntitle: Use\n---\nWear gloves.", "Wear gloves."),
        ("Markdown", SPEAKERS, SPEAKERS),
        ("HTML", "<pre>let a\n  b</pre>", "```\nlet a\n  b\n```"),
        *(("HTML", HIDDEN.format(hides), "Seen.\n\nToo.\n\nYes.") for hides in HIDING),
        ("HTML", "<h1>Zones<a href=#x>\ue157</a></h1><p>\uf0b7 Hello.", "# Zones\n\nHello."),
        ("text", "\uf0b7 He\xadl\u200blo Mu\u0308hle.", " Hello Mühle."),
        ("HTML", "<p>He&shy;l&#x200b;lo Mu&#x308;hle &#xe157;.", "Hello Mühle ."),
        ("Excel", sheet("S", [["He\xadllo", "Mu\u0308hle"]]), "S\nHello; Mühle"),
        ("text", MOSTLY_UTF8.encode() + b"\xff", f"{MOSTLY_UTF8}\ufffd"),
        ("PDF", pdf([CONTENTS, ["The Orle Bridge.", "See page 9"]]), "The Orle Bridge.\nSee page 9"),
        ("PDF", pdf([CONTENTS[:1]]), CONTENTS[0]),
        ("PDF", pdf(MINUTES), "\n".join(line for lines in MINUTES for line in lines)),
        ("PDF", pdf(RECORDS), "\n".join(line for lines in RECORDS for line in lines)),
        ("PDF", drawn(*TURNED), "A level line,\nand what is also\nlevel."),
        ("PDF", drawn(*STAMPED), "The bridge opened.\nDRAFT COPY\nIt is old."),
        ("PDF", drawn(*APART), "Sperrung of the bridge, plan A or B\nWARNUNG VORNE\nA B C"),
        ("Excel", sheet("S", [*NOTES, *PEOPLE]), "S\nNotes\nName: Vera; Age: 88\nName: Ada; Age: 36"),
        ("PDF", drawn(*DIVIDED), "The bridge was designed\nby Ada Venn.\nIts tolls are low."),
        (
            "PDF",
            drawn(*HYPHENS),
            "Rolls-Royce\nof COVID-19,\nstate-of-the-art,\ne-mail,\nhttp://a.org/b-c,\nMARKET,\noff-line,\n"
            "off-line, FcConfig\nand FcConfig",
        ),
        (
            "Excel",
            sheet("Towns", TOWNS, merged=("A1:F1", "A4:A5", "C6:E6")),
            "Towns\nThe towns of the Isk valley\n"
            "valley: Isk; town: Tarn; founded: 1931-05-02; opened: 2020-01-02 15:04:00; share: 0.125; 2024: 7.5\n"
            "valley: Isk; town: Orle; founded: 1902-11-30; share: 1\nvalley: Lome; town: Venn; 2024: 3",
        ),
        ("Excel", sheet("S", [[1, 2], [3, 4]]), "S\n1; 2\n3; 4"),
        ("Excel", sheet("S", [[None, 2024, 2025], ["Orle", 7, 0.075]], shares=["C2"]), "S\nOrle; 2024: 7; 2025: 7.5%"),
        ("Excel", sheet("S", QUARTERS, merged=("B1:C1", "D1:E1")), f"S\n{QUARTER}"),
        (
            "Excel",
            sheet("S", [*NOTES[1:], *PEOPLE, [], ["Town", "Toll"], ["Orle", 2]]),
            f"S\n{AGES}\nTown: Orle; Toll: 2",
        ),
        *(("Excel", naming_a_lost_part(sheet("S", [["a", "b"]]), kind), "S\na; b") for kind in ("drawing", "comments")),
        ("CSV", '\r\ntown;"founded, about"\r\nTarn;1931\n', "town: Tarn; founded, about: 1931"),
        ("CSV", '"town";"founded, in, or, about"\nTarn;1931\n', "town: Tarn; founded, in, or, about: 1931"),
        ("CSV", "Prices in May, June\nname;price\nOrle;1,50\nTarn;2,75\n", "Prices in May, June\n" + PRICES),
        ("CSV", "sep=;\nname;price\nOrle;1,50\nTarn;2,75\n", "sep=\n" + PRICES),
        ("CSV", "name;price\nOrle;1,50\nTarn;2,75\nVenn;4;new\n", PRICES + "\nname: Venn; price: 4; new"),
        ("CSV", 'name, price\nOrle, "1,50"\nTarn, "2,75"\n', PRICES),
        ("CSV", f"a,b\nOrle,{'A long book. ' * 20_000}\n", f"a: Orle; b: {('A long book. ' * 20_000).strip()}"),
    ],
)
def test_the_text_of_a_file(kind, content, text):
    assert convert(kind, content.encode() if isinstance(content, str) else content).text.rstrip() == text


def test_formulas_without_values_are_said():
    assert [bool(convert("Excel", sheet("S", [["Sum", value]])).note) for value in ("=1+1", 2)] == [True, False]


def page(number, name):
    """A page with a running head, a heading, six lines and its number."""
    lines = [(50, 700 - 14 * n, f"Line {n} says that bridge {name} was built by Ada Venn.") for n in range(6)]
    head = (50, 800, f"Orle County Council · {number}")
    return [head, (50, 760, f"{number}. Bridge number {number}", 18), *lines, (300, 40, str(number))]


def test_a_pdf_has_its_headings_and_no_running_heads():
    pages = [page(number, name) for number, name in enumerate("ABCDE", start=1)]
    found = passages_of(convert("PDF", drawn(*pages, title="The bridges of Orle")))
    assert [title for title, _ in found[-5:]] == [f"The bridges of Orle / {n}. Bridge number {n}" for n in range(1, 6)]
    text = "\n".join(text for _, text in found)
    assert text.count("Orle County Council") == 1
    assert all(text.count(f"bridge {n} was built") == 6 for n in "ABCDE")
    assert not [line for line in text.splitlines() if line.strip().isdigit()]


def test_a_pdf_whose_title_is_a_file_name_has_its_largest_words_in_titles():
    heads = [(50, 700, "arXiv:2601.01234v1", 20), (50, 640, "The Bridges of Orle", 17), (50, 500, "By Ada Venn.")]
    lines = [(50, 380 - 14 * n, f"Line {n} of this part.") for n in range(9)]
    parts = [[(50, 400, f"Part {part}", 12), *lines] for part in range(2)]
    titles = [title for title, _ in passages_of(convert("PDF", drawn([*heads, *parts[0]], parts[1], title="a.dvi")))]
    assert titles[-2:] == [f"file / The Bridges of Orle / Part {part}" for part in range(2)]


def test_a_filled_form_is_read_and_pages_without_text_are_counted():
    from reportlab.pdfgen.canvas import Canvas

    file = io.BytesIO()
    canvas = Canvas(file)
    canvas.drawString(50, 700, "Name:")
    canvas.acroForm.textfield(value="Ada Venn", x=100, y=690, width=200, height=20)
    canvas.showPage()
    canvas.rect(50, 50, 400, 600, fill=1)  # as a picture of a page has it
    canvas.showPage()
    canvas.showPage()  # an empty page lacks nothing
    canvas.save()
    made = convert("PDF", file.getvalue())
    assert made.text == "Name: Ada Venn"
    assert made.note.startswith("1 of 3 pages")


@pytest.mark.parametrize("count", [2, 3])
def test_columns_that_are_drawn_row_by_row_are_read_one_after_another(count):
    title = "A report on all of the bridges of the Isk valley and of the Lome, by the council and its engineers"
    words = [[f"Column {c} line {n} on rivers and tolls"[: 66 // count] for n in range(9)] for c in range(count)]
    rows = [(50 + 510 / count * c, 700 - 14.0 * n, words[c][n]) for n in range(9) for c in range(count)]
    found = convert("PDF", drawn((50, 760, title), *rows, (50, 500, title.lower()))).text.split("\n")
    assert found == [title, *(line for column in words for line in column), title.lower()]


def test_slides_are_read_with_their_titles_tables_charts_and_notes():
    from pptx import Presentation
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE
    from pptx.util import Inches

    talk, file = Presentation(), io.BytesIO()
    place = [Inches(1)] * 4
    first, second, third = (talk.slides.add_slide(talk.slide_layouts[5]) for _ in range(3))
    first.shapes.title.text = "Towns"
    first.shapes.add_group_shape().shapes.add_textbox(*place).text_frame.text = "Tarn lies on the Orle."
    first.notes_slide.notes_text_frame.text = "Show the map."
    table = second.shapes.add_table(3, 2, *place).table
    for cell, text in zip(table.iter_cells(), ("town", "founded", "Tarn", "1931", "", "1950"), strict=True):
        cell.text = text
    table.cell(1, 0).merge(table.cell(2, 0))
    data = CategoryChartData()
    data.categories = ["East", "West"]
    data.add_series("2020", (1.5, None))
    data.add_series("2021", (3, 4))
    chart = third.shapes.add_chart(XL_CHART_TYPE.LINE, *place, data).chart
    chart.chart_title.text_frame.text = "Tolls"
    talk.save(file)
    made = convert("PowerPoint", file.getvalue())
    assert passages_of(made) == [
        ("file / Towns", "Tarn lies on the Orle.\n\nShow the map."),
        ("file / Slide 2", "| town | founded |\n| --- | --- |\n| Tarn | 1931 |\n| Tarn | 1950 |"),
        ("file / Slide 3", "Tolls\n\n2020: East: 1.5\n\n2021: East: 3; West: 4"),
    ]
    assert (made.unit, [number for _, number in made.pages]) == ("slide", [1, 2, 3])
