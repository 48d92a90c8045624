"""Questions that ask the same."""

import pytest

from knowgap.compiling.questions.repetition import RepetitionFilter


@pytest.mark.parametrize(
    ("question", "answer", "repeats"),
    [
        ("What is the birthplace of Ada Venn?", "Tarn", True),
        ("What is the birthplace of Ada Venn?", "the  Tarn.", True),
        ("where was Ada  Venn born?", "Wick", True),  # the same words: one of the answers is wrong
        ("When was Ada Venn born?", "1890", False),
        ("Where was the designer of the Orle Bridge born?", "Tarn", False),
        ("Where was Jon Reth born?", "Tarn", False),
    ],
)
def test_similar_words_with_the_same_answer_repeat(question, answer, repeats):
    earlier = RepetitionFilter()
    assert not earlier.repeats("Where was Ada Venn born?", "Tarn")
    assert earlier.repeats(question, answer) is repeats
    assert earlier.repeats(question, answer)
