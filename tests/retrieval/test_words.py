"""The sentences, words and names of a text."""

import pytest

from knowgap.retrieval.words import content_words, english_stem, names, split_sentences


def test_words():
    assert content_words("Who was the director of the Film, the FILM noir?") == ["director", "film", "noir"]
    assert [english_stem(word) for word in ("rivers", "flowing")] == ["river", "flow"]


def test_names_of_a_long_text():
    found = names("Ann Lee met Bo.\nHe sang; 3Com and “Tom” heard it. " * 5000)
    assert [" ".join(name.words) for name in found[:4]] == ["Ann Lee", "Bo", "Com", "Tom"]
    assert len(found) == 20_000


@pytest.mark.parametrize(
    "text",
    [
        "Dr. Reed met J. F. Olsen in the U.S. on Jan. 5.| They talked!",
        "It costs 3.5 million.| Really?| Yes.",
        "First paragraph|\n\nSecond one.",
        "北京是首都。|上海在海边！|“好吗？”她问。",
        "no stop",
        "Two things:|\n• one of them|\n• the other",
        "version: 1.1; name: Buzz|\nversion: 1.2; name: Rex",
        "A sentence of Mr. Long follows.| " * 4999 + "The end.",
    ],
)
def test_split(text):
    sentences = tuple(sentence.strip() for sentence in text.split("|"))
    assert split_sentences(text.replace("|", "")) == sentences
    assert split_sentences("") == split_sentences(" \n\t ") == ()
