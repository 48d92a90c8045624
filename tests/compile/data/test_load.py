import json
from pathlib import Path

import pytest

from knowgap.compile.data import DATASETS, LAYOUTS, SPLITS, load_dataset, read_corpus
from knowgap.compile.data.dataset import PassagePool, make_example, sample_split, split_examples
from knowgap.errors import DataError, UnknownName, UsageError, ValueOutOfBounds
from knowgap.retrieval.passage import Passage


def write(path: Path, data, lines=False) -> Path:
    text = "\n".join(json.dumps(row, ensure_ascii=False) for row in data) if lines else json.dumps(data)
    path.write_text(text, encoding="utf-8")
    return path


def questions(count, **more):
    return [{"question": f"What is the number {n}?", "answer": f"{n}", **more} for n in range(count)]


@pytest.fixture
def own(tmp_path):
    return write(tmp_path / "mine.jsonl", questions(40), lines=True)


def every(data):
    return [example for split in SPLITS for example in data.splits[split]]


class TestSplits:
    def test_one_file_is_divided_half_quarter_quarter(self, own):
        data = load_dataset(own)
        assert data.name == "mine"
        assert [len(data.splits[s]) for s in SPLITS] == [20, 10, 10]
        assert len({e.id for e in every(data)}) == 40

    def test_the_division_follows_the_seed_and_not_the_order(self, own, tmp_path):
        other = write(tmp_path / "reordered.jsonl", questions(40)[::-1], lines=True)
        first, again, moved, seeded = (
            load_dataset(own),
            load_dataset(own),
            load_dataset(other),
            load_dataset(own, seed=1),
        )
        ids = [{e.id for e in data.splits["test"]} for data in (first, again, moved, seeded)]
        assert ids[0] == ids[1] == ids[2] != ids[3]
        assert first.fingerprint == again.fingerprint == moved.fingerprint == seeded.fingerprint

    def test_equal_questions_stay_together(self, tmp_path):
        twice = [{"question": f"q{n // 2}", "answer": str(n)} for n in range(60)]
        data = load_dataset(write(tmp_path / "twice.jsonl", twice, lines=True))
        where = {split: {e.question for e in data.splits[split]} for split in SPLITS}
        assert not where["train"] & where["dev"] | where["train"] & where["test"] | where["dev"] & where["test"]
        assert len(every(data)) == 60

    def test_a_whole_file_as_one_split(self, own):
        data = load_dataset(own, split_as="test")
        assert [len(data.splits[s]) for s in SPLITS] == [0, 0, 40]
        assert [e.question for e in data.splits["test"]] == [row["question"] for row in questions(40)]

    def test_files_named_after_their_splits_are_respected(self, tmp_path):
        write(tmp_path / "my_train.v1.2.jsonl", questions(6), lines=True)
        write(tmp_path / "my-validation.jsonl", [{"question": "x?", "answer": "y"}], lines=True)
        write(tmp_path / "corpus.jsonl", [{"id": "p", "title": "t", "text": "u"}], lines=True)
        data = load_dataset(tmp_path)
        assert data.name == tmp_path.name
        assert [len(data.splits[s]) for s in SPLITS] == [6, 1, 0]
        assert data.corpus == [Passage("p", "t", "u")]

    def test_a_mapping_of_files(self, tmp_path):
        files = {"train": write(tmp_path / "a.jsonl", questions(3), lines=True),
                 "test": write(tmp_path / "b.jsonl", [{"question": "x?", "answer": "y"}], lines=True)}  # fmt: skip
        data = load_dataset(files)
        assert [len(data.splits[s]) for s in SPLITS] == [3, 0, 1]
        only = load_dataset(files, split="test")
        assert [len(only.splits[s]) for s in SPLITS] == [0, 0, 1]
        with pytest.raises(UsageError, match=r"no dev split among a\.jsonl, b\.jsonl"):
            load_dataset(files, split="dev")

    def test_ambiguous_folders_are_refused(self, tmp_path):
        with pytest.raises(DataError, match="holds no data files"):
            load_dataset(tmp_path)
        write(tmp_path / "one_dev.jsonl", questions(3), lines=True)
        write(tmp_path / "two_dev.jsonl", questions(3), lines=True)
        with pytest.raises(DataError, match=r"one_dev.jsonl and two_dev.jsonl both hold the dev split"):
            load_dataset(tmp_path)
        (tmp_path / "two_dev.jsonl").rename(tmp_path / "two.jsonl")
        with pytest.raises(DataError, match=r"two.jsonl: its name tells no split"):
            load_dataset(tmp_path)

    def test_the_same_id_in_two_splits_is_refused(self, tmp_path):
        row = {"id": "q1", "question": "x?", "answer": "y"}
        write(tmp_path / "train.jsonl", [row], lines=True)
        path = write(tmp_path / "test.jsonl", [{**row, "question": "z?"}], lines=True)
        with pytest.raises(DataError, match=r"the id 'q1' stood before, in test.jsonl:1"):
            load_dataset(tmp_path)
        assert path.exists()

    def test_limit_and_sampling(self, own):
        assert [len(load_dataset(own, limit=4).splits[s]) for s in SPLITS] == [4, 4, 4]
        whole = load_dataset(own, split_as="dev").splits["dev"]
        first = load_dataset(own, split_as="dev", sampling="first-7").splits["dev"]
        assert [e.id for e in first] == [e.id for e in whole[:7]]
        drawn = [load_dataset(own, split_as="dev", sampling="random-9", seed=s).splits["dev"] for s in (0, 0, 1)]
        assert len(drawn[0]) == 9
        assert [e.id for e in drawn[0]] == [e.id for e in drawn[1]] != [e.id for e in drawn[2]]
        assert len(sample_split(whole, "random-500")) == 40
        for wrong in ("last-5", "first", "first-0", "random-x"):
            with pytest.raises(UsageError, match="first-N or random-N"):
                load_dataset(own, sampling=wrong)
        with pytest.raises(ValueOutOfBounds, match="limit 0"):
            load_dataset(own, limit=0)

    def test_tiny_data_lose_nothing(self):
        for count in range(1, 9):
            examples = [make_example(id=str(n), question=f"q{n}", answers=["a"], type="t") for n in range(count)]
            assert sorted(e.id for part in split_examples(examples).values() for e in part) == sorted(
                map(str, range(count))
            )


