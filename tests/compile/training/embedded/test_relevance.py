"""The embedded reranker trained on a few questions in the layouts of the public training sets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from knowgap.compiling.training.embedded import relevance as module
from knowgap.compiling.training.embedded.ranked_questions import read_question_sets
from knowgap.compiling.training.embedded.relevance import train_relevance
from knowgap.errors import DataError
from knowgap.retrieval import EmbeddedReranker

PEOPLE = ["Ida Brenner", "Tom Hale", "Ruth Calder", "Jonas Weil", "Mara Finch", "Olaf Stein"]
PLACES = ["Silver Harbour", "Golden Valley", "Pont Halmay", "Mount Kerrin", "Lake Orne", "Port Tolvan"]
TEXTS = {place: f"{place} is a film of 19{40 + i}. It was directed by {PEOPLE[i]}." for i, place in enumerate(PLACES)}
BIRTHS = {person: f"{person} was born in {1900 + i}." for i, person in enumerate(PEOPLE)}


def _multi_hop(number: int) -> dict:
    place, person = PLACES[number], PEOPLE[number]
    context = [[title, [text]] for title, text in (TEXTS | BIRTHS).items()]
    return {
        "question": f"When was the director of the film {place} born?",
        "context": context,
        "supporting_facts": [[place, 0], [person, 0]],
        "qa_pairs": [
            {"question": f"Who directed the film {place}?", "answer": person},
            {"question": f"When was {person} born?", "answer": str(1900 + number)},
            {"question": "When was the director born?", "answer": str(1900 + number)},
        ],
    }


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    records = [_multi_hop(number) for number in range(len(PLACES))]
    (folder / "2wiki").mkdir()
    (folder / "2wiki" / "2wiki_train_6.json").write_text(json.dumps(records), "utf-8")
    (folder / "2wiki" / "2wiki_dev_6.json").write_text("not read", "utf-8")
    (folder / "hotpot_train_3.json").write_text(json.dumps(records[:3]), "utf-8")
    corpus = [{"doc_id": place, "title": place, "text": text} for place, text in TEXTS.items()]
    (folder / "hotpot_corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)), "utf-8")
    asked = {"question": "Which film did Olaf Stein direct?", "gold_doc_ids": ["Port Tolvan"]}
    (folder / "hotpot_questions.jsonl").write_text(json.dumps(asked) + "\n", "utf-8")
    paragraphs = [{"context": text, "qas": [{"question": f"When was {who} born?"}]} for who, text in BIRTHS.items()]
    articles = {"data": [{"title": "People_of_film", "paragraphs": paragraphs}]}
    (folder / "squadshifts_reddit.json").write_text(json.dumps(articles), "utf-8")
    return folder


def test_the_training_files_are_read_and_no_other(data):
    sets = {own.name: own for own in read_question_sets(data)}
    assert {name: len(own.questions) for name, own in sets.items()} == {
        "HotpotQA": 4,
        "2WikiMultihopQA": 6,
        "2WikiMultihopQA, sub-questions": 12,
        "squadshifts, reddit": 6,
    }
    question, gold = sets["HotpotQA"].questions[-1]
    assert question.startswith("Which film did Olaf")
    assert gold == {f"Port Tolvan: {TEXTS['Port Tolvan']}"}
    for own in sets.values():
        assert all(gold and gold <= set(own.texts) for _, gold in own.questions)
    assert all(len(gold) == 1 for _, gold in sets["2WikiMultihopQA, sub-questions"].questions)
    assert sets["squadshifts, reddit"].texts[0].startswith("People of film: ")


def test_it_learns_what_is_gold_and_measures_on_families_held_out(data, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_BEST", 2)
    steps: list[tuple[int, int]] = []
    training = train_relevance(data, tmp_path / "a", progress=lambda done, total, what: steps.append((done, total)))
    assert steps[-1][0] == steps[-1][1] > 0
    assert (training.model.coefficients > 0).all()
    held_out = {own.name: own for own in training.held_out}
    assert held_out["2WikiMultihopQA, sub-questions"].model == 1.0
    assert all(own.shown >= 0.9 for own in training.held_out)
    reranker = EmbeddedReranker(tmp_path / "a")
    right, wrong = (str(TEXTS[place]) for place in ("Lake Orne", "Pont Halmay"))
    assert np.diff(reranker.score([("Who directed Lake Orne?", wrong), ("Who directed Lake Orne?", right)]))[0] > 0
    assert reranker.default_threshold == training.model.delta
    again = train_relevance(data, tmp_path / "b").model
    assert again.coefficients.tolist() == training.model.coefficients.tolist()
    for name in ("relevance.safetensors", "relevance.json", "relevance_card.md"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_folder_without_training_files_or_with_damaged_ones_is_refused(tmp_path):
    with pytest.raises(DataError, match="no training file"):
        read_question_sets(tmp_path)
    (tmp_path / "2wiki_train.json").write_text('[{"question": "?"}]', "utf-8")
    with pytest.raises(DataError, match="2wiki is not in its layout"):
        read_question_sets(tmp_path)
