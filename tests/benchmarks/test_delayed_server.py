"""The benchmarks' server of a language model, read by OpenAI's own client."""

from models.delayed_server import delayed_server
from openai import OpenAI

PROMPT = "Respond with the corresponding output fields, starting with the field `[[ ## answer ## ]]`."


def test_openai_client_reads_replies_log_probabilities_and_usage():
    with delayed_server(0.0, 1) as server, OpenAI(base_url=server.api_base, api_key="none", max_retries=0) as client:
        messages = [{"role": "user", "content": PROMPT}]
        completion = client.chat.completions.create(model="any", messages=messages, logprobs=True)
        [choice] = completion.choices
        assert "[[ ## answer ## ]]\nthe answer that belongs to " in choice.message.content
        assert choice.finish_reason == "stop"
        assert len(choice.logprobs.content) == completion.usage.completion_tokens
        assert server.counts()["requests"] == 1
