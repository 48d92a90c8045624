"""Temperature 0, the end of a reply and its length where nobody says otherwise; prompts that are too long."""

import json

import dspy
import pytest
from dspy.lm15 import ContextLengthError
from support import UNREADABLE, ProgramEngine, ScriptedEngine, TableRetriever, lm_of

from knowgap.compiling.evaluation.provenance import lm_settings
from knowgap.programs.baselines.rag import RAG, Direct
from knowgap.programs.replies.asking import default_limits, default_sampling
from knowgap.programs.rq_rag import RQRAG
from knowgap.programs.trace.steps import Shortened
from knowgap.retrieval.passage import Passage


@pytest.mark.parametrize(
    ("name", "options", "sampling"),
    [
        ("openai/gpt-4o-mini", {}, {"temperature": 0.0}),
        ("openai/gpt-4o-mini", {"temperature": 0.7}, {}),
        ("openai/gpt-4o-mini", {"top_p": 0.9}, {}),
        ("openai/o3", {}, {}),  # a reasoning model
        ("test/scripted", {"api_key": None, "engine": ScriptedEngine(lambda *_: {})}, {}),  # a model in this process
    ],
)
def test_temperature_0_is_sent_where_nothing_is_set(name, options, sampling):
    lm = dspy.LM(name, **{"api_key": "none", **options})
    assert default_sampling(lm) == sampling
    assert lm_settings(lm) == sampling | {n: v for n, v in options.items() if n in ("temperature", "top_p")}
    assert name != "openai/o3" or default_limits(lm, Direct().answer) == {}


ANSWER = "[[ ## answer ## ]]\nTarn"
STOP = ["[[ ## completed"]


@pytest.fixture(autouse=True)
def answering(server):
    server.reply_of = lambda _: ANSWER


def asked(server, *questions, program=None, adapter=None, **options):
    """What a program predicts with the model of a server."""
    with dspy.context(lm=server.lm(**options), adapter=adapter):
        return [(program or Direct())(question=question) for question in questions or ("Where?",)]


def limits(server):
    """The limits of each request that a server got."""
    names = {"stop": "stop", "max_completion_tokens": "max_tokens", "frequency_penalty": "frequency_penalty"}
    return [{names[name]: body[name] for name in names if name in body} for body in server.bodies]


def refuse(server, option, message):
    """Let a server refuse requests with an option; the message may repeat the request."""
    server.fault_of = lambda _: (
        (400, {}, json.dumps({"error": {"message": message.format(body=server.bodies[-1])}}))
        if option in server.bodies[-1]
        else None
    )


@pytest.mark.parametrize(
    ("style", "options", "adapter", "sent"),
    [
        ("short", {"max_tokens": 99}, None, {"stop": STOP, "max_tokens": 99}),
        ("short", {"stop": ["."]}, dspy.JSONAdapter(), {"stop": ["."], "max_tokens": 300}),
        ("sentence", {}, dspy.JSONAdapter(), {"max_tokens": 1000}),
    ],
)
def test_a_reply_ends_at_its_mark_and_is_not_longer_than_needed(server, style, options, adapter, sent):
    asked(server, program=Direct(style=style), adapter=adapter, **options)
    assert limits(server) == [sent]


def test_a_call_is_sent_with_temperature_0_unless_the_predictor_sets_another(server):
    program = Direct()
    asked(server, program=program)
    program.answer.config = {"temperature": 0.5}
    asked(server, program=program)
    assert [body["temperature"] for body in server.bodies] == [0.0, 0.5]


@pytest.mark.parametrize("option", ["stop", "temperature"])
def test_a_model_that_refuses_an_option_is_asked_again_without_and_remembered(server, option):
    refuse(server, option, f"Unsupported parameter: '{option}' is not supported with this model")
    assert [each.answer for each in asked(server, "Where?", "When?")] == ["Tarn", "Tarn"]
    assert [option in body for body in server.bodies] == [True, False, False]
    assert {"max_completion_tokens", "stop", "temperature"} - {option} <= server.bodies[-1].keys()


@pytest.mark.parametrize("said", ["logprobs: value is not allowed; input: {body}", "not supported by this model"])
def test_refused_log_probabilities_are_left_out_alone_whatever_the_refusal_repeats(server, said):
    refuse(server, "logprobs", said)
    program = RQRAG(TableRetriever({}), depth=0, strategy="confidence")
    assert [each.answer for each in asked(server, "Where?", "When?", program=program)] == ["Tarn", "Tarn"]
    assert ["logprobs" in body for body in server.bodies] == [True, False, False]
    assert (server.bodies[-1]["temperature"], server.bodies[-1]["stop"]) == (0.0, STOP)


def test_a_server_that_wants_room_for_the_longest_reply_is_asked_for_one_of_any_length(server):
    refuse(server, "max_completion_tokens", "the request exceeds the available context size of 400 tokens")
    assert asked(server)[0].answer == "Tarn"
    assert [{*each} for each in limits(server)] == [{"stop", "max_tokens"}, {"stop"}]


