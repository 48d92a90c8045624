"""Tokens of external knowledge. The conformance suite counts them for every program: retrieved text, never its own."""

from knowgap.programs.passages import knowledge_tokens
from knowgap.retrieval.passage import Passage

FERRY = Passage("ferry", "The Grey Ferry", "Ada Moor painted it in 1911; it hangs in Tarn.")  # 3 and 10 words
MOOR = Passage("moor", "", "Moor was born in Wick, in the north.")  # 8 words


def test_titles_and_texts_count_but_not_the_models_own():
    assert knowledge_tokens([FERRY, MOOR]) == 13 + 8
    assert knowledge_tokens([FERRY, MOOR], model_texts=[MOOR.text]) == 13
