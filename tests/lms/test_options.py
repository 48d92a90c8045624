"""Options of a language model: read from text, checked, and heeded where they change answers."""

import dspy
import pytest

from knowgap.compiling.evaluation.provenance import connection_options, lm_settings
from knowgap.errors import UsageError
from knowgap.lms import make_lm, quiet_dspy
from knowgap.lms.providers import parse_options


def test_options_are_read_by_their_kind():
    written = {"temperature": "0.2", "max_tokens": "500", "timeout": "60", "num_retries": "0", "top_p": "1"}
    assert parse_options(written) == {
        "temperature": 0.2,
        "max_tokens": 500,
        "timeout": 60.0,
        "num_retries": 0,
        "top_p": 1.0,
    }
    assert [type(value) for value in parse_options(written).values()] == [float, int, float, int, float]
    other = {"extra_body": '{"min_p":0.1}', "verbosity": "low", "reasoning_effort": "10", "device": "cpu"}
    assert parse_options(other) == {**other, "extra_body": {"min_p": 0.1}}


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ({"temperature": "hot"}, "temperature=hot: it should be a valid number"),
        ({"temperature": "-1"}, "greater than or equal to 0"),
        ({"max_tokens": "0"}, "greater than or equal to 1"),
        ({"max_tokens": "1.5"}, "a valid integer"),
        ({"timeout": "inf"}, "less than or equal to 86400"),
        ({"model_type": "talk"}, "'chat', 'text' or 'responses'"),
        ({"temprature": "0.2"}, "did you mean 'temperature'"),
        ({"top-p": "0.2"}, "did you mean 'top_p'"),
        ({"api_key": "sk-1"}, "OPENAI_API_KEY"),
        ({"extra_headers": "{}"}, "environment variable"),
        ({"api_base": "http://x"}, "--api-base"),
        ({"model": "x"}, "--lm"),
        ({"cache": "false"}, "programs set the rest"),
    ],
)
def test_bad_names_and_values_are_refused(written, problem):
    with pytest.raises(UsageError, match=problem) as error:
        parse_options(written)
    assert "sk-1" not in str(error.value)


def test_models_take_the_options_that_they_heed():
    assert make_lm("openai/local", api_base="http://127.0.0.1:9/v1").kwargs["timeout"] == 120
    lm = make_lm("openai/local", api_base="http://127.0.0.1:9/v1", timeout=5, num_retries=1)
    assert (lm.kwargs["timeout"], lm.num_retries) == (5, 1)
    for name, options, refused in (
        ("extractive", {"temperature": 0.5}, "takes no temperature"),
        ("openai/o3", {"temperature": 0.5}, "cannot be used so"),
    ):
        with pytest.raises(UsageError, match=refused):
            make_lm(name, **options)


def test_what_changes_answers_is_told_apart(tmp_path):
    quiet_dspy(tmp_path / "cache")

    def made(**options):
        return make_lm("openai/local", api_base="http://127.0.0.1:9/v1", **options)

    def key(**options):
        return dspy.cache.cache_key({"model": "openai/local", **made(**options).kwargs}, [])

    plain, patient = made(), made(timeout=600, num_retries=9)
    assert lm_settings(plain) == lm_settings(patient)
    assert key() == key(timeout=600, num_retries=9)
    for options in ({"temperature": 0.5}, {"max_tokens": 7}, {"extra_body": {"min_p": 0.1}}, {"stop": ["."]}):
        assert lm_settings(made(**options)) != lm_settings(plain)
        assert key(**options) != key()
    assert connection_options(patient) == {"timeout": 600, "num_retries": 9}
    secret = made(extra_body={"token": "hidden", "min_p": 0.1}, api_key="hidden")
    assert "hidden" not in str(lm_settings(secret) | connection_options(secret))
    dspy.cache.disk_cache.close()
