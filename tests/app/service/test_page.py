"""The page of the service: what it shows to visitors, what it hides, and what its scripts ask the service for."""

import re

import pytest
from support import scripted_lm

from tests.app.service.conftest import asking


def rule(outputs, inputs):
    if "complete_question" in outputs:
        return {"complete_question": f"Where does the {inputs['conversation'].splitlines()[-1]} begin?"}
    return {"answer": "the Isk"}


@pytest.fixture(scope="module")
def service():
    lm, engine = scripted_lm(rule)
    with asking(lm=lm) as client:
        yield client, engine


def test_the_page_needs_nothing_that_its_policy_forbids_and_names_nothing_of_the_operator(service):
    client, _ = service
    response = client.get("/")
    nonce = re.search(r"script-src 'nonce-([^']+)'", response.headers["content-security-policy"])[1]
    page = response.text
    assert not any(secret in page for secret in ("127.0.0.1", "test/scripted", "knowgap/rag"))
    assert "img-src data:;" in response.headers["content-security-policy"]  # the icon
    assert page.count(f'nonce="{nonce}"') == 2 == len(re.findall(r"<(?:style|script)\b", page))
    markup = re.sub(r"<(style|script)\b.*?</\1>", "", page, flags=re.DOTALL)
    assert not re.search(r"\s(?:style|on\w+|src)=", markup)
    assert not re.search(r"https?://(?!www\.w3\.org/)", page)
    assert all('tabindex="0"' in tag for tag in re.findall(r'<div class="scroll"[^>]*>', markup))  # for the keyboard
    used, made = set(re.findall(r'at\("([\w-]+)"\)', page)), set(re.findall(r'\bid="([\w-]+)"', markup))
    assert used - made == {"now"}  # made by the script, or on demand
    pattern = re.search(r'<input id="key"[^>]* pattern="([^"]+)"', markup)[1]
    assert [bool(re.fullmatch(pattern, key)) for key in ("open sesame!", "Schlüssel", "ключ")] == [True, False, False]


def test_a_follow_up_question_is_completed_with_one_call(service):
    client, engine = service
    before = len(engine.calls)
    said = [{"question": "Which river flows through Tarn?", "answer": "Isk"}]
    body = {"question": "Where does it begin?", "said": said}
    answer = client.post("/v1/ask", json=body).json()
    assert (answer["question"], answer["understood_as"]) == ("Where does it begin?", "Where does the Isk begin?")
    assert answer["cost"]["lm_calls"] == 2 == len(engine.calls) - before
    assert engine.calls[-1][1]["question"] == "Where does the Isk begin?"
    assert "understood_as" not in client.post("/v1/ask", json={"question": "Where?"}).json()


@pytest.mark.parametrize(("answers", "read"), [(["Isk"] * 30, 20), (["x" * 40_000, "Isk"], 1), (["x" * 40_000], 0)])
def test_of_a_long_conversation_the_last_turns_are_read(service, answers, read):
    client, engine = service
    said = [{"question": "Which river?", "answer": answer} for answer in answers]
    before = len(engine.calls)
    assert client.post("/v1/ask", json={"question": "Where does it begin?", "said": said}).status_code == 200
    lines = [line for _, inputs in engine.calls[before:] for line in inputs.get("conversation", "").splitlines()]
    assert lines == ["Which river?", "Isk"] * read


def test_openai_s_conversations_are_followed(service):
    client, engine = service
    said = [("system", "Be brief."), ("user", "Hello?"), ("user", "Which river?"), ("assistant", "Isk")]
    messages = [{"role": role, "content": text} for role, text in [*said, ("user", "Where does it begin?")]]
    body = {"model": "knowgap/rag", "messages": messages}
    beside = client.post("/v1/chat/completions", json=body).json()["knowgap"]
    assert beside["understood_as"] == "Where does the Isk begin?"
    assert engine.calls[-2][1]["conversation"] == "Which river?\nIsk"
