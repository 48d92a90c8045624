"""The page on which written questions are looked through."""

import base64
import hashlib
import json
import re

from page_reader import read_page, read_text

from knowgap.compiling.questions.records import Draft
from knowgap.reports.questions import render_questions, write_questions_page

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
        steps=[{"question": "Who designed it?", "answer": "Ada Venn"}],
        from_memory=True,
    ),
    Draft(id="one_hop-1", kind="one_hop", passages=[{"id": "t", "title": "Tarn", "text": "A town."}], question="Is it?",
          answer="1200"),
]  # fmt: skip


def script_of(html):
    return re.search(r"<script>(.*?)</script>", html, re.DOTALL)[1]


def test_every_question_stands_there_with_its_answer_and_passages():
    page = read_page(render_questions(DRAFTS), script=True)
    [second, first] = page.having("article", "asked")
    for shown in ('"Orle Bridge" born?</script>', "Tarn", "or in Tarn", "Who designed it? Ada Venn", "<Ada> & built.",
                  "Ada Venn was born in Tarn.", "known without the passages"):  # fmt: skip
        assert shown in read_text(first)
    assert "known without" not in read_text(second)
    assert [box.get("value") for box in page.body.iter("input")] == ["one_hop-1", "two_hop-1"]
    assert [read_text(each) for each in page.body.iter("h2")] == ["one hop: 1", "two hop: 1"]


def test_the_lines_that_the_page_saves_are_those_of_the_file():
    html = render_questions(DRAFTS)
    lines = json.loads(re.search(r'<script type="application/json" id="lines">(.*?)</script>', html)[1])
    assert lines == [[draft.id, draft.to_line()] for draft in DRAFTS]


def test_only_its_own_script_may_run(tmp_path):
    html = write_questions_page(DRAFTS, tmp_path / "mine.html").read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', html)[1]
    digest = base64.b64encode(hashlib.sha256(script_of(html).encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert 'data-name="mine-kept.jsonl"' in html
