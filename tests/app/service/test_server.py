"""The service: its answers, its limits, what OpenAI's client makes of it, and that nobody's question costs a call."""

import itertools
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import dspy
import httpx
import openai
import pytest
from dspy.utils.exceptions import LMAuthError, LMTransportError
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from support import UNREADABLE, scripted_lm

from knowgap.errors import IndexFolderError, UsageError
from knowgap.lms import make_lm
from knowgap.programs.base import Program
from knowgap.programs.baselines.rag import RAG
from knowgap.service.requests import Guard
from knowgap.signatures import AnswerDirectly
from tests.app.service.conftest import ISK, SECONDS, OneRiver, answering, asking, serve, wait_until

QUESTION = "Which river flows through Tarn?"


class Waiting(Program):
    """Waits before each of three calls of the model; counts the calls."""

    name = "waiting"
    needs_retriever = False

    def __init__(self):
        super().__init__(None)
        self.go_on, self.begun, self.calls = threading.Semaphore(0), threading.Semaphore(0), 0
        self.reader = dspy.Predict(AnswerDirectly)

    def forward(self, question):
        for number in range(3):
            self.begun.release()
            self.go_on.acquire(timeout=SECONDS)
            self.ask(self.reader, question=f"{question} {number}", style="short")
            self.calls += 1
        return self.conclude("Isk", [])


@pytest.fixture(scope="module")
def server():
    with serve() as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with httpx.Client(base_url=server.url, timeout=SECONDS) as client:
        yield client


def read_events(text):
    events = [event.split("\n") for event in text.removesuffix("\n\n").split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in events]


def test_a_question_is_answered_with_passages_citations_and_cost(client, server):
    answer = client.post("/v1/ask", json={"question": QUESTION}).json()
    assert (answer["question"], answer["answer"]) == (QUESTION, "the Isk")
    assert answer["passages"] == [ISK.to_dict()]
    assert [citation["statement"] for citation in answer["citations"]] == ["the Isk"]
    assert answer["cited_answer"] == "the Isk [1]"
    assert answer["sources"] == [{"number": 1, "title": "Isk", "passage_id": "isk", "sentence": ISK.text}]
    assert (answer["cost"]["lm_calls"], answer["cost"]["retrievals"]) == (1, 1)
    found = client.get("/search", params={"query": QUESTION, "k": 1}).json()["topk"]
    assert [record["pid"] for record in found] == ["isk"]
    asked = {"model": server.name, "messages": [{"role": "user", "content": QUESTION}]}
    beside = client.post("/v1/chat/completions", json=asked).json()["knowgap"]
    assert beside.keys() == answer.keys() - {"question", "answer", "cited_answer"}