class TestNames:
    def test_registry(self):
        assert {"sample", "hotpotqa", "2wikimultihopqa", "strategyqa", "nq_open", "jsonl"} <= DATASETS.keys()
        assert LAYOUTS.keys() <= DATASETS.keys()
        assert all(about and "\n" not in about for about in DATASETS.values())

    def test_unknown_names(self, tmp_path):
        with pytest.raises(UnknownName, match="did you mean 'hotpotqa'"):
            load_dataset("hotpot")
        with pytest.raises(UsageError, match="hotpotqa:PATH"):
            load_dataset("hotpotqa")
        with pytest.raises(DataError, match="no such file"):
            load_dataset(tmp_path / "absent.json")
        with pytest.raises(DataError, match="no such file"):
            load_dataset("absent.json")
        with pytest.raises(UnknownName, match="unknown split 'tests'"):
            load_dataset(split="tests")
        own = write(tmp_path / "mine.jsonl", questions(4), lines=True)
        with pytest.raises(UnknownName, match="unknown layout 'squad'"):
            load_dataset(own, layout="squad")

    def test_a_layout_can_stand_before_the_path(self, tmp_path):
        own = write(tmp_path / "mine.jsonl", [{"question": "x?", "answer": ["y", "z"]}], lines=True)
        assert load_dataset(own).name == "nq_open"
        assert load_dataset(f"jsonl:{own}").name == "mine"

    def test_an_unknown_layout_says_what_it_found(self, tmp_path):
        path = write(tmp_path / "odd.jsonl", [{"prompt": "x", "completion": "y"}], lines=True)
        with pytest.raises(DataError, match=r"fields are completion, prompt.*bring the fields question and answer"):
            load_dataset(path)


