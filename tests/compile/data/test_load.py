"""Data sets by name and path: splits, users' own questions, ids."""

import json
from pathlib import Path

import pytest

from knowgap.compile.data import DATASETS, LAYOUTS, SPLITS, load_dataset
from knowgap.compile.data.dataset import PassagePool, make_example, sample_split, split_examples
from knowgap.errors import DataError, UnknownName, UsageError, ValueOutOfBounds
from knowgap.retrieval.passage import Passage


def write(path: Path, rows) -> Path:
    lines = path.suffix == ".jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) if lines else json.dumps(rows), encoding="utf-8")
    return path


def questions(count, **more):
    return [{"question": f"What is the number {n}?", "answer": f"{n}", **more} for n in range(count)]


@pytest.fixture
def own(tmp_path):
    return write(tmp_path / "mine.jsonl", questions(40))


def every(data):
    return [example for split in SPLITS for example in data.splits[split]]


def test_one_file_is_divided_half_quarter_quarter(own):
    data = load_dataset(own)
    assert data.name == "mine"
    assert [len(data.splits[s]) for s in SPLITS] == [20, 10, 10]
    assert len({e.id for e in every(data)}) == 40


def test_the_division_follows_the_seed_and_not_the_order(own, tmp_path):
    other = write(tmp_path / "reordered.jsonl", questions(40)[::-1])
    loaded = [load_dataset(own), load_dataset(own), load_dataset(other), load_dataset(own, seed=1)]
    ids = [{e.id for e in data.splits["test"]} for data in loaded]
    assert ids[0] == ids[1] == ids[2] != ids[3]
    assert len({data.fingerprint for data in loaded}) == 1


def test_equal_questions_stay_together(tmp_path):
    twice = [{"question": f"q{n // 2}", "answer": str(n)} for n in range(60)]
    data = load_dataset(write(tmp_path / "twice.jsonl", twice))
    assert sum(len({e.question for e in data.splits[split]}) for split in SPLITS) == 30
    assert len(every(data)) == 60


def test_a_whole_file_as_one_split(own):
    data = load_dataset(own, split_as="test")
    assert [len(data.splits[s]) for s in SPLITS] == [0, 0, 40]
    assert [e.question for e in data.splits["test"]] == [row["question"] for row in questions(40)]


def test_files_named_after_their_splits_are_respected(tmp_path):
    write(tmp_path / "my_train.v1.2.jsonl", questions(6))
    write(tmp_path / "my-validation.jsonl", [{"question": "x?", "answer": "y"}])
    write(tmp_path / "corpus.jsonl", [{"id": "p", "title": "t", "text": "u"}])
    data = load_dataset(tmp_path)
    assert data.name == tmp_path.name
    assert [len(data.splits[s]) for s in SPLITS] == [6, 1, 0]
    assert data.corpus == [Passage("p", "t", "u")]


def test_a_mapping_of_files(tmp_path):
    files = {"train": write(tmp_path / "a.jsonl", questions(3)),
             "test": write(tmp_path / "b.jsonl", [{"question": "x?", "answer": "y"}])}  # fmt: skip
    data = load_dataset(files)
    assert [len(data.splits[s]) for s in SPLITS] == [3, 0, 1]
    only = load_dataset(files, split="test")
    assert [len(only.splits[s]) for s in SPLITS] == [0, 0, 1]
    with pytest.raises(UsageError, match=r"no dev split among a\.jsonl, b\.jsonl"):
        load_dataset(files, split="dev")


def test_ambiguous_folders_are_refused(tmp_path):
    with pytest.raises(DataError, match="holds no data files"):
        load_dataset(tmp_path)
    write(tmp_path / "one_dev.jsonl", questions(3))
    write(tmp_path / "two_dev.jsonl", questions(3))
    with pytest.raises(DataError, match=r"one_dev.jsonl and two_dev.jsonl both hold the dev split"):
        load_dataset(tmp_path)
    (tmp_path / "two_dev.jsonl").rename(tmp_path / "two.jsonl")
    with pytest.raises(DataError, match=r"two.jsonl: its name tells no split"):
        load_dataset(tmp_path)


