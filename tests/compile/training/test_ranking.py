"""Rerankers and ColBERT checkpoints that are trained on what an index finds."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from safetensors.numpy import load_file
from support import OverlapRetriever
from training_helpers import same_weights, write_tiny_bert

from knowgap.compiling.data.dataset import Dataset, make_example
from knowgap.compiling.training import ColBERTConfig, RerankerConfig, compare_models, late_interaction, ranking
from knowgap.compiling.training.cross_encoder import rerank, reranker_job, untrained_reranker
from knowgap.compiling.training.fit import fit
from knowgap.compiling.training.late_interaction import base_checkpoint, colbert_job, load_encoder, search_with
from knowgap.compiling.training.ranking import (
    RankedQuestion,
    find_candidates,
    held_out_questions,
    score_orders,
    training_rows,
)
from knowgap.errors import CheckpointError, UsageError
from knowgap.retrieval import make_reranker
from knowgap.retrieval.colbert.encoder import TokenEncoder
from knowgap.retrieval.passage import Passage

NAMES = ["Orle", "Tarn", "Venn", "Brisk", "Quay", "Moss", "Fell", "Dune"]
CORPUS = [
    Passage(f"{name}-{what}", f"{name} {what}", f"The {name} {what} is old.")
    for name in NAMES
    for what in ("Bridge", "Tower")
]
EXAMPLES = [
    make_example(
        id=name, question=f"How old is the {name} Bridge?", answers=["very"], type="", gold_ids=[f"{name}-Bridge"]
    )
    for name in NAMES
]
QUICK = {"epochs": 2, "learning_rate": 1e-3, "batch_size": 4, "max_length": 24, "seed": 1, "negatives": 2}


@pytest.fixture(scope="module")
def questions():
    return find_candidates(EXAMPLES, OverlapRetriever(CORPUS), CORPUS, depth=6)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_bert(tmp_path_factory.mktemp("base") / "bert")


def test_wrong_passages_are_hard_and_hold_no_answer(questions):
    [first, *_] = questions
    assert [passage.id for passage in first.gold] == ["Orle-Bridge"]
    assert first.negatives(2) == [passage for passage in first.found if passage.id != "Orle-Bridge"][:2]
    answered = find_candidates([EXAMPLES[0].copy(answer="tower", aliases=["Tower"])], OverlapRetriever(CORPUS), CORPUS)
    assert all("Tower" not in passage.title for passage in answered[0].negatives(5))
    rows = training_rows(questions, 3)
    assert len(rows) == 8
    assert all(len({row.gold, *row.negatives}) == 4 for row in rows)
    many = training_rows(questions, 12)
    assert many == training_rows(questions, 12)
    assert all(len({row.gold, *row.negatives}) == 13 for row in many)


def test_questions_without_known_gold_are_left_out_and_said():
    strangers = [EXAMPLES[0].copy(gold_ids=["nowhere"]), EXAMPLES[1]]
    with pytest.warns(UserWarning, match="1 of 2 questions have no known gold passages: left out"):
        assert len(find_candidates(strangers, OverlapRetriever(CORPUS), CORPUS)) == 1
    with pytest.raises(UsageError, match="none of 1 questions names gold passages"):
        find_candidates(strangers[:1], OverlapRetriever(CORPUS), CORPUS)


def test_questions_that_nothing_can_be_measured_on_are_refused_before_passages_are_searched():
    data = Dataset("own", {"train": EXAMPLES[:1], "test": [EXAMPLES[1].copy(gold_ids=["nowhere"])]}, CORPUS, "")
    searched = OverlapRetriever(CORPUS)
    searched.search = lambda *_: pytest.fail("passages were searched")
    with pytest.raises(UsageError, match="none of 1 questions names gold passages"):
        ranking.train_ranking(data, searched, RerankerConfig(), pytest.fail, {})


def test_colbert_and_the_index_are_measured_by_as_many_passages(monkeypatch, tmp_path: Path):
    """With nothing trained, and with models that find what the index finds."""
    found = {}
    monkeypatch.setattr(late_interaction, "base_checkpoint", lambda *_: nullcontext(tmp_path))
    monkeypatch.setattr(late_interaction, "colbert_job", lambda rows, *_, **__: found.update(train=rows))
    monkeypatch.setattr(late_interaction, "search_with", lambda _, rows, *__, **___: [row.found for row in rows])
    monkeypatch.setattr(ranking, "train", lambda _, measure, **__: found.update(measure()))
    retriever = OverlapRetriever(CORPUS)
    last = retriever.search([EXAMPLES[1].question], len(CORPUS))[0][-1].passage.id
    data = Dataset("own", {"train": EXAMPLES[:1], "test": [EXAMPLES[1].copy(gold_ids=[last])]}, CORPUS, "")
    late_interaction.colbert(data, retriever, tmp_path / "new", config=ColBERTConfig(depth=2))
    assert [len(row.found) for row in found["train"]] == [2]
    assert found["the index"] == found["trained"] == {"recall@5": [0.0], "recall@50": [1.0], "mrr": [1 / len(CORPUS)]}


def test_a_question_that_was_trained_on_is_not_unseen():
    louder = EXAMPLES[0].copy(question=EXAMPLES[0].question.upper() + "!")
    data = Dataset("own", {"train": EXAMPLES[:1], "test": [louder, EXAMPLES[1]]}, CORPUS, "")
    assert held_out_questions(data, "test", None) == [EXAMPLES[1]]


def test_orders_are_compared_by_hand_computed_scores(questions):
    gold_last = [[*[p for p in CORPUS if p not in q.gold][:6], *q.gold] for q in questions]
    values = score_orders(questions, {"worst": gold_last, "best": [q.gold for q in questions]}, (5, 7))
    worst, best = compare_models(values).values()
    assert {name: mean.mean for name, mean in worst.means.items()} == {"recall@5": 0.0, "recall@7": 1.0, "mrr": 1 / 7}
    assert (best.means["recall@5"].mean, best.means["mrr"].mean) == (1.0, 1.0)
    assert worst.comparison is None
    assert (best.comparison.difference, best.comparison.wins) == (1.0, 8)


def test_a_reranker_learns_to_tell_gold_passages(base, tmp_path: Path):
    pairs = [RankedQuestion(e, [CORPUS[2 * n]], CORPUS[2 * n : 2 * n + 2][::-1]) for n, e in enumerate(EXAMPLES)]
    config = RerankerConfig(epochs=30, learning_rate=1e-2, batch_size=8, max_length=24, negatives=1)
    fit(reranker_job(pairs[:6], tmp_path / "model", base=str(base), config=config))
    ranked = rerank(make_reranker(tmp_path / "model"), pairs)
    assert ranked == [[*pair.gold, pair.found[0]] for pair in pairs]


def test_the_embedded_base_has_learnt_to_find_answers():
    reranker = untrained_reranker("embedded")
    question = "Who designed the Orle Bridge?"
    texts = ["The Orle Bridge was designed by Marta Kell.", "The Orle Bridge is long.", "Marta Kell was born in Wick."]
    scores = reranker.score([(question, text) for text in texts])
    assert scores[0] > max(scores[1:])


@pytest.mark.long
@pytest.mark.parametrize("rank", [None, 2])
def test_a_trained_checkpoint_has_the_files_of_its_base_and_is_searched(questions, tmp_path: Path, rank):
    config = ColBERTConfig(**QUICK, lora_rank=rank)
    with base_checkpoint("embedded", CORPUS, 32) as folder:
        trained = fit(colbert_job(questions, tmp_path / "new", folder, name="embedded", config=config)).folder
        assert not same_weights(trained, folder)
        assert load_file(trained / "model.safetensors").keys() == load_file(folder / "model.safetensors").keys()
        assert {path.name for path in trained.iterdir()} == {p.name for p in folder.iterdir()} | {"training.json"}
    assert TokenEncoder(trained).dim == 32
    found = search_with(trained, questions, CORPUS, depth=5)
    assert score_orders(questions, {"trained": found})["trained"]["recall@5"] == [1.0] * len(questions)
    with base_checkpoint(str(trained), CORPUS) as again:  # what was trained can be trained further
        assert fit(colbert_job(questions, tmp_path / "further", again, name="again", config=config)).steps == 4


def test_the_loss_knows_other_gold_passages_and_weights_of_tokens(tmp_path: Path):
    import torch

    with base_checkpoint("embedded", CORPUS, 32) as folder:
        rows = find_candidates(EXAMPLES[:2], OverlapRetriever(CORPUS), CORPUS, depth=6)
        encoder, loss = load_encoder(folder)
        texts = [[q.example.question for q in rows], [str(q.gold[0]) for q in rows]]
        columns = [encoder.preprocess(t, task=task) for t, task in zip(texts, ("query", "document"), strict=True)]
        expected, searched = [], TokenEncoder(folder)
        passages, lengths = searched.encode_passages(texts[1])
        one, other = passages[: lengths[0]].astype("float32"), passages[lengths[0] :].astype("float32")
        for query in map(searched.encode_query, texts[0]):
            expected.append([float((query @ vectors.T).max(1).sum()) for vectors in (one, other)])
        right = torch.nn.functional.cross_entropy(torch.tensor(expected), torch.tensor([0, 1]))
        twice = [{name: part[[0, 0]] if torch.is_tensor(part) else part for name, part in c.items()} for c in columns]
        with torch.no_grad():
            assert float(loss(columns)) == pytest.approx(float(right), abs=0.02)
            assert float(loss(twice)) == 0.0  # nothing is left to choose from but the gold passage itself


def test_more_tokens_than_the_base_reads_are_refused(questions, base, tmp_path: Path):
    with pytest.raises(UsageError, match=r"max_length = 600: .*bert reads at most 512 tokens"):
        reranker_job(questions, tmp_path / "new", base=str(base), config=RerankerConfig(max_length=600))
    with pytest.raises(UsageError, match="max_length = 600: embedded reads at most 512 tokens"):
        colbert_job(questions, tmp_path / "new", base, name="embedded", config=ColBERTConfig(max_length=600))


def test_a_checkpoint_of_another_kind_is_refused(base):
    with pytest.raises(CheckpointError, match="not a ColBERT checkpoint with"), base_checkpoint(str(base), CORPUS):
        pass