class TestOwnRecords:
    def test_every_field(self, tmp_path):
        rows = [
            {"id": 7, "question": " Who? ", "answer": ["Ada", "A. Venn"], "aliases": ["Venn"], "type": "who",
             "gold_ids": ["b"], "context": ["plain text", {"id": "b", "title": "T", "text": "more"}]},
            {"question": "Is it?", "answer": True},
            {"question": "How many?", "answer": 12},
        ]  # fmt: skip
        data = load_dataset(write(tmp_path / "mine.jsonl", rows, lines=True), split_as="test")
        first, second, third = data.splits["test"]
        assert (first.id, first.question, first.answer, first.type) == ("7", "Who?", "Ada", "who")
        assert first.aliases == ["Ada", "A. Venn", "Venn"]
        assert first.gold_ids == ["b"]
        assert [p.text for p in data.corpus] == ["plain text", "more"]
        assert first.candidates == [p.id for p in data.corpus]
        assert (second.answer, third.answer) == ("yes", "12")
        assert dict(first.inputs()) == {"question": "Who?"}
        assert set(first.keys()) == set(second.keys()) == set(load_dataset().splits["test"][0].keys())

    @pytest.mark.parametrize(
        ("row", "field"),
        [
            ({"answer": "y"}, "question"),
            ({"question": "  ", "answer": "y"}, "question"),
            ({"question": 3, "answer": "y"}, "question"),
            ({"question": "x?"}, "answer"),
            ({"question": "x?", "answer": ""}, "answer"),
            ({"question": "x?", "answer": []}, "answer"),
            ({"question": "x?", "answer": ["a", 1]}, "answer"),
            ({"question": "x?", "answer": {"a": 1}}, "answer"),
            ({"question": "x?", "answer": "y", "gold_ids": 5}, "gold_ids"),
            ({"question": "x?", "answer": "y", "context": [{"title": "no text"}]}, "context"),
            ({"question": "x?", "answer": "y", "context": "text"}, "context"),
            ({"question": "x?", "answer": "y", "id": True}, "id"),
        ],
    )
    def test_a_bad_record_is_named_by_file_line_and_field(self, tmp_path, row, field):
        good = {"question": "Who?", "answer": "Ada"}
        path = write(tmp_path / "mine.jsonl", [good, row], lines=True)
        with pytest.raises(DataError) as caught:
            load_dataset(path)
        assert (Path(caught.value.path), caught.value.line, caught.value.field) == (path, 2, field)
        assert f"{path}:2 ({field}): " in str(caught.value)

    def test_duplicates_are_refused_with_both_places(self, tmp_path):
        rows = [{"id": "a", "question": "x?", "answer": "y"}, {"id": "a", "question": "z?", "answer": "y"}]
        with pytest.raises(DataError, match=r"mine.jsonl:2: the id 'a' stood before, in mine.jsonl:1"):
            load_dataset(write(tmp_path / "mine.jsonl", rows, lines=True))

    def test_repeated_questions_without_ids_are_kept(self, tmp_path):
        rows = [{"question": "x?", "answer": "y"}, {"question": "x?", "answer": "z"}]
        data = load_dataset(write(tmp_path / "mine.jsonl", rows, lines=True), split_as="dev")
        assert len({e.id for e in data.splits["dev"]}) == 2

    def test_one_id_for_two_passages_is_refused(self, tmp_path):
        rows = [{"question": f"{n}?", "answer": "y", "context": [{"id": "p", "text": f"text {n}"}]} for n in range(2)]
        with pytest.raises(DataError, match=r"mine.jsonl:2 \(context\): the id 'p' names two different passages"):
            load_dataset(write(tmp_path / "mine.jsonl", rows, lines=True))

    def test_gold_ids_must_be_in_the_corpus(self, tmp_path):
        rows = [{"question": "x?", "answer": "y", "gold_ids": ["nowhere"], "context": ["some text"]}]
        with pytest.raises(DataError, match=r"mine.jsonl:1 \(gold_ids\): 'nowhere' is not in the corpus"):
            load_dataset(write(tmp_path / "mine.jsonl", rows, lines=True))


