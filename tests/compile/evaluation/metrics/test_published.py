"""PopQA match, str-em, S-Precision, citations, RAGQuestEval, the judge and the costs, worked out by hand."""

import itertools
import random
from types import SimpleNamespace

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError
from support import by_output, scripted_lm

from knowgap.compile.evaluation.metrics import (
    METRICS,
    CitationPrecision,
    CitationRecall,
    JudgedAccuracy,
    RAGQuestEval,
    UpperBound,
    get_metric,
    popqa_match,
    s_precision,
    str_em,
    str_hit,
)
from knowgap.compile.evaluation.metrics.citation import score_citations, strip_citations
from knowgap.compile.evaluation.metrics.rag_quest_eval import QuestScores, compare_answers, split_tokens
from knowgap.errors import DataError, UnknownName
from knowgap.retrieval.passage import Passage


def said(answer, **more):
    return dspy.Prediction(answer=answer, **more)


class TestPopQA:
    @pytest.mark.parametrize(
        ("aliases", "answer", "score"),
        [
            (["politician"], "She was a politician.", 1.0),
            (["Politician"], "a politician", 1.0),
            (["politician"], "Politician", 1.0),
            (["politician"], "POLITICIAN", 0.0),
            (["film director", "director"], "a theatre director", 1.0),
            (["U.S."], "in the US", 0.0),
        ],
    )
    def test_by_hand(self, aliases, answer, score):
        example = dspy.Example(question="?", answer=aliases[0], aliases=aliases)
        assert popqa_match(example, said(answer)) == score


class TestASQA:
    EXAMPLE = dspy.Example(question="When?", answer="long", short_answers=[["1900", "the year 1900"], ["1950"]])

    @pytest.mark.parametrize(
        ("answer", "em"),
        [
            ("Built in 1900, rebuilt in 1950.", 1.0),
            ("Built in 1900 [1][2].", 0.5),
            ("Built in 1900.\nRebuilt in 1950.", 0.5),  # only the first paragraph counts
            ("Nobody knows [1950].", 0.0),  # a citation is no answer
            ("", 0.0),
        ],
    )
    def test_by_hand(self, answer, em):
        assert str_em(self.EXAMPLE, said(answer)) == em
        assert str_hit(self.EXAMPLE, said(answer)) == float(em == 1)

    def test_equal_to_a_direct_count_on_random_answers(self):
        dice = random.Random(8)
        words = ["ada", "orle", "venn", "bridge", "river"]
        for _ in range(2000):
            readings = [[dice.choice(words) for _ in range(dice.randint(1, 2))] for _ in range(dice.randint(1, 4))]
            text = " ".join(dice.choice(words) for _ in range(dice.randint(1, 5)))
            hits = [bool(set(shorts) & set(text.split())) for shorts in readings]
            example = dspy.Example(question="?", answer="", short_answers=readings)
            assert str_em(example, said(text)) == sum(hits) / len(hits)
            assert str_hit(example, said(text)) == float(all(hits))

    def test_undefined_without_short_answers(self):
        with pytest.raises(DataError, match="no short answers"):
            str_em(dspy.Example(question="?", answer="a"), said("a"))


def test_s_precision_wants_the_gold_passages_and_no_other():
    example = dspy.Example(question="?", answer="a", gold_ids=["g1", "g2"])
    for ids, score in ((["g2", "g1"], 1.0), (["g1"], 0.0), (["g1", "g2", "x"], 0.0), ([], 0.0)):
        assert s_precision(example, said("a", passages=ids)) == score
    with pytest.raises(DataError):
        s_precision(dspy.Example(question="?", answer="a", gold_ids=[]), said("a", passages=["g1"]))


class Words:
    """Entails what consists of the premise's words alone."""

    def entails(self, pairs):
        def bare(text):
            return {word.strip(".,").lower() for word in text.split()}

        return [float(bare(claim) <= bare(premise)) for premise, claim in pairs]


