"""The models that come with knowgap can be trained again: each on a few questions in the layouts of the public sets."""

import json
from pathlib import Path

import pytest
from bundled_models import reading
from bundled_models.reading_examples import read_examples
from train_bundled_models import main

from knowgap.compiling.training.config import TrainingConfig
from knowgap.errors import DataError
from knowgap.lms.embedded.span_head import SpanHead
from knowgap.retrieval.minilm import read_weights

_TOWNS = ["Wick", "Tarn", "Dunmore", "Aldern", "Polva", "Sorrel", "Kember", "Brannt", "Hollin", "Marsk"]
_PEOPLE = ["Ada Moorland", "Bo Reedham", "Cy Holtby", "Di Farrow", "Ed Garnett", "Flo Hask", "Gus Ilford", "Hal Jessop"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of squadshifts, 2WikiMultihopQA and HotpotQA files about some people."""
    folder, texts = tmp_path_factory.mktemp("data"), {}
    for i, name in enumerate(_PEOPLE):
        town, year = _TOWNS[i], 1801 + 7 * i
        texts[name] = [
            f"{name} was a painter.",
            f"She was born in {town} in {year} and painted boats in {_TOWNS[-1 - i]}.",
        ]
    articles, wiki, hotpot = [], [], []
    for i, (name, sentences) in enumerate(texts.items()):
        context = " ".join(sentences)
        town, year = _TOWNS[i], str(1801 + 7 * i)
        asked = [(f"Where was {name} born?", town), (f"When was {name} born?", year)]
        qas = [
            {"id": f"{i}-{k}", "question": q, "answers": [{"text": a, "answer_start": context.index(a)}]}
            for k, (q, a) in enumerate(asked)
        ]
        articles.append({"title": name.replace(" ", "_"), "paragraphs": [{"context": context, "qas": qas}]})
        paragraphs = [[other, texts[other]] for other in [name, *(n for n in texts if n != name)][:4]]
        shared = {"context": paragraphs, "supporting_facts": [[name, 1]]}
        steps = [{"question": asked[0][0], "answer": f"{name} was born in {town}."}]
        more = {"evidences": [[name, "place of birth", town]], "qa_pairs": steps, "type": "comparison"}
        wiki.append({"_id": f"w{i}", "question": f"Was {name} born in {town}?", "answer": "yes", **shared, **more})
        question = f"Which town is the birthplace of {name}?"
        hotpot.append(
            {"_id": f"h{i}", "question": question, "answer": town, "type": "bridge", "level": "easy"} | shared
        )
    (folder / "deeper").mkdir(parents=True)
    (folder / "squadshifts_new_wiki.json").write_text(json.dumps({"data": articles}), "utf-8")
    (folder / "deeper" / "2wiki_train_8.json").write_text(json.dumps(wiki), "utf-8")
    (folder / "deeper" / "hotpot_train_8.json").write_text(json.dumps(hotpot), "utf-8")
    return folder


@pytest.fixture
def train(tmp_path: Path, monkeypatch, capsys):
    def run(part: str, data: Path) -> dict[str, float]:
        monkeypatch.setattr("sys.argv", ["train", part, "--data", str(data), "--output", str(tmp_path)])
        main()
        return json.loads(capsys.readouterr().out.removeprefix(f"{part}: "))

    return run


def test_relevance_is_trained(train, data: Path, tmp_path: Path):
    relevance = train("relevance", data)
    assert relevance["pairs"] > 0
    assert read_weights(tmp_path, "relevance")[0]["delta"] == relevance["delta"]


def test_a_reader_is_trained_on_examples_that_say_where_the_passage_answers(
    train, data: Path, tmp_path: Path, monkeypatch
):
    examples = read_examples(data)
    asked = {(e.question, e.text[slice(*place)]) for e in examples for place in e.answers}
    assert ("Where was Ada Moorland born?", "Wick") in asked
    config = TrainingConfig(epochs=1, learning_rate=1e-3, batch_size=1, max_length=64)
    monkeypatch.setattr(reading, "READING_CONFIG", config)
    assert train("reading", data)["steps"] > 0
    head = SpanHead(tmp_path / "reading")
    assert head.candidates("Where was Ada Moorland born?", [("", "Ada Moorland was born in Wick.")])[0]


def test_a_folder_without_training_sets_is_refused(train, tmp_path: Path):
    for part in ("relevance", "reading"):
        with pytest.raises(DataError, match="no training file"):
            train(part, tmp_path)
