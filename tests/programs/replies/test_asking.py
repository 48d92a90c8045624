"""Temperature 0 where nobody says otherwise."""

import dspy
import pytest
from dspy.utils.exceptions import LMInvalidRequestError
from support import ScriptedEngine, lm_of

from knowgap.compiling.evaluation.provenance import lm_settings
from knowgap.programs.baselines.direct import Direct
from knowgap.programs.replies.asking import default_sampling


@pytest.mark.parametrize(
    ("name", "options", "sampling"),
    [
        ("openai/gpt-4o-mini", {}, {"temperature": 0.0}),
        ("anthropic/claude-sonnet-4-5", {}, {"temperature": 0.0}),
        ("openai/gpt-4o-mini", {"temperature": 0.7}, {}),
        ("openai/gpt-4o-mini", {"temperature": 0.0}, {}),
        ("openai/gpt-4o-mini", {"top_p": 0.9}, {}),
        ("openai/o3", {}, {}),
        ("openai/gpt-5-mini", {}, {}),
    ],
)
def test_temperature_0_is_sent_where_nothing_is_set(name, options, sampling):
    lm = dspy.LM(name, api_key="none", **options)
    assert default_sampling(lm) == sampling
    assert lm_settings(lm) == sampling | options


def test_a_model_in_this_process_samples_as_it_does():
    assert default_sampling(lm_of(ScriptedEngine(lambda *_: {}))) == {}


class Served(dspy.LM):
    """Stands for a model behind an address: keeps the temperatures, and refuses 0 if told so."""

    def __init__(self, refuses=False):
        super().__init__("openai/served", api_key="none", cache=False)
        self.refuses, self.temperatures = refuses, []

    def __call__(self, *args, **kwargs):
        self.temperatures.append(kwargs.get("temperature"))
        if self.refuses and kwargs.get("temperature") == 0:
            raise LMInvalidRequestError("Unsupported value: 'temperature' does not support 0", model=self.model)
        return ["[[ ## answer ## ]]\nTarn"]


def test_a_call_is_sent_with_temperature_0():
    lm = Served()
    with dspy.context(lm=lm):
        Direct()(question="Where?")
        program = Direct()
        program.answer.config = {"temperature": 0.5}
        program(question="Where?")
    assert lm.temperatures == [0.0, 0.5]


def test_a_model_that_refuses_it_is_asked_again_without_and_remembered():
    lm = Served(refuses=True)
    with dspy.context(lm=lm):
        answers = [Direct()(question="Where?").answer for _ in range(2)]
    assert answers == ["Tarn", "Tarn"]
    assert lm.temperatures == [0.0, None, None]
