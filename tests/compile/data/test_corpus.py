"""Corpus files: their layouts, and how their faults are named."""

import pytest

from knowgap.compiling.data import read_corpus
from knowgap.errors import DataError
from knowgap.retrieval.passage import Passage

FAR = "no title | here, because it is far " + "x" * 200


@pytest.mark.parametrize(
    ("name", "text", "passages"),
    [
        (
            "corpus.jsonl",
            '{"id": "a", "title": "T", "text": "x"}\n{"_id": 2, "text": "y"}\n{"docid": "c", "contents": "z"}\n'
            '{"text": "no id"}',
            [("a", "T", "x"), ("2", "", "y"), ("c", "", "z"), ("4", "", "no id")],
        ),
        (
            "psgs_w100.tsv",
            'id\ttext\ttitle\n1\t"He said ""no"" twice."\tSpeech\n2\tPlain "text\tOther\n',
            [("1", "Speech", 'He said "no" twice.'), ("2", "Other", 'Plain "text')],
        ),
        (
            "collection.tsv",
            f'0\tAda Venn | An architect.\n1\t{FAR[9:]} | {FAR}\n2\tplain\n3\t"Quoted" words "stay"\n',
            [("0", "Ada Venn", "An architect."), ("1", "", f"{FAR[9:]} | {FAR}"), ("2", "", "plain"),
             ("3", "", '"Quoted" words "stay"')],
        ),
    ],
)  # fmt: skip
def test_layouts(tmp_path, name, text, passages):
    (tmp_path / name).write_text(text)
    assert list(read_corpus(tmp_path / name)) == [Passage(*passage) for passage in passages]


def test_is_a_stream(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "a", "text": "x"}\nnot json\n')
    passages = read_corpus(path)
    assert next(passages).id == "a"
    with pytest.raises(DataError, match=r"corpus.jsonl:2: is not JSON"):
        next(passages)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("c.jsonl", '{"id": "a", "title": "t"}', r"c.jsonl:1 \(text\): is missing"),
        ("c.jsonl", '{"id": "a", "text": " "}', r"c.jsonl:1 \(text\): is blank"),
        ("c.jsonl", '{"id": "a", "text": 5}', r"c.jsonl:1 \(text\): must be a valid string"),
        ("c.jsonl", '{"id": 1.5, "text": "x"}', r"c.jsonl:1 \(id\): must be a string or a whole number"),
        ("c.jsonl", '{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}', r"c.jsonl:2 \(id\): the id 'a' is used"),
        ("c.tsv", "0\tx\n1\n", r"c.tsv:2: must be id<TAB>text"),
        ("c.tsv", "0\tx\n\ty\n", r"c.tsv:2 \(id\): is blank"),
        ("c.tsv", "", "holds no passages"),
    ],
)
def test_faults_are_named(tmp_path, name, text, problem):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=problem):
        list(read_corpus(tmp_path / name))