class TestDamagedFiles:
    def test_empty_and_blank(self, tmp_path):
        for text in ("", "\n \n"):
            path = tmp_path / "mine.jsonl"
            path.write_text(text)
            with pytest.raises(DataError, match=r"mine.jsonl: is empty"):
                load_dataset(path)
        path.write_text("[]")
        with pytest.raises(DataError, match="holds no records"):
            load_dataset(path, layout="hotpotqa")

    def test_not_json(self, tmp_path):
        path = tmp_path / "mine.jsonl"
        path.write_text('{"question": "x?", "answer": "y"}\n{"question": "x?", answer}\n')
        with pytest.raises(DataError, match=r"mine.jsonl:2: is not JSON: .* column 20"):
            load_dataset(path)
        path.write_text('{"question": "x?", "answer": "y"}\n["list"]\n')
        with pytest.raises(DataError, match=r"mine.jsonl:2: must be a JSON object"):
            load_dataset(path)

    def test_truncated_anywhere_is_an_error_or_whole(self, tmp_path):
        rows = [{"question": f"Wer ist Nr. {n}, 東京 ü?", "answer": "ä"} for n in range(4)]
        whole = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode()
        path = tmp_path / "mine.jsonl"
        ends = {whole.index(b"\n", at) for at in range(0, len(whole), 40) if whole.find(b"\n", at) > 0}
        for cut in range(1, len(whole)):
            path.write_bytes(whole[:cut])
            if cut in ends or cut - 1 in ends:
                assert every(load_dataset(path))
            else:
                with pytest.raises(DataError, match=r"mine.jsonl"):
                    load_dataset(path)

    def test_a_truncated_array_is_always_an_error(self, tmp_path):
        records = [
            {"_id": f"{n}", "question": "q[]{}\"\\?", "answer": "ä东", "supporting_facts": [["T", 0]],
             "context": [["T", ["s."]]]} for n in range(3)
        ]  # fmt: skip
        whole = json.dumps(records, ensure_ascii=False, indent=1).encode()
        path = tmp_path / "dev.json"
        for cut in range(1, len(whole)):
            path.write_bytes(whole[:cut])
            with pytest.raises(DataError, match=r"dev.json"):
                load_dataset(path, layout="hotpotqa")
        path.write_bytes(whole)
        assert len(every(load_dataset(path))) == 3

    def test_wrong_encoding_names_the_byte(self, tmp_path):
        path = tmp_path / "mine.jsonl"
        path.write_bytes(
            b'{"question": "x?", "answer": "y"}\n' + '{"question": "Müller?", "answer": "y"}'.encode("latin-1")
        )
        with pytest.raises(DataError, match=r"mine.jsonl:2: is not UTF-8: byte 0xfc at column 16"):
            load_dataset(path)
        path.write_text('[{"question": "x?"}]', encoding="utf-16")
        with pytest.raises(DataError, match="is not UTF-8: byte 0xff"):
            load_dataset(path)

    def test_a_byte_order_mark_is_no_harm(self, tmp_path):
        path = tmp_path / "mine.jsonl"
        path.write_text('{"question": "x?", "answer": "y"}', encoding="utf-8-sig")
        assert every(load_dataset(path))[0].question == "x?"

    def test_compressed_files(self, tmp_path):
        import gzip

        path = tmp_path / "mine.jsonl.gz"
        whole = gzip.compress(b'{"question": "x?", "answer": "y"}\n' * 3, mtime=0)
        path.write_bytes(whole)
        assert len(every(load_dataset(path))) == 3
        path.write_bytes(whole[:-6])
        with pytest.raises(DataError, match="damaged or cut short"):
            load_dataset(path)


