"""A conversation that is too long for the model is the agent's own failure, in any endpoint's wording."""

from collections.abc import Callable

import pytest

from mcp_bench.clients.chat import provider
from mcp_bench.clients.chat.provider import ContextOverflowError, refusal
from mcp_bench.clients.events import ClientError
from mcp_bench.plugins import output
from mcp_bench.plugins.output import overflowed
from tests.support.agents.agent_attempt import Attempt
from tests.support.agents.real_agents import REAL_AGENTS, agents
from tests.support.desk.desk_script import JOURNAL
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault

pytestmark = pytest.mark.system

Make = Callable[..., Attempt]
VLLM = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."


@pytest.mark.parametrize(
    "words",
    [
        VLLM,
        "400 context_length_exceeded",
        "Codex ran out of room in the model's context window.",
        "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
        "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000",
        "Input is too long for requested model.",
        "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
        "This endpoint's maximum context length is 8192 tokens. However, you requested about 9000 tokens",
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
        "too large for model with 32768 maximum context length",
        "Range of input length should be [1, 30720]",
        "`inputs` tokens + `max_new_tokens` must be <= 8193.",
        "too many tokens: total number of tokens in the prompt cannot exceed 4081",
        "ContextOverflowError: 400 ",
    ],
)
def test_every_wording_is_known(words: str) -> None:
    """To the plugins, and to our own client, which cannot import them."""
    assert overflowed(words)
    assert isinstance(refusal(400, None, words, "none"), ContextOverflowError)


@pytest.mark.parametrize(
    "words",
    [
        "Rate limit reached for gpt-x on tokens per min (TPM): Limit 30000, Requested 40000.",
        "This request would exceed your rate limit of 30,000 input tokens per minute; reduce the prompt length",
        "You exceeded your current quota: input_token_count, limit: 1000000, context window",
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens.",
        "Incorrect API key provided",
        "Unknown parameter: 'temperature'",
        "tool_use ids were found without tool_result blocks",
        "stream disconnected before completion",
        "500 The test asked for this error.",
        "",
    ],
)
def test_other_trouble_is_the_endpoints(words: str) -> None:
    assert not overflowed(words)
    assert isinstance(refusal(400, None, words, "none"), ClientError)


def test_a_large_request_is_an_overflow_unless_by_the_minute() -> None:
    minute = "Request too large for model `x` on tokens per minute (TPM): Limit 12000, Requested 13000"
    assert isinstance(refusal(413, None, minute, "none"), ClientError)
    assert isinstance(refusal(413, None, "Payload Too Large", "none"), ContextOverflowError)
    assert isinstance(refusal(400, "context_length_exceeded", "no words", "none"), ContextOverflowError)


@agents("gemini", "qwen-code", "claude-code", "opencode", "acp-codex", "acp-gemini", "acp-opencode")
def test_it_is_no_fault_of_the_endpoint(attempt: Make, endpoint: ModelEndpoint, name: str) -> None:
    """The error of an open-weights server, which has no code that an agent could know."""
    endpoint.fault = Fault(status=400, message=VLLM, after=1)
    real = REAL_AGENTS[name]
    work = attempt(real.plugin())
    transcript = work.run(real.address(endpoint), options=real.options)
    assert (transcript.fault, transcript.answer) == (None, None)
    assert work.journal == JOURNAL[:2]


@pytest.mark.parametrize(
    ("words", "kind"), [("prompt is too long, exceeds context limit", None), ("busy", "endpoint_error")]
)
def test_stopped_while_retrying_is_judged_by_the_log(
    attempt: Make, endpoint: ModelEndpoint, words: str, kind: str | None
) -> None:
    """opencode does not report retries on stdout, but in its log."""
    work = attempt(REAL_AGENTS["opencode"].plugin())
    work.output.stdout.write_text("")
    error = f'message="stream error" error.error="AI_APICallError: {words}"'
    work.output.stderr.write_text(f"timestamp=2026-01-01T00:00:00.000Z level=ERROR run=1 {error}\n")
    fault = work.agent.read(work.output, work.server).fault
    assert (fault.kind if fault else None) == kind


def test_our_client_and_the_plugins_know_the_same_words() -> None:
    """The client imports nothing of the project, so each has a copy."""
    for ours, theirs in ((provider.OVERFLOW, output.OVERFLOW), (provider.RATE, output.RATE)):
        assert (ours.pattern, ours.flags) == (theirs.pattern, theirs.flags)
