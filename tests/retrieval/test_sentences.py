import random

import pytest

from knowgap.retrieval import split_sentences

CASES = {
    "Dr. Reed met J. F. Olsen in the U.S. on Jan. 5. They talked!": [
        "Dr. Reed met J. F. Olsen in the U.S. on Jan. 5.",
        "They talked!",
    ],
    "It costs 3.5 million. Really? Yes.": ["It costs 3.5 million.", "Really?", "Yes."],
    "First paragraph\n\nSecond one.": ["First paragraph", "Second one."],
    "北京是首都。上海在海边！“好吗？”她问。": ["北京是首都。", "上海在海边！", "“好吗？”她问。"],
    "": [],
    " \n\t ": [],
    "no stop": ["no stop"],
}


@pytest.mark.parametrize("text", CASES)
def test_split(text):
    assert split_sentences(text) == CASES[text]


def test_nothing_is_lost():
    rng = random.Random(7)
    alphabet = [*list("ab AB.,!?\n\t()\"'–…。！」 é🦊\u200b\u202e\x00"), ". ", "\n\n", "Mr. ", "e.g. ", chr(0xD800)]
    for _ in range(2000):
        text = "".join(rng.choices(alphabet, k=rng.randint(0, 60)))
        sentences = split_sentences(text)
        assert "".join("".join(sentences).split()) == "".join(text.split())
        assert all(sentence.strip() == sentence != "" for sentence in sentences)


def test_result_can_be_changed_without_harm():
    split_sentences("One. Two.").clear()
    assert split_sentences("One. Two.") == ["One.", "Two."]


def test_long_text():
    assert len(split_sentences("A sentence of Mr. Long follows. " * 5000)) == 5000
