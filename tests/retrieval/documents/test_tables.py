"""Tables in six formats: cut between rows, with the names of their columns, merged and empty cells in their places."""

import io

import pytest

from knowgap.retrieval.documents.conversion import convert
from knowgap.retrieval.documents.web_pages import spread
from tests.retrieval.documents.files import passages_of, run, sheet, word

NAMES = ["tag", "model of the device", "owner", "place", "bought"]
ROWS = [
    [f"HI-{n}", f"ThinkPad T{n % 7}", f"Owner{n} Berg", ["Bremen", "", "Graz"][n % 3], f"20{n % 30:02}-01-10"]
    for n in range(200)
]


def as_html(rows):
    cells = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<h1>Devices</h1><p>All devices of 2024.</p><table>{cells}</table><p>The end.</p>".encode()


def as_markdown(rows, bar="| "):
    lines = [f"{bar}{' | '.join(row)}{bar[::-1]}" for row in rows]
    rule = f"{bar}{' | '.join('---' for _ in rows[0])}{bar[::-1]}"
    return "\n".join(["# Devices", "", "All of 2024:", "", lines[0], rule, *lines[1:], "", "The end."]).encode()


def passages(kind, content):
    return [text for _, text in passages_of(convert(kind, content))]


def as_pdf(rows, quarters=0, **options):
    from reportlab.lib.styles import getSampleStyleSheet
    from reportlab.platypus import Paragraph, SimpleDocTemplate, Table

    file, style = io.BytesIO(), getSampleStyleSheet()["Normal"]
    grid = options.pop("style", [("GRID", (0, 0), (-1, -1), 0.5, "black")])
    above = Paragraph("All devices of the year 2024, with those that were sold.", style)

    def turn(canvas, _):
        canvas.setPageSize((842, 842))
        canvas.translate(421, 421)
        canvas.rotate(90 * quarters)
        canvas.translate(-421, -421)

    flow = [above, Table(rows, style=grid, **options), Paragraph("The end.", style)]
    SimpleDocTemplate(file).build(flow, onFirstPage=turn)
    return file.getvalue()


FORMATS = {
    "CSV": ("CSV", lambda rows: "\n".join(",".join(row) for row in rows).encode()),
    "Excel": ("Excel", lambda rows: sheet("Devices", rows)),
    "HTML": ("HTML", as_html),
    "Markdown": ("Markdown", as_markdown),
    "Markdown without outer bars": ("Markdown", lambda rows: as_markdown(rows, "")),
    "PDF": ("PDF", as_pdf),
    "PDF, names on each page": ("PDF", lambda rows: as_pdf(rows, repeatRows=1)),
    "Word": ("Word", lambda rows: word([("Titel", "Devices"), ("", "All of 2024.")], rows)),
}


@pytest.mark.parametrize("name", FORMATS)
def test_no_row_is_torn_and_each_passage_names_the_columns(name):
    kind, make = FORMATS[name]
    texts = passages(kind, make([NAMES, *ROWS]))
    assert len(texts) > 10
    for row in ROWS:
        lines = [line for text in texts for line in text.split("\n") if row[0] in line.replace(";", " ").split()]
        assert len(lines) == 1, row
        assert all(cell in lines[0] for cell in row)
        assert ("place: " in lines[0]) == bool(row[3]) or "|" in lines[0]
        assert lines[0].count("|") in (0, len(row) - 1, len(row) + 1)  # an empty cell keeps its place
    assert all(column in text for text in texts if "|" in text for column in NAMES)


def test_a_row_that_is_longer_than_a_passage_keeps_its_key():
    story = " ".join(f"Sentence {n} of the story." for n in range(300))
    texts = passages("CSV", f"title,year,text\nOrle,1931,{story}\nTarn,1950,Short.\n".encode())
    assert len(texts) > 5
    assert all("title: Orle" in text for text in texts[:-1])
    assert texts[-1] == "title: Tarn; year: 1950; text: Short."


