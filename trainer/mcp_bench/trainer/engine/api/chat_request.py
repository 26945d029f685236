"""The requests of OpenAI's chat API, checked: what is wrong is named by its field."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from mcp_bench.trainer.engine.api.errors import ApiError
from mcp_bench.trainer.engine.sampling import Sampling

EXTENSIONS = (
    "top_k",
    "min_p",
    "repetition_penalty",
    "seed",
    "chat_template_kwargs",
    "return_token_ids",
)
"""What requests of the other APIs may have besides, by the names of the chat API."""

NO_VARIABLES = {
    *("conversation", "tools", "chat_template", "tokenizer_kwargs"),
    *("add_generation_prompt", "continue_final_message"),
    *("tokenize", "padding", "truncation", "max_length"),
    *("return_tensors", "return_dict", "return_assistant_tokens_mask"),
}
"""What transformers' `apply_chat_template` takes itself, and gives to no template."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow")


class Function(_Part):
    """A tool's function."""

    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(_Part):
    """A tool."""

    type: Literal["function"] = "function"
    function: Function


class CalledFunction(_Part):
    """The function of a call in the history."""

    name: str
    arguments: str | dict[str, Any] | None = None


class ToolCall(_Part):
    """A call in the history."""

    function: CalledFunction


class Message(_Part):
    """A message of the conversation."""

    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[ToolCall] | None = None


class Named(_Part):
    """The name in a choice of one tool."""

    name: str


class NamedChoice(_Part):
    """A choice of one tool."""

    type: Literal["function"] = "function"
    function: Named


class StreamOptions(_Part):
    """Options of a stream."""

    include_usage: bool = False


