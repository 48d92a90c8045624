"""How much of a passage an encoder reads."""

from knowgap.retrieval.window import embedded_window


def test_the_embedded_window_is_loaded_once_and_counts_marks():
    assert embedded_window() is embedded_window()
    assert embedded_window().count(["", "a town"]) == [2, 4]
