"""The canonical form of an episode: OpenAI-style messages with dict arguments, plus tools.

Every export format is derived from it. Field names follow the Chat Completions API, except that
`function.arguments` is an object: a string would hide its types from a chat template.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from mcp_bench.servers.contracts import Image, Score


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class FunctionCall(Model):
    name: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class ToolCall(Model):
    id: str
    type: Literal["function"] = "function"
    function: FunctionCall


class Message(Model):
    """One turn. `reasoning` is set if the agent reports it, `tool_call_id` and `name` on tool results;
    `is_error` means that the tool returned an error."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCall] = Field(default_factory=list)
    tool_call_id: str | None = None
    name: str | None = None
    is_error: bool = False
    images: list[Image] = Field(default_factory=list)
    """What the tool returned besides text. `content` names each of them in its place: see `image_text`."""


class FunctionSchema(Model):
    name: str
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)


class ToolSchema(Model):
    type: Literal["function"] = "function"
    function: FunctionSchema


class Usage(Model):
    """Tokens and cost of one episode, as the agent reports them; None if it does not."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """Part of `input_tokens` that the provider read from its cache."""
    model_calls: int | None = None
    cost_usd: float | None = None


class ModelCall(Model):
    """The request for one of the agent's turns and its usage, captured at the model's endpoint."""

    id: str
    message: int
    """Index of the turn in the trajectory's messages."""
    model: str | None = None
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    """Sampling parameters that the agent set: `temperature`, `top_p`, `max_tokens`, `seed`, ..."""
    usage: Usage | None = None
    finish: str | None = None
    """Why the model stopped, in its API's term."""
    prompt_token_ids: list[int] | None = None
    token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    """Natural logarithms, one per token of the answer."""


class Trajectory(Model):
    """An episode as a conversation, with the grade of its final state."""

    id: str
    benchmark: str
    task: str
    split: str
    domain: str
    agent: str
    agent_version: str | None = None
    model: str | None = None
    seed: int
    isolation: str
    verified: bool = False
    """The grade was out of the agent's reach: see mcp_bench.recorder.taint."""
    taint: Literal["clean", "tainted", "unknown"] = "unknown"
    """Whether the agent looked for its grade."""
    partial: float | None = None
    strict: bool | None = None
    score: Score | None = None
    """What the benchmark measured, in its own unit."""
    timed_out: bool = False
    """Whether the time limit ended it."""
    usage: Usage | None = None
    messages: list[Message]
    tools: list[ToolSchema]
    model_calls: list[ModelCall] = Field(default_factory=list)
    """Only if requested."""