class ChatRequest(_Part):
    """The body of `POST /v1/chat/completions`. Unknown fields are ignored, as other servers do.

    Beyond OpenAI's API, with vLLM's names: `top_k`, `min_p`, `repetition_penalty`, `chat_template_kwargs`,
    `return_token_ids`, and `logprobs_mode`, which vLLM has as an option of the server.
    """

    model: str
    messages: list[Message] = Field(min_length=1)
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedChoice | None = None
    parallel_tool_calls: bool | None = None
    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=-1)
    min_p: float | None = Field(default=None, ge=0, le=1)
    repetition_penalty: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    stop: str | list[str] | None = None
    n: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    logprobs_mode: Literal["raw_logprobs", "processed_logprobs"] = "raw_logprobs"
    return_token_ids: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    response_format: dict[str, Any] | None = None
    logit_bias: dict[str, Any] | None = None

    @field_validator("n")
    @classmethod
    def _one_answer(cls, value: int | None) -> int | None:
        if value not in (None, 1):
            raise ValueError("this engine gives one answer for each request: send several requests")
        return value

    @field_validator("top_logprobs")
    @classmethod
    def _of_logprobs(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value and not info.data.get("logprobs"):
            raise ValueError("it needs logprobs: true")
        return value

    @field_validator("presence_penalty", "frequency_penalty")
    @classmethod
    def _no_penalty(cls, value: float | None) -> float | None:
        if value:
            raise ValueError("this engine has repetition_penalty only")
        return value

    @field_validator("logit_bias")
    @classmethod
    def _no_bias(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value:
            raise ValueError("this engine has no logit_bias")
        return value

    @field_validator("response_format")
    @classmethod
    def _text_only(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None and value.get("type") != "text":
            raise ValueError("this engine answers with text and tool calls only")
        return value

    @field_validator("chat_template_kwargs")
    @classmethod
    def _only_variables(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if others := sorted(NO_VARIABLES & (value or {}).keys()):
            raise ValueError(f"{others[0]} is no variable of a chat template")
        return value

    @field_validator("stop")
    @classmethod
    def _some_text(cls, value: str | list[str] | None) -> str | list[str] | None:
        if value == "" or (isinstance(value, list) and "" in value):
            raise ValueError("a stop string cannot be empty")
        return value

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def offered(self) -> list[dict[str, Any]]:
        """The tools as templates get them. `strict` is about decoding: a model never saw it in training."""
        left_out = {"function": {"strict"}}
        return [tool.model_dump(exclude_unset=True, exclude=left_out) for tool in self.tools or ()]

    @property
    def callable(self) -> list[dict[str, Any]]:
        """The tools that the answer may call."""
        choice = self.tool_choice
        if choice == "none":
            return []
        if isinstance(choice, NamedChoice):
            found = [tool for tool in self.offered if tool["function"]["name"] == choice.function.name]
            if not found:
                raise ApiError(f"tool_choice: no tool is named {choice.function.name!r}", param="tool_choice")
            return found
        if choice == "required" and not self.tools:
            raise ApiError("tool_choice: required needs tools", param="tool_choice")
        return self.offered

    @property
    def must_call(self) -> bool:
        """Whether the answer has to be a call."""
        return self.tool_choice == "required" or isinstance(self.tool_choice, NamedChoice)

    @property
    def several(self) -> bool:
        """Whether the answer may have several calls. A tool that is named is called once, as by OpenAI."""
        if self.parallel_tool_calls is None:
            return not isinstance(self.tool_choice, NamedChoice)
        return self.parallel_tool_calls

    @property
    def strict(self) -> bool:
        """Whether a tool asks that calls fit its schema."""
        return any(tool.function.strict for tool in self.tools or ())

    def sampling(self, defaults: Sampling) -> Sampling:
        """Return the settings: the request's own, else the checkpoint's."""
        names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        if "top_k" in given:
            given["top_k"] = max(0, given["top_k"])
        return replace(defaults, **given)


Checked = TypeVar("Checked", bound=ChatRequest)


def read_request(body: bytes) -> ChatRequest:
    """Return a checked request.

    Raises:
        ApiError: it is not JSON, or a field is wrong (status 400).
    """
    return checked(ChatRequest, read_json(body))


def read_json(body: bytes) -> dict[str, Any]:
    """Return the object in a request's body.

    Raises:
        ApiError: it is not JSON, or not an object (status 400).
    """
    try:
        value: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(f"the request is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ApiError("the request is not a JSON object")
    return value


def checked(kind: type[Checked], fields: dict[str, Any]) -> Checked:
    """Return a request with these fields.

    Raises:
        ApiError: one of them is wrong (status 400).
    """
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if _is_field(part)) or None
        message = first["msg"].removeprefix("Value error, ")
        raise ApiError(f"{where}: {message}", param=where) from error


def without_nothing(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out the fields that are None or empty lists: a request that lacks them means the same."""
    return {name: value for name, value in fields.items() if value is not None and value != []}


def one_system_message(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the instructions at the beginning; later ones become the user's. Most templates take one only."""
    made: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] not in ("system", "developer"):
            made.append(message)
        elif not made or (len(made) == 1 and made[0]["role"] == "system"):
            parts = [part["content"] for part in (*made, message)]
            made = [{"role": "system", "content": "\n\n".join(map(text_of, parts))}]
        else:
            made.append({**message, "role": "user"})
    return made


def text_of(content: str | list[dict[str, Any]] | None) -> str:
    """Return a message's text.

    Raises:
        ApiError: it has other parts than text.
    """
    if content is None or isinstance(content, str):
        return content or ""
    for part in content if isinstance(content, list) else [content]:
        kind = part.get("type") if isinstance(part, dict) else type(part).__name__
        if not isinstance(part, dict) or not isinstance(part.get("text"), str):
            raise ApiError(f"messages: this engine reads text only, not {kind}", param="messages")
    return "".join(part["text"] for part in content)


def _is_field(part: str | int) -> bool:
    """Return whether a part of pydantic's location is a field or index, not one of the types of a union."""
    return isinstance(part, int) or (part.isidentifier() and part.islower() and part not in ("str", "list"))