def test_the_same_id_in_two_splits_is_refused(tmp_path):
    row = {"id": "q1", "question": "x?", "answer": "y"}
    write(tmp_path / "train.jsonl", [row])
    write(tmp_path / "test.jsonl", [{**row, "question": "z?"}])
    with pytest.raises(DataError, match=r"the id 'q1' stood before, in test.jsonl:1"):
        load_dataset(tmp_path)


def test_limit_and_sampling(own):
    assert [len(load_dataset(own, limit=4).splits[s]) for s in SPLITS] == [4, 4, 4]
    whole = load_dataset(own, split_as="dev").splits["dev"]
    first = load_dataset(own, split_as="dev", sampling="first-7").splits["dev"]
    assert [e.id for e in first] == [e.id for e in whole[:7]]
    drawn = [load_dataset(own, split_as="dev", sampling="random-9", seed=s).splits["dev"] for s in (0, 0, 1)]
    assert len(drawn[0]) == 9
    assert [e.id for e in drawn[0]] == [e.id for e in drawn[1]] != [e.id for e in drawn[2]]
    assert len(sample_split(whole, "random-500")) == 40


def test_tiny_data_lose_nothing():
    for count in range(1, 9):
        examples = [make_example(id=str(n), question=f"q{n}", answers=["a"], type="t") for n in range(count)]
        assert {e.id for part in split_examples(examples).values() for e in part} == {e.id for e in examples}


def test_every_layout_is_the_name_of_a_data_set_with_a_line_about_it():
    assert {"sample", "beir", *LAYOUTS} == DATASETS.keys()
    assert all(about and "\n" not in about for about in DATASETS.values())


@pytest.mark.parametrize(
    ("name", "options", "error", "problem"),
    [
        ("hotpot", {}, UnknownName, "did you mean 'hotpotqa'"),
        ("fictional:900", {}, UnknownName, "unknown data set 'fictional:900'"),
        ("hotpotqa", {}, UsageError, "hotpotqa:PATH"),
        ("absent.json", {}, DataError, "no such file"),
        ("hotpotqa:absent.json", {}, DataError, "absent.json: there is no such file"),
        ("sample", {"split": "tests"}, UnknownName, "unknown split 'tests'"),
        ({"tests": "a.json"}, {}, UnknownName, "unknown split 'tests'"),
        ("own", {"layout": "squad"}, UnknownName, "unknown layout 'squad'"),
        ("own", {"limit": 0}, ValueOutOfBounds, "limit 0"),
        *(("own", {"sampling": name}, UsageError, "first-N or random-N") for name in ("last-5", "first", "first-0")),
    ],
)
def test_unknown_names_and_options(own, name, options, error, problem):
    with pytest.raises(error, match=problem):
        load_dataset(own if name == "own" else name, **options)


def test_a_layout_can_stand_before_the_path(tmp_path):
    own = write(tmp_path / "mine.jsonl", [{"question": "x?", "answer": ["y", "z"]}])
    assert load_dataset(own).name == "nq_open"
    assert load_dataset(f"jsonl:{own}").name == "mine"


def test_an_unknown_layout_says_what_it_found(tmp_path):
    path = write(tmp_path / "odd.jsonl", [{"prompt": "x", "completion": "y"}])
    with pytest.raises(DataError, match=r"fields are completion, prompt.*bring the fields question and answer"):
        load_dataset(path)


def test_every_field(tmp_path):
    rows = [
        {"id": 7, "question": " Who? ", "answer": ["Ada", "A. Venn"], "aliases": ["Venn"], "type": "who",
         "gold_ids": ["b"], "context": ["plain text", {"id": "b", "title": "T", "text": "more"}],
         "evidences": [["bridge", "designer", "Ada"]], "decomposition": [{"question": "Which?", "answer": "it"}]},
        {"question": "Is it?", "answer": True},
        {"question": "How many?", "answer": 12},
    ]  # fmt: skip
    data = load_dataset(write(tmp_path / "mine.jsonl", rows), split_as="test")
    first, second, third = data.splits["test"]
    assert (first.id, first.question, first.answer, first.type) == ("7", "Who?", "Ada", "who")
    assert first.aliases == ["Ada", "A. Venn", "Venn"]
    assert first.gold_ids == ["b"]
    assert [p.text for p in data.corpus] == ["plain text", "more"]
    assert first.candidates == [p.id for p in data.corpus]
    assert first.evidences == [["bridge", "designer", "Ada"]]
    assert first.decomposition == [{"question": "Which?", "answer": "it"}]
    assert (second.answer, third.answer) == ("yes", "12")
    assert dict(first.inputs()) == {"question": "Who?"}
    assert set(first.keys()) == set(second.keys()) == set(load_dataset().splits["test"][0].keys())


