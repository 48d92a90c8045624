"""Pages: each needs nothing from outside, says which split a figure is from, and takes data as text."""

import base64
import hashlib
import json
import re

import dspy
import pytest
from compile_helpers import Tunable, make_examples, make_retriever, quality_lm, reading_lm
from page_reader import read_page, read_text

from knowgap import Run
from knowgap.compiling import Evaluation, Evaluations, evaluate
from knowgap.compiling.data import Dataset
from knowgap.compiling.questions.writing import Draft
from knowgap.reports.pages import render_report, write_questions_page

HOSTILE = '<script>alert("x")</script><img src=http://evil.example/x.png onerror=alert(1)> & \u202e\x1b[31m'


def scored_on_test(program, examples) -> Evaluation:
    data = Dataset(name="houses", splits={"test": examples}, corpus=[], fingerprint="f")
    return evaluate(
        program, data, ("exact_match", "f1"), split="test", run=Run(lm=quality_lm(examples)[0]), traces=True
    )


@pytest.fixture(scope="module")
def tests_before_and_after():
    examples = make_examples(12, "x")
    retriever = make_retriever(examples)
    after = Tunable(retriever, top_k=4, careful=True)
    return {"test before": scored_on_test(Tunable(retriever), examples), "test after": scored_on_test(after, examples)}


def test_evaluations_show_scores_types_and_every_question(tests_before_and_after, tmp_path):
    before, after = tests_before_and_after.values()
    Evaluations(tests_before_and_after).save(tmp_path)
    page = read_page(render_report(Evaluations.load(tmp_path)))
    [*_, scores] = page.table("LM calls")
    assert scores[:3] == ["test after", str(after.interval()), str(after.interval("f1"))]
    wins = [r.id for r in after.records if r.scores["f1"] > before.scores("f1")[r.id]]
    assert [len(page.having("details", kind)) for kind in ("win", "q")] == [len(wins), 12]
    assert wins
    assert {row[0] for row in page.table("type")[1:]} == {"even", "odd"}
    assert all(record.question in page.text for record in after.records)
    assert len(page.having("ol", "trace")) == 2 * 12
    assert "Who lives in house x3? → house x3" in page.text


def test_everything_from_the_data_is_text_failures_included():
    examples = [
        dspy.Example(id=HOSTILE, question=HOSTILE, answer=HOSTILE, gold_ids=["g"], type=HOSTILE),
        dspy.Example(id="b", question="Who?", answer="Ada", type="plain"),
    ]
    lm, engine = reading_lm()

    def rule(outputs, inputs):
        if inputs["question"] == "Who?":
            raise RuntimeError(HOSTILE)
        return {"answer": f"Ada, {HOSTILE}"}  # the question by itself is no answer

    engine.rule = rule
    evaluation = evaluate(
        Tunable(make_retriever(make_examples(2))), examples, "exact_match", run=Run(lm=lm), traces=True
    )
    evaluation.provenance.program = HOSTILE
    html = render_report(Evaluations({HOSTILE: evaluation, "</style>": evaluation}))
    page = read_page(html)
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert html.count("<script") == html.count("<img") == 0
    assert page.text.count(HOSTILE.replace("\u202e", "\ufffd").replace("\x1b", "\ufffd")) > 8
    failed = page.table("LM calls")
    assert failed[1][failed[0].index("failed")] == "1"
    assert "onerror=alert(1)>" in page.table("why")[1][1]
    assert len(page.having("details", "failed")) == 1
    assert "split not said" in page.text


def test_long_lists_keep_what_differs():
    example = make_examples(1)[0]
    evaluation = evaluate(Tunable(make_retriever([example])), [example], "exact_match", run=Run(lm=reading_lm()[0]))

    def copy(correct: int) -> Evaluation:
        scores = [{"exact_match": float(n < correct)} for n in range(600)]
        records = [evaluation.records[0].model_copy(update={"id": f"n{n}", "scores": s}) for n, s in enumerate(scores)]
        return evaluation.model_copy(update={"records": records})

    page = read_page(render_report(Evaluations(before=copy(590), after=copy(600))))
    assert len(page.having("details", "q")) == 500
    assert len(page.having("details", "win")) == 10


DRAFTS = [
    Draft(
        id="two_hop-1",
        kind="two_hop",
        passages=[
            {"id": "orle", "title": "Orle Bridge", "text": "It was designed by <Ada> & built.</script><b>"},
            {"id": "venn", "title": "", "text": "Ada Venn was born in Tarn."},
        ],
        question='Where was the designer of the "Orle Bridge" born?</script>',
        answer="Tarn",
        aliases=["in Tarn"],
        from_memory=True,
    ),
    Draft(id="one_hop-1", kind="one_hop", passages=[{"id": "t", "title": "Tarn", "text": "A town."}], question="Is it?",
          answer="1200"),
]  # fmt: skip


def test_every_question_is_looked_through_and_saved_as_it_stands_in_the_file_by_the_page_s_own_script(tmp_path):
    html = write_questions_page(DRAFTS, tmp_path / "mine.html").read_text(encoding="utf-8")
    page = read_page(html, script=True)
    [second, first] = page.having("article", "asked")
    for shown in ('"Orle Bridge" born?</script>', "Tarn", "or in Tarn", "<Ada> & built.",
                  "Ada Venn was born in Tarn.", "known without the passages"):  # fmt: skip
        assert shown in read_text(first)
    assert "known without" not in read_text(second)
    assert [box.get("value") for box in page.body.iter("input")] == ["one_hop-1", "two_hop-1"]
    lines = json.loads(re.search(r'<script type="application/json" id="lines">(.*?)</script>', html)[1])
    assert lines == [[draft.id, draft.to_line()] for draft in DRAFTS]
    assert 'data-name="mine-kept.jsonl"' in html
    script = re.search(r"<script>(.*?)</script>", html, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', html)[1]
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