MERGED = """<table><caption>Rates</caption>
<tr><th rowspan=2>Plant</th><th colspan=2>Rate</th><th rowspan=2>Operator</th></tr><tr><th>day</th><th>night</th></tr>
<tr><td rowspan=3><b>B</b>remen</td><td>62 m<sup>2</sup></td><td><p>7<p>5</td><td>Ruiz<br>2</td></tr>
<tr><td colspan=2>48</td><td>Lind</td></tr>
<tr><td></td><td>50</td><td>Okafor</td></tr></table>"""


def test_merged_cells_of_a_page_are_in_each_of_their_places():
    assert passages("HTML", MERGED.encode()) == [
        "Rates\n\n| Plant | Rate day | Rate night | Operator |\n| --- | --- | --- | --- |\n"
        "| Bremen | 62 m2 | 7 5 | Ruiz 2 |\n| Bremen | 48 | 48 | Lind |\n| Bremen |  | 50 | Okafor |"
    ]


def test_word_has_its_title_its_running_heads_once_and_merged_cells_in_each_of_their_places():
    rows = [["Plant", "Machine", "Rate"], ["Bremen", "Lathe", "62"], [None, "Press", ""], ["Graz", "", "66"]]
    edges = {
        "header1": ["Contract 4471 &amp;  more"],
        "header2": ["<w:r><w:t>Contract 4471 &amp;</w:t><w:ptab/><w:t>more</w:t></w:r>"],
        "footer1": ["12", "By Ada"],
    }
    text = (
        "Contract 4471 & more\n\n| Plant | Machine | Rate |\n| --- | --- | --- |\n"
        "| Bremen | Lathe | 62 |\n| Bremen | Press |  |\n| Graz |  | 66 |\n\nBy Ada"
    )
    assert passages_of(convert("Word", word([("Titel", "Lease")], rows, **edges))) == [("Lease", text)]


BOX = f"<w:txbxContent><w:p>{run('In a box.')}</w:p></w:txbxContent>"
CHOICE = f'<mc:Choice Requires="wps"><w:drawing><w:posOffset>12</w:posOffset>{BOX}</w:drawing></mc:Choice>'
BOTH = f"<mc:AlternateContent>{CHOICE}<mc:Fallback><w:pict>{BOX}</w:pict></mc:Fallback></mc:AlternateContent>"
KANJI = f"<w:r><w:ruby><w:rt>{run('ka')}</w:rt><w:rubyBase>{run('Base')}</w:rubyBase></w:ruby></w:r>"
FORMULA = "<m:oMathPara><m:oMath><m:r><m:t>P=</m:t></m:r><m:r><m:t>UI</m:t></m:r></m:oMath></m:oMathPara>"
FIELD = (
    f"<w:r><w:instrText> PAGE </w:instrText></w:r><w:del><w:r><w:delText>Old</w:delText></w:r></w:del>{run('Page 1')}"
)
GAPS = ['<w:br w:type="page"/>', '<w:br w:type="column"/>']


@pytest.mark.parametrize("part", ["document", "header1", "footer1"])
@pytest.mark.parametrize(
    ("elements", "text"),
    [
        *(
            (f"<{name}>{run('Read.')}</{name}>", "Read.")
            for name in ("w:fldSimple", "w:moveTo", "w:customXml", "w:bdo")
        ),
        (f"{run('Here.')}<w:moveFrom>{run('Gone.')}</w:moveFrom>", "Here."),
        *((f"<w:r><w:t>one</w:t>{gap}<w:t>two</w:t></w:r>", "one two") for gap in GAPS),
        (KANJI, "Base"),
        (f"{run('So ')}{FORMULA}", "So P=UI"),
        (FIELD, "Page 1"),
        (f"{run('Out.')}<w:r>{BOTH}</w:r>", "Out.\n\nIn a box."),
    ],
)
def test_all_words_of_a_word_file_are_read_once(elements, text, part):
    content = word([("", elements)]) if part == "document" else word([], **{part: [elements]})
    assert convert("Word", content).text == text


def test_a_merged_cell_of_a_billion_places_is_cut_short():
    [one, _] = spread([[("a", 10**9, 10**9)], [("b", 1, 1)]])
    assert len(one) == 1001  # as wide as browsers make it, and the cell beside it