class TestCitations:
    PASSAGES = (Passage("a", "A", "Ada built bridges"), Passage("b", "B", "in Orle"), Passage("c", "C", "Ada swam"))

    @pytest.mark.parametrize(
        ("answer", "recall", "precision"),
        [
            ("Ada built bridges [1].", 1.0, 1.0),
            ("Ada built bridges [2].", 0.0, 0.0),
            ("Ada built bridges.", 0.0, 0.0),
            ("Ada built bridges in Orle [1][2].", 1.0, 1.0),  # needs both
            ("Ada built bridges [1][3].", 1.0, 0.5),  # the second is superfluous
            ("Ada built bridges [1]. Ada sang [3].", 0.5, 0.5),
            ("Ada built bridges [7].", 0.0, 0.0),  # there is no such passage
            ("Ada built bridges [0].", 0.0, 0.0),
            ("Ada swam [3][1][1][2].", 1.0, 1 / 3),  # of the first three, which count, [1] adds nothing, twice
            ("Ada built bridges [1].\nAda sang.", 1.0, 1.0),
        ],
    )
    def test_by_hand(self, answer, recall, precision):
        assert score_citations(answer, self.PASSAGES, Words()) == pytest.approx((recall, precision))

    def test_as_metrics(self):
        prediction = said("Ada built bridges [1][3].", passages=list(self.PASSAGES))
        assert CitationRecall(Words())(None, prediction) == 1.0
        assert CitationPrecision(Words())(None, prediction) == 0.5
        assert CitationPrecision(Words())(None, dspy.Prediction()) == 0.0
        assert CitationRecall(Words(), threshold=1.1)(None, prediction) == 0.0

    def test_stripping(self):
        assert strip_citations("Ada built bridges [1][2], twice [13].") == "Ada built bridges, twice."


class TestRAGQuestEval:
    def test_by_hand(self):
        references = ["Ada Venn", "1900", "unanswerable", "the Orle bridge"]
        answers = ["Ada", "unanswerable", "blue", "the bridge at Orle"]
        # The third question is set aside. Of three, two are answered: precisions 1 and 3/4, recalls 1/2 and 1.
        scores = compare_answers(references, answers)
        assert scores.question_recall == pytest.approx(2 / 3)
        assert scores.token_precision == pytest.approx((1 + 3 / 4) / 2)
        assert scores.token_recall == pytest.approx((1 / 2 + 1) / 2)
        assert scores.token_f1 == pytest.approx((2 / 3 + 6 / 7) / 2)

    def test_nothing_to_compare_scores_0(self):
        nothing = QuestScores(0.0, 0.0, 0.0, 0.0)
        assert compare_answers(["无法推断"], ["x"]) == nothing
        assert compare_answers(["x"], ["无法推断"]) == nothing
        assert compare_answers(["x", "y"], []) == nothing

    def test_missing_answers_count_as_unanswered(self):
        assert compare_answers(["x", "y"], ["x"]).question_recall == 0.5

    def test_chinese_is_compared_by_ideograph(self):
        assert split_tokens("在2023年，Orle 建桥。") == ["在", "2023", "年", "orle", "建", "桥"]
        assert compare_answers(["石家庄市"], ["石家庄"]).token_f1 == pytest.approx(2 * 3 / (3 + 4))
        assert compare_answers(["石家庄市"], ["石家庄"], tokenize=lambda text: [text]).token_f1 == 0.0

    def test_saved_questions_are_used(self):
        asked = []

        def answer(text, questions):
            asked.append((text, questions))
            return SimpleNamespace(answers=["Ada"])

        example = dspy.Example(question="?", answer="gold", quest_questions=["Who?"], quest_answers=["Ada Venn"])
        for field, score in zip(QuestScores._fields, (1.0, 1.0, 0.5, 2 / 3), strict=True):
            metric = RAGQuestEval(field, ask=None, answer=answer)
            assert metric(example, said("Ada did it.")) == pytest.approx(score)
        assert set(map(str, asked)) == {str(("Ada did it.", ["Who?"]))}

    def test_otherwise_questions_are_drawn_from_the_reference(self):
        def answer(text, questions):
            return SimpleNamespace(answers=[text.split()[n] for n in range(len(questions))])

        metric = RAGQuestEval("token_f1", ask=lambda text: SimpleNamespace(questions=["1?", "2?"]), answer=answer)
        assert metric(dspy.Example(question="?", answer="Ada built"), said("Ada swam")) == 0.5
        assert metric(dspy.Example(question="?", answer="Ada built"), dspy.Prediction()) == 0.0
        mute = RAGQuestEval("token_f1", ask=lambda text: SimpleNamespace(questions=[]), answer=answer)
        with pytest.raises(DataError, match="no question could be drawn"):
            mute(dspy.Example(question="?", answer="Ada"), said("Ada"))

    def test_by_a_language_model(self):
        script = {"questions": [{"questions": ["Who?", "Where?"]}],
                  "answers": [{"answers": ["Ada Venn", "Orle"]}, {"answers": ["Ada", "unanswerable"]}]}  # fmt: skip
        lm, engine = scripted_lm(by_output(script))
        scores = RAGQuestEval(lm=lm).scores(dspy.Example(question="?", answer="Ada Venn of Orle"), said("Ada"))
        assert scores == pytest.approx((1 / 2, 1.0, 1 / 2, 2 / 3))
        assert [inputs.get("text") for _, inputs in engine.calls] == ["Ada Venn of Orle", "Ada Venn of Orle", "Ada"]

    def test_unknown_score(self):
        with pytest.raises(UnknownName, match="did you mean 'token_f1'"):
            RAGQuestEval("token_f")


