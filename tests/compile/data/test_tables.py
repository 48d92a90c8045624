"""Tables as passages and as questions: columns that are named, guessed and said."""

import json

import pytest

from knowgap.compiling.data import build_index, load_dataset, read_corpus
from knowgap.compiling.data.corpus import read_corpus_lines
from knowgap.errors import DataError, UsageError
from knowgap.retrieval.documents.reading import Reading
from knowgap.retrieval.passage import Passage

TOWNS = "Name;Info;Year\nTarn;A town.;1200\nOrle;;1300\n"


def read(folder, text, columns=None):
    """The passages of a table, and what was said of its columns."""
    (folder / "towns.csv").write_text(text)
    notes: list[str] = []
    return [passage for _, passage in read_corpus_lines(folder / "towns.csv", columns, notes.append)], notes


@pytest.mark.parametrize(
    ("text", "columns", "passages", "said"),
    [
        ('ID,Title,Text\nt,Tarn,"A town,\nsmall"\n', None, [Passage("t", "Tarn", "A town,\nsmall")], []),
        (
            "Question,Answer,Author\nHow?,So.,Ada\n",
            None,
            [Passage("2", "How?", "So.")],
            ["columns: title is question, text is answer; not read: author; --column NAME=COLUMN names others"],
        ),
        (
            TOWNS,
            None,
            [Passage("2", "Tarn", "info: A town.\nyear: 1200"), Passage("3", "Orle", "year: 1300")],
            ["columns: title is name, text is every other column, with its name; --column text=NAME names one"],
        ),
        (
            TOWNS,
            {"text": "NAME", "id": "Year"},
            [Passage("1200", "", "Tarn"), Passage("1300", "", "Orle")],
            ["columns: text is name, id is year; not read: info; --column NAME=COLUMN names others"],
        ),
    ],
    ids=["names of the parts", "guessed", "no text", "named"],
)
def test_columns_are_found_by_their_names_or_named_and_said(tmp_path, text, columns, passages, said):
    assert read(tmp_path, text, columns) == (passages, said)


@pytest.mark.parametrize("name", ["questions.tsv", "QUESTIONS.TSV"])
def test_cells_of_a_tsv_are_separated_by_tabs_whatever_the_case_of_its_name(tmp_path, name):
    (tmp_path / name).write_text("question\tanswer\nWhere is Tarn, Orle?\tin Orle\n")
    [example] = load_dataset(tmp_path / name).splits["test"]
    assert (example.question, example.answer) == ("Where is Tarn, Orle?", "in Orle")


def test_a_cell_may_hold_a_whole_document(tmp_path):
    [passage], _ = read(tmp_path, f"title,text\nOrle,{'A long book. ' * 20_000}\n")
    assert len(passage.text) > 250_000


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name,Name,river,,\nTarn,Orle,Isk,,\n", "1: has two columns named 'name'; rename one"),
        ("title,text\n , \n", r"towns\.csv:2 \(text\): is blank"),
    ],
)
def test_faults_are_named(tmp_path, text, problem):
    with pytest.raises(DataError, match=problem):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"txt": "Info"}, "unknown part of a passage 'txt': did you mean 'text'"),
        ({"text": "Inf"}, "unknown column 'inf': did you mean 'info'"),
        ({"text": "info", "title": "Info"}, "the same column is named for two parts: text=info, title=info"),
    ],
)
def test_columns_that_are_not_there(tmp_path, columns, problem):
    with pytest.raises(UsageError, match=problem):
        read(tmp_path, TOWNS, columns)


def test_columns_go_with_tables_alone(tmp_path):
    (tmp_path / "docs.jsonl").write_text('{"id": "a", "text": "x"}\n')
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A\n\nText.")
    for source in ("docs.jsonl", "docs"):
        with pytest.raises(UsageError, match="columns can be named only for a table"):
            build_index(tmp_path / source, tmp_path / "index", engine="bm25", columns={"text": "x"})


def test_an_index_of_a_table_follows_it(tmp_path):
    path, reading = tmp_path / "towns.csv", Reading()
    build = {"engine": "bm25", "columns": {"text": "info"}}
    path.write_text("Name,Info\nTarn,A town.\n")
    assert len(build_index(path, tmp_path / "index", reading=reading, **build)) == 1
    assert "text is info" in reading.notes["towns.csv"]
    path.write_text("Name,Info\nTarn,A town.\nOrle,A bridge.\n")
    assert len(build_index(path, tmp_path / "index", **build)) == 2
    with pytest.raises(UsageError, match=r"another index is already there \(columns"):
        build_index(path, tmp_path / "index", engine="bm25")


def test_a_corpus_and_questions_say_what_they_guessed(tmp_path):
    (tmp_path / "towns.csv").write_text(TOWNS)
    with pytest.warns(UserWarning, match=r"towns.csv: columns: title is name"):
        assert len(list(read_corpus(tmp_path / "towns.csv"))) == 2
    (tmp_path / "asked.csv").write_text("Q,Expected\nWhere?,Tarn\n")
    with pytest.warns(UserWarning, match=r"asked.csv: question is q, answer is expected"):
        data = load_dataset(tmp_path / "asked.csv", split_as="test")
    assert [(e.question, e.answer) for e in data.questions("test")] == [("Where?", "Tarn")]


def test_records_of_a_release_that_differ_in_their_fields(tmp_path):
    records = [
        {"question": "How many?", "answer": ["A simple majority"], "context": "", "title": "x"},
        {"question": "Who?", "short_answers": ["President"], "context": ""},
        {"question": "Where?", "answer": 7, "context": "It stands in Orle.", "gold_ids": 3},
    ]
    (tmp_path / "dev.jsonl").write_text("\n".join(map(json.dumps, records)))
    (tmp_path / "docs.jsonl").write_text('{"id": 3, "title": "Orle", "text": "It stands in Orle."}')
    data = load_dataset(tmp_path / "dev.jsonl", split_as="dev", corpus=tmp_path / "docs.jsonl")
    examples = data.questions("dev")
    assert [example.answer for example in examples] == ["A simple majority", "President", "7"]
    assert examples[2].gold_ids == ["3"]


@pytest.mark.parametrize("mark", [",", ";"])
def test_questions_in_a_table_with_commas(tmp_path, mark):
    rows = [["Question", "Answer", "ID"], ['"Who, and when?"', "Ada Venn", "q1"], ["Where?", '"Orle\nBridge"', "q2"]]
    (tmp_path / "dev.csv").write_text("\n".join(mark.join(row) for row in rows))
    examples = load_dataset(tmp_path / "dev.csv", split_as="dev").questions("dev")
    asked = [(example.id, example.question, example.answer) for example in examples]
    assert asked == [("q1", "Who, and when?", "Ada Venn"), ("q2", "Where?", "Orle\nBridge")]


def test_a_corpus_of_flashrag(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text(json.dumps({"id": "0", "contents": '"Orle Bridge"\nAda Venn built it.\nIt is old.'}))
    [passage] = read_corpus(path)
    assert (passage.id, passage.title, passage.text) == ("0", "Orle Bridge", "Ada Venn built it.\nIt is old.")