PICTURES = f"""# Logo

![our logo](data:image/png;base64,{"iVBORw0KGgo" * 2000}=)

Only in blue. ![][small]

[small]: data:image/png;base64,{"iVBORw0KGgo" * 20}

The end.
"""


def test_pictures_as_data_are_dropped_and_said():
    made = convert("Markdown", PICTURES.encode())
    assert " ".join(made.text.split()) == "# Logo our logo Only in blue. The end."
    assert made.note == "2 pictures within the text left out"
    page = f"<p>Only<img alt='our logo' src='data:image/png;base64,{'iVBORw0KGgo' * 99}'> in blue.</p>"
    assert convert("HTML", page.encode()).text == "Onlyour logo in blue."


GRID = ("GRID", (0, 0), (-1, -1), 0.5, "black")
INNER = ("INNERGRID", (0, 0), (-1, -1), 0.5, "black")
SPANS = [GRID, ("SPAN", (1, 0), (2, 0)), ("SPAN", (0, 0), (0, 1)), ("SPAN", (0, 2), (0, 3))]
RATES = [["Plant", "Rate", ""], ["", "day", "night"], ["Bremen", "62", ""], ["", "48", "50"], ["Graz", "66", "70"]]
RATE_LINES = ["Plant: Bremen; Rate day: 62", "Plant: Bremen; Rate day: 48; Rate night: 50"]
TAGS = [["Tag", "Model", "Owner"], ["HI-1", "", "Ada"], ["HI-2", "T14", "Jon\nReth"], ["HI-3", "T15", ""]]
TAG_LINES = ["Tag: HI-1; Owner: Ada", "Tag: HI-2; Model: T14; Owner: Jon Reth", "Tag: HI-3; Model: T15"]


@pytest.mark.parametrize("quarters", range(4))
@pytest.mark.parametrize(
    ("rows", "style", "lines"),
    [
        (RATES, SPANS, [*RATE_LINES, "Plant: Graz; Rate day: 66; Rate night: 70"]),
        (TAGS, [INNER], TAG_LINES),  # open at its sides
        ([["#", "Part", "2020"], ["1", "Pump", "5"]], [GRID], ["#: 1; Part: Pump; 2020: 5"]),
        ([["Tarn", "1931", "Ada"], ["Orle", "1902", ""]], [GRID], ["Tarn; 1931; Ada", "Orle; 1902; –"]),
        ([["Tarn", "7", "Ada"], ["Orle", "", "Bo"]], [GRID], ["Tarn; 7; Ada", "Orle; –; Bo"]),
        (
            [["Fees", "", ""], *TAGS[:1], ["HI-1", "", "Ada"]],
            [GRID, ("SPAN", (0, 0), (2, 0))],
            ["Fees", *TAG_LINES[:1]],
        ),
        ([["1", "2", "3"], ["4", "", "6"]], [GRID], ["1; 2; 3", "4; –; 6"]),  # without names, a mark keeps a place
    ],
)
def test_the_cells_of_a_table_of_a_pdf_are_in_their_places(rows, style, lines, quarters):
    [text] = passages("PDF", as_pdf(rows, quarters, style=style))
    assert text.split("\n") == ["All devices of the year 2024, with those that were sold.", *lines, "The end."]


def test_rules_that_are_drawn_cell_by_cell_are_a_table():
    from reportlab.pdfgen.canvas import Canvas

    file = io.BytesIO()
    canvas = Canvas(file)
    for n, row in enumerate([["Tag", "Model", "Owner"], *([f"HI-{n}", "", f"Owner{n}"] for n in range(50))]):
        for column, text in enumerate(row):
            canvas.drawString(60 + 90 * column, 790 - 14 * n, text)
            for x, y, wide, high in ((0, 0, 90, 0.5), (0, 14, 90, 0.5), (0, 0, 0.5, 14), (90, 0, 0.5, 14)):
                canvas.rect(57 + 90 * column + x, 787 - 14 * n + y, wide, high, stroke=0, fill=1)
    canvas.save()
    made = convert("PDF", file.getvalue())
    assert made.text.split("\n") == [f"Tag: HI-{n}; Owner: Owner{n}" for n in range(50)]
