"""Self-Refine: a note from the passages, an answer from the note."""

from support import OverlapRetriever, TableRetriever

from knowgap.programs.baselines.self_refine import SelfRefine
from knowgap.programs.trace.steps import Malformed, Noted
from knowgap.signatures import STYLES

NOTE = "Mira Osk directed Lanternfish and was born in Tarn."


def test_answers_from_the_refined_note(corpus, ask, kinds):
    script = {"note": [{"note": NOTE}], "answer": [{"answer": "Tarn"}]}
    prediction, engine = ask(SelfRefine(OverlapRetriever(corpus), style="long", top_k=2), script)
    assert (prediction.answer, prediction.note) == ("Tarn", NOTE)
    assert kinds(prediction) == ["asked", "retrieved", "noted", "answered"]
    assert [len(inputs.get("passages", [])) for _, inputs in engine.calls] == [2, 0]
    assert engine.calls[1][1]["note"] == NOTE
    assert engine.calls[1][1]["style"] == STYLES["long"]
    assert prediction.trace.of(Noted)[0].passages == [passage.id for passage in prediction.passages]
    cost = prediction.trace.cost
    assert (cost.lm_calls, cost.critical_calls, cost.retrievals, cost.passages) == (2, 2, 1, 2)


def test_where_nothing_was_refined_the_passages_are_the_note(corpus, ask):
    for reply in ("mumble", {"note": " "}):
        script = {"note": lambda *_, reply=reply: reply, "answer": [{"answer": "Tarn"}]}
        prediction, engine = ask(
            SelfRefine(TableRetriever({"Where was Osk born?": corpus[:2]})), script, "Where was Osk born?"
        )
        assert prediction.answer == "Tarn"
        assert prediction.note == ""
        assert engine.calls[-1][1]["note"] == "\n".join(str(passage) for passage in corpus[:2])
        assert bool(prediction.trace.of(Malformed)) == (reply == "mumble")


def test_nothing_found_and_nothing_readable(ask):
    prediction, _ = ask(SelfRefine(TableRetriever({})), lambda *_: "mumble")
    assert (prediction.answer, prediction.passages) == ("", [])