COUNTED = " ".join(str(number) for number in range(900))
CUT = f"[[ ## answer ## ]]\n{COUNTED}"
LIMITS = {"stop": STOP, "max_tokens": 300}


@pytest.mark.parametrize(
    ("first", "tokens", "second"),
    [
        (CUT, 300, {"max_tokens": 600}),
        (f"[[ ## answer ## ]]\n{'Tarn, ' * 900}", 300, {"frequency_penalty": 0.5}),
        (f"[[ ## answer ## ]]\n{' '.join(str(n % 97) for n in range(900))}", 300, {"frequency_penalty": 0.5}),
        ("", 1, {}),  # it ended at once
    ],
)
def test_a_second_reply_may_be_longer_or_must_not_repeat_itself(server, first, tokens, second):
    server.reply_of = lambda _: first if len(server.bodies) == 1 else ANSWER
    server.usage_of = lambda written: {"prompt_tokens": 90, "completion_tokens": tokens + len(written)}
    assert [each.answer for each in asked(server, "Where?", "When?")] == ["Tarn", "Tarn"]
    assert limits(server) == [LIMITS, LIMITS | second, LIMITS]


def test_a_model_whose_thoughts_were_cut_off_is_not_limited_any_more(server):
    thought = f"<think>\nI write [[ ## answer ## ]], then {COUNTED}"
    whole = f"{thought} [[ ## completed ## ]]\n</think>\n{ANSWER}"
    server.reply_of = lambda body: thought if body.get("max_completion_tokens") == 300 else whole
    assert [each.answer for each in asked(server, "Where?", "When?")] == ["Tarn", "Tarn"]
    assert limits(server) == [LIMITS, LIMITS, {"max_tokens": 3000}, {}]


def test_a_reply_cut_off_at_the_limit_that_was_set_is_not_asked_for_again(server):
    server.reply_of = lambda _: CUT
    [prediction] = asked(server, program=Direct(style="sentence"), max_tokens=50)
    assert prediction.answer.startswith("0 1 2")
    assert (len(server.bodies), prediction.trace.cost.cut) == (1, 1)


@pytest.mark.parametrize(
    ("second", "counted", "answered"), [(ANSWER, (2, 0, 0), "Tarn"), (UNREADABLE, (3, 0, 1), COUNTED)]
)
def test_the_second_reply_counts_if_it_can_be_read_and_is_the_only_demonstration(server, second, counted, answered):
    server.reply_of = lambda _: CUT if len(server.bodies) == 1 else second
    with dspy.context(trace=[]):
        [prediction] = asked(server)
        assert [call[2].answer for call in dspy.settings.trace] == [answered]
    cost = prediction.trace.cost
    assert (len(server.bodies), cost.unreadable, cost.cut) == counted
    assert prediction.answer == answered


@pytest.mark.parametrize("adapter", [dspy.JSONAdapter(), dspy.ChatAdapter(use_json_adapter_fallback=False)])
def test_where_json_is_not_asked_for_the_same_is_requested_once_more_and_not_from_the_cache(adapter):
    replies = [UNREADABLE, '{"answer": "Tarn"}']
    with dspy.context(lm=lm_of(ScriptedEngine(lambda *_: replies.pop(0)), cache=True), adapter=adapter):
        prediction = Direct()(question="Where?")
    assert (prediction.answer, prediction.trace.cost.lm_calls, prediction.trace.cost.unreadable) == ("Tarn", 2, 0)


class Narrow(ProgramEngine):
    """Reads prompts with three facts at most; longer ones are refused."""

    def complete(self, request):
        if sum((message.text or "").count("Fact ") for message in request.messages) > 3:
            raise ContextLengthError("the prompt is too long")
        return super().complete(request)


FACTS = [Passage(str(n), f"T{n}", f"Fact {n}.") for n in range(5)]


def test_what_does_not_fit_the_window_is_left_out_by_rank():
    program = RAG(TableRetriever({"Where?": FACTS}), top_k=5)
    program.answer.demos = [dspy.Example(question="When?", passages=["Fact 9."], style="", answer="1850")]
    engine = Narrow(program, {"answer": "Tarn"})
    with dspy.context(lm=lm_of(engine)), pytest.warns(UserWarning, match=r"rag \(answer\)"):
        prediction = program(question="Where?")
    assert [p["title"] for p in engine.asked("answer")[0]["passages"]] == ["T0", "T1", "T2"]
    [step] = prediction.trace.of(Shortened)
    assert (step.act, step.passages, step.demonstrations) == ("answer", ["4", "3"], 1)
    assert {*prediction.trace.shown} == {"0", "1", "2"}
    with pytest.raises(dspy.ContextWindowExceededError), dspy.context(lm=lm_of(engine)):
        Direct()(question="Fact " * 4)