def test_steps_come_as_events_and_the_answer_last(client):
    response = client.post("/v1/ask", json={"question": QUESTION, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    *steps, (last, answer) = read_events(response.text)
    assert [(name, step["kind"]) for name, step in steps] == [
        ("step", "asked"), ("step", "retrieved"), ("step", "answered"),
    ]  # fmt: skip
    assert steps[1][1]["text"] == ["retrieved", f"{QUESTION} → Isk"]
    assert (last, answer["answer"], answer["answered"]) == ("answer", "the Isk", True)
    assert answer["story"] == [{"queries": [QUESTION], "found": ["Isk"], "missing": ""}]


def test_openai_s_client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        [model] = client.models.list().data
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
        settings = {"temperature": 0.2, "response_format": {"type": "text"}, "user": "me", "presence_penalty": 1}
        reply = client.chat.completions.create(model=model.id, messages=messages, **settings)
        assert reply.choices[0].message.content == "the Isk [1]"
        assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens

        options = {"stream": True, "stream_options": {"include_usage": True}}
        chunks = list(client.chat.completions.create(model=model.id, messages=messages, **options))
        deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
        assert "".join(delta.content or "" for delta in deltas) == "the Isk [1]"
        assert "retrieved" in "".join(delta.model_extra.get("reasoning_content") or "" for delta in deltas)
        assert chunks[-1].usage == reply.usage


def test_what_clients_send_besides_questions(server):
    """Tools that may not be called are ignored, and prompts for titles go to the language model as they are."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        assert client.models.retrieve(server.name).id == server.name
        tools = [{"type": "function", "function": {"name": "search", "parameters": {}}}]
        asked = {"model": server.name, "messages": [{"role": "user", "content": QUESTION}], "tools": tools}
        assert client.chat.completions.create(**asked, tool_choice="none").choices[0].message.content == "the Isk [1]"
        with pytest.raises(openai.BadRequestError, match="no tools are called"):
            client.chat.completions.create(**asked)
        task = {"model": server.name, "messages": [{"role": "user", "content": "### Task:\nWrite a title."}]}
        assert "Isk" in client.chat.completions.create(**task).choices[0].message.content
        chunks = list(client.chat.completions.create(**task, stream=True))
        assert "Isk" in "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    with serve(lm=make_lm("extractive")) as embedded:
        assert httpx.post(f"{embedded.url}/v1/chat/completions", json=task).status_code == 400


def test_prompts_that_are_passed_on_leave_room_for_questions():
    begun, go_on, task = threading.Semaphore(0), threading.Event(), chat(content="### Task:\nWrite a title.")

    def rule(*_):
        begun.release()
        go_on.wait(SECONDS)
        return {"answer": "The Isk"}

    with asking(lm=scripted_lm(rule)[0], max_questions=40) as client, ThreadPoolExecutor(33) as pool:
        titles = [pool.submit(client.post, "/v1/chat/completions", **task) for _ in range(33)]
        try:
            assert all(begun.acquire(timeout=10) for _ in titles)
            assert client.post("/v1/ask", json={"question": "Hello!"}).status_code == 200
        finally:
            go_on.set()
        assert {title.result(SECONDS).status_code for title in titles} == {200}


def chat(role="user", content=QUESTION, model="knowgap/rag", **more):
    return {"json": {"model": model, "messages": [{"role": role, "content": content}], **more}}


@pytest.mark.parametrize(("status", "path", "request_"), [
    (400, "/v1/ask", {"json": {"question": " ", "stream": True}}),
    (400, "/v1/ask", {"json": {"question": "x" * 40_000, "stream": True}}),
    (400, "/v1/ask", {"json": {"question": 5}}),
    (400, "/v1/ask", {"json": {"question": QUESTION, "program": "rag"}}),
    (400, "/v1/ask", {"content": "{", "headers": {"Content-Type": "application/json"}}),
    (413, "/v1/ask", {"json": {"question": "x" * 5_000_000}}),
    (415, "/v1/ask", {"data": {"question": QUESTION}}),
    (400, "/v1/chat/completions", {"json": {"model": "knowgap/rag", "messages": []}}),
    (400, "/v1/chat/completions", chat(content=[{"type": "image_url"}])),
    (400, "/v1/chat/completions", chat(content=[{"type": "text", "text": None}])),
    (400, "/v1/chat/completions", chat(role="system")),
    (400, "/v1/chat/completions", chat(response_format={"type": "json_object"})),
    (400, "/v1/chat/completions", chat(logprobs=True)),
    (400, "/v1/chat/completions", chat(tools=[{}], tool_choice="auto")),
    (404, "/v1/chat/completions", chat(model="gpt")),
    (405, "/v1/models", {"json": {}}),
    (404, "/v2/ask", {"json": {}}),
])  # fmt: skip
def test_what_cannot_be_answered_says_why(client, status, path, request_):
    response = client.post(path, **request_)
    assert (response.status_code, response.json()["error"]["code"]) == (status, status)
    assert response.json()["error"]["message"]
    assert (response.headers.get("allow") is not None) == (status == 405)


OWN, OTHERS = ("[::1]", "[::1]:80", "LocalHost:80", "127.0.0.1:80"), ("evil.example:localhost", "localhost.evil", "")
RIGHT, WRONG = ("Bearer sesame", "bearer sesame"), ("Bearer sesam", "sesame", "Basic sesame", "Bearer", "")


@pytest.mark.parametrize(("key", "headers", "status"), [
    *((None, {"Host": host}, 200) for host in OWN),
    *((None, {"Host": host}, 403) for host in OTHERS),
    *(("sesame", {"Authorization": sent, "Host": "rivers.example"}, 200) for sent in RIGHT),
    *(("sesame", {"Authorization": sent}, 401) for sent in WRONG),
])  # fmt: skip
def test_who_is_let_in(key, headers, status):
    """Without a key, all who call this machine by its own names; with one, all who send it."""
    client = TestClient(Guard(PlainTextResponse("in"), key))
    assert client.get("/documents", headers=headers).status_code == status
    if key is not None:
        assert [client.get(path).status_code for path in ("/healthz", "/")] == [200, 200]


def test_replies_that_cannot_be_read_or_say_that_it_is_unknown_are_no_answer():
    with asking(lm=scripted_lm(lambda *_: UNREADABLE)[0]) as client:
        assert client.post("/v1/ask", json={"question": QUESTION}).status_code == 500
    with asking(lm=answering("unknown")) as client:
        *_, (_, answer) = read_events(client.post("/v1/ask", json={"question": QUESTION, "stream": True}).text)
        assert answer["answered"] is False


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_costs_no_further_call(stream):
    program = Waiting()
    with serve(program) as server:
        with ThreadPoolExecutor(1) as pool:
            body = {"question": QUESTION, "stream": stream}
            asked = pool.submit(httpx.post, f"{server.url}/v1/ask", json=body, timeout=0.5)
            assert program.begun.acquire(timeout=SECONDS)
            assert isinstance(asked.exception(SECONDS), httpx.ReadTimeout)
        wait_until(lambda: server._answering._free == 32)
        program.go_on.release(3)
        wait_until(lambda: not [each for each in threading.enumerate() if each.name == "knowgap-stream"])
        assert program.calls == 0


def test_one_question_too_many_is_refused_and_the_next_is_answered():
    program = Waiting()
    with asking(program, max_questions=1) as client, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.post, "/v1/ask", json={"question": QUESTION})
        assert program.begun.acquire(timeout=SECONDS)
        for stream in (False, True):
            refused = client.post("/v1/ask", json={"question": QUESTION, "stream": stream})
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        program.go_on.release(6)
        assert asked.result(SECONDS).json()["answer"] == "Isk"
        assert client.post("/v1/ask", json={"question": QUESTION}).json()["answer"] == "Isk"


def test_an_answer_that_takes_too_long_is_given_up():
    program = Waiting()
    with asking(program, deadline=0.2) as client:
        assert client.post("/v1/ask", json={"question": QUESTION}).status_code == 504
        *_, (name, error) = read_events(client.post("/v1/ask", json={"question": QUESTION, "stream": True}).text)
        assert (name, error["error"]["code"]) == ("error", 504)
        streamed = client.post("/v1/chat/completions", **chat(model="knowgap/waiting", stream=True))
        assert (streamed.status_code, '"code":504' in streamed.text) == (200, True)
        program.go_on.release(6)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RuntimeError("hidden"), 500),
        (LMAuthError("Incorrect API key provided: sk-hidden", model="m"), 500),
        (LMTransportError("no route to http://10.0.0.7/hidden", model="m"), 502),
        (IndexFolderError("the index /home/hidden is damaged"), 500),
    ],
)
def test_the_cause_of_a_failure_is_for_the_log_alone_and_the_server_lives(caplog, error, status):
    class Broken(RAG):
        def forward(self, question):
            if question != QUESTION:
                raise error
            return super().forward(question)

    with asking(Broken(OneRiver())) as client:
        for stream in (False, True):
            told = client.post("/v1/ask", json={"question": "Why?", "stream": stream}).text
            assert f'"code":{status}' in told
            assert "hidden" not in told
            [name] = re.findall(r'"id":"(\w{8})"', told)
            assert f"request {name} failed" in caplog.text
        assert client.post("/v1/ask", json={"question": QUESTION}).status_code == 200
    assert caplog.text.count("hidden") >= 2


def test_a_port_in_use_and_a_key_that_no_client_can_send_are_refused(server):
    with pytest.raises(UsageError, match=r"cannot listen on 127\.0\.0\.1"):
        serve(port=int(server.url.rsplit(":", 1)[1]))
    for key in ("", " sesame", "sesame\n", "Schlüssel"):
        with pytest.raises(UsageError, match="key"):
            serve(key=key)
    with asking(key="open sesame!") as client:
        assert client.get("/healthz").status_code == 200


def test_a_stream_shows_that_it_is_alive(monkeypatch):
    monkeypatch.setattr("knowgap.service.requests._FIRST", 0.05)
    monkeypatch.setattr("knowgap.service.requests._SILENCE", 0.05)
    program = Waiting()
    asked = {"question": QUESTION, "stream": True}
    with asking(program) as client, client.stream("POST", "/v1/ask", json=asked) as response:
        lines = response.iter_lines()
        comments = [line for line in itertools.islice(lines, 12) if line.startswith(":")]
        assert len(comments) > 1
        program.go_on.release(3)
        assert "event: answer" in list(lines)


def test_stopping_waits_for_what_is_under_way():
    program = Waiting()
    server = serve(program).__enter__()
    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(httpx.post, f"{server.url}/v1/ask", json={"question": QUESTION}, timeout=SECONDS)
        assert program.begun.acquire(timeout=SECONDS)
        stopped = pool.submit(server.stop)
        program.go_on.release(3)
        assert asked.result(SECONDS).json()["answer"] == "Isk"
        stopped.result(SECONDS)