@pytest.mark.parametrize(
    ("row", "field"),
    [
        *(({"question": value}, "question") for value in (None, "  ", 3)),
        *(({"answer": value}, "answer") for value in (None, "", [], ["a", 1], {"a": 1})),
        *(({"context": value}, "context") for value in ("text", [{"title": "no text"}])),
        ({"gold_ids": 5}, "gold_ids"),
        ({"id": True}, "id"),
        ({"evidences": [["a", "b"]]}, "evidences"),
        ({"decomposition": ["a"]}, "decomposition"),
    ],
)
def test_a_bad_record_is_named_by_file_line_and_field(tmp_path, row, field):
    good = {"question": "Who?", "answer": "Ada"}
    path = write(tmp_path / "mine.jsonl", [good, good | row])
    with pytest.raises(DataError) as caught:
        load_dataset(path)
    assert (Path(caught.value.path), caught.value.line, caught.value.field) == (path, 2, field)
    assert f"{path}:2 ({field}): " in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([{"id": "a"}, {"id": "a"}], r"mine.jsonl:2: the id 'a' stood before, in mine.jsonl:1"),
        (
            [{"context": [{"id": "p", "text": f"text {n}"}]} for n in range(2)],
            r"mine.jsonl:2 \(context\): the id 'p' names two different passages",
        ),
        (
            [{"gold_ids": ["nowhere"], "context": ["some text"]}],
            r"mine.jsonl:1 \(gold_ids\): 'nowhere' is not in the corpus",
        ),
    ],
)
def test_wrong_ids_are_refused_with_their_places(tmp_path, rows, problem):
    path = write(tmp_path / "mine.jsonl", [{"question": "x?", "answer": "y", **row} for row in rows])
    with pytest.raises(DataError, match=problem):
        load_dataset(path)


def test_repeated_questions_without_ids_are_kept(tmp_path):
    rows = [{"question": "x?", "answer": "y"}, {"question": "x?", "answer": "z"}]
    data = load_dataset(write(tmp_path / "mine.jsonl", rows), split_as="dev")
    assert len({e.id for e in data.splits["dev"]}) == 2


def test_pool_keeps_each_text_once():
    pool = PassagePool()
    added = [("T", "one"), ("T", "two"), ("T", "one"), ("T#2", "three"), ("T", "4")]
    assert [pool.add(title, text) for title, text in added] == ["T", "T#2", "T", "T#2#2", "T#3"]
    assert [p.text for p in pool.passages] == ["one", "two", "three", "4"]
    with pytest.raises(DataError, match="two different passages"):
        pool.add("U", "other", id="T")


def test_fingerprint_is_of_the_content(tmp_path):
    rows = questions(5, context=["a text"])
    first = load_dataset(write(tmp_path / "x.jsonl", rows)).fingerprint
    assert load_dataset(write(tmp_path / "y.jsonl", rows)).fingerprint == first
    for change in ({"answer": "6"}, {"question": "Other?"}, {"context": ["another text"]}):
        assert load_dataset(write(tmp_path / "y.jsonl", [*rows[:-1], rows[-1] | change])).fingerprint != first


def test_gold_ids_follow_a_given_corpus(tmp_path):
    record = {"_id": "1", "question": "q?", "answer": "a",
              "supporting_facts": [["Two", 0], ["Gone", 0], ["One", 0]],
              "context": [["One", ["First.", " Second."]], ["Two", ["Other."]]]}  # fmt: skip
    path = write(tmp_path / "dev.json", [record])
    rows = [{"id": "p1", "title": "One", "text": "First. Second."}, {"id": "p2", "title": "One", "text": "else"},
            {"id": "p3", "title": "Two", "text": "Other wording."}]  # fmt: skip
    corpus = write(tmp_path / "corpus.jsonl", rows)
    data = load_dataset(path, corpus=corpus, split_as="test")
    assert [p.id for p in data.corpus] == ["p1", "p2", "p3"]
    assert data.splits["test"][0].gold_ids == ["p3", "Gone", "p1"]
    assert data.splits["test"][0].candidates == ["p1", "p3"]
