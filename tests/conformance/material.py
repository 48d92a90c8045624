"""What the suite asks about and compares: passages, a question, predictions and steps."""

import re

from knowgap.errors import KnowgapError
from knowgap.programs.hyperparameters import Choice, Integer, Real, Switch
from knowgap.programs.trace.steps import Queried, Retrieved
from knowgap.retrieval.passage import Passage

CORPUS = [
    Passage("moor", "Ada Moor", "Ada Moor painted ships in the harbour of Tarn. She was born in Wick in 1871."),
    Passage("ferry", "The Grey Ferry", "The Grey Ferry is a painting by Ada Moor. It hangs in the town hall of Tarn."),
    Passage("tarn", "Tarn", "Tarn is a town by the sea. Its harbour is older than its church."),
    Passage("wick", "Wick", "Wick is a village in the hills. It has a mill, and no harbour."),
    Passage("reed", "Bo Reed", "Bo Reed wrote plays about ships and mountains. He never painted."),
    Passage("mill", "The mill of Wick", "The mill of Wick was built by the painter's father."),
    Passage("hall", "Town hall of Tarn", "The town hall shows paintings of ships by Ada Moor and others."),
    Passage("ships", "Ships", "Ships are painted every year. Painters of ships are few."),
    Passage("hebrew", "עדה מור", "עדה מור ציירה אוניות בנמל."),
    Passage("empty", "", "…"),
]
QUESTION = "Where was the painter of The Grey Ferry born?"
RIGHT_TO_LEFT = "איפה נולדה הציירת של אוניות? 🦊 \u202e京都\u0301 and the [/bold] harbour"


def overlap(query, text):
    """A relevance score: shared words, minus one."""
    words = set(re.findall(r"\w+", query.lower()))
    return len(words & set(re.findall(r"\w+", text.lower()))) - 1.0


class OutOfOrder:
    """A retriever that fails."""

    def search(self, queries, k):
        raise KnowgapError("the index is out of order")


def ids_of(step):
    """The ids of all passages that a step names."""
    found = []
    for name, value in step:
        if name == "passage" and value:
            found.append(value)
        elif name in ("kept", "dropped", "passages"):
            found += list(value)
        elif name in ("hits", "sources"):
            found += [passage_id for ids in value for passage_id in ids]
    return found


def passages_shown(inputs):
    """Title and text of every passage in a prompt, each as often as it stands there; a text may be a part of it."""
    shown = []
    for value in inputs.values():
        if isinstance(value, str):
            shown += [(p.title, p.text) for p in CORPUS for _ in range(value.count(str(p)))]
        elif isinstance(value, list):
            shown += [(item["title"], item["text"]) for item in value if isinstance(item, dict) and "text" in item]
    return shown


def assert_same(one, other):
    """Two predictions have the same answer, passages and steps, and as many calls."""
    assert (one.answer, one.passages) == (other.answer, other.passages)
    assert one.trace.steps == other.trace.steps
    assert one.trace.cost.lm_calls == other.trace.cost.lm_calls


def other_value(declared):
    """A value within bounds that is not the default."""
    if isinstance(declared, Integer):
        return declared.low if declared.default != declared.low else declared.low + 1
    if isinstance(declared, Real):
        return (declared.low + declared.high) / 2 + 0.125 * (declared.high - declared.low)
    if isinstance(declared, Switch):
        return not declared.default
    assert isinstance(declared, Choice)
    return next(word for word in declared.choices if word != declared.default)


def assert_within_caps(program, prediction):
    """The declared limits hold."""
    values, cost = program.values(), prediction.trace.cost
    if "iterations" in values:
        assert cost.iterations <= max(values["iterations"], 1)
    if "max_passages" in values:
        assert cost.passages <= values["max_passages"]
    if "depth" in values:
        last = program.name == "ra_isf"  # a question past the depth is recorded as unknown
        deepest = max(len(list(filter(None, s.branch.split("/")))) for s in prediction.trace.steps)
        assert deepest <= values["depth"] + last
    if "max_collected" in values:
        assert len(prediction.passages) <= values["max_collected"]
    if "max_queries" in values:
        assert all(len(s.queries) <= values["max_queries"] for s in prediction.trace.of(Retrieved))
    if "max_questions" in values:
        assert all(len(s.queries) <= values["max_questions"] for s in prediction.trace.of(Queried))
    ks = {values[name] for name in ("top_k", "retrieve_k") if name in values}
    for step in prediction.trace.of(Retrieved):
        assert step.k in ks
        assert all(len(hits) <= step.k for hits in step.hits)