class TestJudge:
    EXAMPLE = dspy.Example(question="Who?", answer="Ada Venn", aliases=["Ada Venn", "Venn"])

    def test_the_judge_sees_question_prediction_and_references(self):
        seen = []

        def judge(**fields):
            seen.append(fields)
            return SimpleNamespace(correct="Ada" in fields["prediction"])

        metric = JudgedAccuracy(judge)
        assert metric(self.EXAMPLE, said("Ada")) == 1.0
        assert metric(self.EXAMPLE, said("Bo")) == 0.0
        assert seen[0] == {"question": "Who?", "prediction": "Ada", "reference": "Ada Venn or Venn"}

    def test_by_a_language_model(self):
        lm, engine = scripted_lm(by_output({"correct": [{"correct": True}, {"correct": False}, "mumble", "mumble"]}))
        with dspy.context(trace=[]):
            scores = [JudgedAccuracy(lm=lm)(self.EXAMPLE, said("A. Venn")) for _ in range(3)]
            assert dspy.settings.trace == []
        assert scores == [1.0, 0.0, 0.0]
        assert engine.calls[0][1] == {"question": "Who?", "prediction": "A. Venn", "reference": "Ada Venn or Venn"}

    def test_no_answer_is_not_shown(self):
        def judge(**fields):
            raise AssertionError

        assert JudgedAccuracy(judge)(self.EXAMPLE, dspy.Prediction()) == 0.0

    def test_an_unreadable_verdict_scores_0(self):
        def judge(**fields):
            raise AdapterParseError("ChatAdapter", dspy.Signature("a -> b"), "mumble")

        assert JudgedAccuracy(judge)(self.EXAMPLE, said("Ada")) == 0.0


class TestUpperBound:
    EXAMPLE = dspy.Example(question="Who?", answer="Ada Venn", aliases=["Ada Venn", "Venn"])

    @pytest.mark.parametrize(
        ("answer", "answers", "matched", "overlap"),
        [
            ("Bo", ["Bo", "Bo Reed"], 0.0, 0.0),
            ("Bo", ["Bo", "Ada Venn"], 1.0, 1.0),
            ("Bo", ["Bo", "the Venn!"], 1.0, 1.0),  # an alias, after normalisation
            ("Bo", ["Bo", "Ada"], 0.0, 2 / 3),  # P 1, R 1/2
            ("Bo", ["Ada of the house of Venn", "Ada"], 0.0, 2 / 3),  # 2 of 5 words and all of 2: 4/7
            ("Ada Venn", ["Bo"], 0.0, 0.0),  # what was chosen is none of those that were weighed
            ("Venn", [], 1.0, 1.0),
            ("", ["", "  "], 0.0, 0.0),
        ],
    )
    def test_is_the_best_of_all_answers(self, answer, answers, matched, overlap):
        prediction = dspy.Prediction(answer=answer, answers=answers)
        assert get_metric("upper_bound")(self.EXAMPLE, prediction) == matched
        assert get_metric("upper_bound_f1")(self.EXAMPLE, prediction) == pytest.approx(overlap)
        assert prediction.answer == answer

    def test_without_answers_the_answer_counts(self):
        assert [METRICS["upper_bound"](self.EXAMPLE, said(text)) for text in ("Venn", "Reed")] == [1.0, 0.0]

    def test_of_another_metric_that_looks_at_more_than_the_answer(self):
        def cites(example, prediction, trace=None):
            return float(prediction.answer == "Bo" and prediction.passages == ["p"])

        prediction = dspy.Prediction(answer="Ada", answers=["Ada", "Bo"], passages=["p"])
        assert UpperBound(cites)(self.EXAMPLE, prediction) == 1.0


def test_every_metric_is_documented_and_named_once():
    docs = [metric.__doc__ for metric in METRICS.values()]
    assert all(docs)
    assert all(left != right for left, right in itertools.combinations(docs, 2))