class TestCorpus:
    def test_jsonl(self, tmp_path):
        rows = [{"id": "a", "title": "T", "text": "x"}, {"_id": 2, "text": "y"}, {"docid": "c", "contents": "z"}]
        path = write(tmp_path / "corpus.jsonl", rows, lines=True)
        assert list(read_corpus(path)) == [Passage("a", "T", "x"), Passage("2", "", "y"), Passage("c", "", "z")]

    def test_dpr(self, tmp_path):
        path = tmp_path / "psgs_w100.tsv"
        path.write_text('id\ttext\ttitle\n1\t"He said ""no"" twice."\tSpeech\n2\tPlain "text\tOther\n')
        assert list(read_corpus(path)) == [
            Passage("1", "Speech", 'He said "no" twice.'),
            Passage("2", "Other", 'Plain "text'),
        ]

    def test_colbert(self, tmp_path):
        path = tmp_path / "collection.tsv"
        path.write_text(
            "0\tAda Venn | An architect.\n1\tno title | here, because it is far " + "x" * 200 + "\n2\tplain\n"
        )
        with path.open("a") as file:
            file.write('3\t"Quoted" words "stay"\n')
        passages = list(read_corpus(path))
        assert passages[3].text == '"Quoted" words "stay"'
        assert passages[0] == Passage("0", "Ada Venn", "An architect.")
        assert passages[2] == Passage("2", "", "plain")

    def test_is_a_stream(self, tmp_path):
        path = tmp_path / "corpus.jsonl"
        path.write_text('{"id": "a", "text": "x"}\nnot json\n')
        stream = read_corpus(path)
        assert next(stream).id == "a"
        with pytest.raises(DataError, match=r"corpus.jsonl:2: is not JSON"):
            next(stream)

    @pytest.mark.parametrize(
        ("name", "text", "problem"),
        [
            ("c.jsonl", '{"id": "a", "title": "t"}', r"c.jsonl:1 \(text\): is missing"),
            ("c.jsonl", '{"id": "a", "text": " "}', r"c.jsonl:1 \(text\): is blank"),
            ("c.jsonl", '{"id": "a", "text": 5}', r"c.jsonl:1 \(text\): must be str"),
            ("c.jsonl", '{"id": 1.5, "text": "x"}', r"c.jsonl:1 \(id\): must be str or int"),
            ("c.jsonl", '{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}', r"c.jsonl:2 \(id\): the id 'a' stood"),
            ("c.jsonl", "", "holds no records"),
            ("c.tsv", "0\tx\n1\n", r"c.tsv:2: must be id<TAB>text"),
            ("c.tsv", "0\tx\n\ty\n", r"c.tsv:2 \(id\): is blank"),
            ("c.tsv", "", "holds no passages"),
        ],
    )
    def test_faults_are_named(self, tmp_path, name, text, problem):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(DataError, match=problem):
            list(read_corpus(path))

    def test_gold_ids_follow_a_given_corpus(self, tmp_path):
        record = {"_id": "1", "question": "q?", "answer": "a",
                  "supporting_facts": [["Two", 0], ["Gone", 0], ["One", 0]],
                  "context": [["One", ["First.", " Second."]], ["Two", ["Other."]]]}  # fmt: skip
        path = write(tmp_path / "dev.json", [record])
        rows = [{"id": "p1", "title": "One", "text": "First. Second."}, {"id": "p2", "title": "One", "text": "else"},
                {"id": "p3", "title": "Two", "text": "Other wording."}]  # fmt: skip
        corpus = write(tmp_path / "corpus.jsonl", rows, lines=True)
        data = load_dataset(path, corpus=corpus, split_as="test")
        assert [p.id for p in data.corpus] == ["p1", "p2", "p3"]
        assert data.splits["test"][0].gold_ids == ["p3", "Gone", "p1"]
        assert data.splits["test"][0].candidates == ["p1", "p3"]


def test_pool_keeps_each_text_once():
    pool = PassagePool()
    ids = [
        pool.add("T", "one"),
        pool.add("T", "two"),
        pool.add("T", "one"),
        pool.add("T#2", "three"),
        pool.add("T", "4"),
    ]
    assert ids == ["T", "T#2", "T", "T#2#2", "T#3"]
    assert [p.text for p in pool.passages] == ["one", "two", "three", "4"]
    with pytest.raises(DataError, match="two different passages"):
        pool.add("U", "other", id="T")


def test_fingerprint_is_of_the_content(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    rows = questions(5, context=["a text"])
    one = load_dataset(write(tmp_path / "a" / "x.jsonl", rows, lines=True))
    two = load_dataset(write(tmp_path / "b" / "y.jsonl", rows, lines=True))
    assert one.fingerprint == two.fingerprint
    for change in ({"answer": "6"}, {"question": "Other?"}, {"context": ["another text"]}):
        other = load_dataset(write(tmp_path / "b" / "y.jsonl", [*rows[:-1], {**rows[-1], **change}], lines=True))
        assert other.fingerprint != one.fingerprint
