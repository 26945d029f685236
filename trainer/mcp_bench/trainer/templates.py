"""Choose the chat templates for training and serving, and check that they agree.

The model learns to continue prefixes of the training text. If the server renders such a prefix differently,
the model gets input that it was not trained on: nothing fails, but scores drop. This happens with Qwen3:
TRL's training template has an empty `<think>` block in every turn, which the stock template omits from the
history.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.servers.terminal.sanitize import sanitize_line
from mcp_bench.trainer.chat.signatures import knows_tools, signatures_template
from mcp_bench.trainer.chat.tool_template import tool_template
from mcp_bench.trainer.recipe import ModelSource
from mcp_bench.trainer.rows import Row

AROUND = 60
"""Characters shown before and after a difference."""
NEAR = 200
"""Characters before and after the end of a prompt that decide how it is divided into tokens."""

NINE = "length 9"
"""What templates of Mistral say when they refuse the ids of calls that other servers give."""


class TemplateSkewError(BenchError):
    """The prompt at inference time is not a prefix of the training text."""


@dataclass(frozen=True)
class Templates:
    """Jinja sources of the templates, and the value of `enable_thinking`."""

    training: str
    serving: str
    thinking: bool | None = None

    def train_text(self, tokenizer: Any, row: Row) -> str:
        """Render the whole conversation for training."""
        return self._trained(tokenizer, row, row.messages, prompt=False)

    @property
    def marked(self) -> bool:
        """Whether the training template marks the assistant's text (`{% generation %}`)."""
        return re.search(r"\{%[-+]?\s*generation\s*[-+]?%\}", self.training) is not None

    def turn_text(self, tokenizer: Any, row: Row, turn: int) -> tuple[str, str]:
        """Render for training what comes before the assistant's turn at index `turn`, and up to its end."""
        before = self._trained(tokenizer, row, row.messages[:turn], prompt=True)
        return before, self._trained(tokenizer, row, row.messages[: turn + 1], prompt=False)

    def served_text(self, tokenizer: Any, row: Row, turn: int) -> str:
        """Render the prompt that the server makes for the assistant's turn at index `turn`.

        The server knows the template alone, and no variables.
        """
        return _rendered(tokenizer, row, row.messages[:turn], self.serving, prompt=True)

    @property
    def variables(self) -> dict[str, Any]:
        """Variables for the training template besides messages and tools."""
        return {} if self.thinking is None else {"enable_thinking": self.thinking}

    def _trained(self, tokenizer: Any, row: Row, messages: list[dict[str, Any]], *, prompt: bool) -> str:
        return _rendered(tokenizer, row, messages, self.training, prompt=prompt, **self.variables)


def _rendered(
    tokenizer: Any, row: Row, messages: list[dict[str, Any]], template: str, *, prompt: bool, **variables: Any
) -> str:
    try:
        text = tokenizer.apply_chat_template(
            accepted(messages, template),
            tools=row.tools,
            chat_template=template,
            tokenize=False,
            add_generation_prompt=prompt,
            **variables,
        )
    except Exception as error:  # templates can raise anything
        raise BenchError(
            sanitize_line(f"{row.place}: the chat template fails on this row: {error}")
        ) from error
    return str(text)


def accepted(messages: list[dict[str, Any]], template: str) -> list[dict[str, Any]]:
    """Return messages that a template accepts: for Mistral's, the ids of calls get nine characters."""
    return [_short_ids(message) for message in messages] if NINE in template else messages


def _short_ids(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with such ids, made of its own."""

    def short(name: object) -> str:
        return sha256(str(name).encode()).hexdigest()[:9]

    if calls := message.get("tool_calls"):
        message = {**message, "tool_calls": [{**call, "id": short(call.get("id"))} for call in calls]}
    if "tool_call_id" in message:
        message = {**message, "tool_call_id": short(message["tool_call_id"])}
    return message


def choose_templates(tokenizer: Any, model: ModelSource) -> Templates:
    """Return the templates to train and to serve with.

    The training template is the recipe's file, else the tokenizer's own if it knows tools (or TRL's variant
    of it, which marks the assistant's tokens), else ours with the model's turn tokens.

    Raises:
        WrongUseError: there is no template, and no turn tokens for ours.
    """
    stock = tool_template(tokenizer.chat_template)
    if model.chat_template is not None:
        try:
            training = Path(model.chat_template).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise WrongUseError(f"model.chat_template: cannot read {model.chat_template}: {error}") from error
    elif stock is not None and knows_tools(stock):
        training = _training_variant(tokenizer, stock)
    elif (ours := signatures_template(tokenizer)) is not None:
        training = ours
    elif stock is not None:
        training = _training_variant(tokenizer, stock)
    else:
        raise WrongUseError(
            "the tokenizer has no chat template (base models often have none), and no turn tokens that are "
            "known (ChatML, Gemma, Llama 3): set model.chat_template to the path of a template"
        )
    serving = training if model.serve_with == "training" else stock
    if serving is None:
        raise WrongUseError("model.serve_with is stock, but the tokenizer has no chat template")
    return Templates(training, _with_thinking(serving, model.thinking), model.thinking)


def _with_thinking(template: str, thinking: bool | None) -> str:
    """Return a template in which `enable_thinking` has this value unless a request sets it."""
    if thinking is None or "enable_thinking" not in template:
        return template
    value = f"enable_thinking if enable_thinking is defined else {str(thinking).lower()}"
    return f"{{%- set enable_thinking = {value} %}}{template}"


def _training_variant(tokenizer: Any, stock: str) -> str:
    """Return TRL's variant of a template, with marks around the assistant's text, or the template itself."""
    if Templates(stock, stock).marked:
        return stock
    try:
        from trl.chat_template_utils import get_training_chat_template

        return str(get_training_chat_template(tokenizer) or stock)
    except Exception:  # TRL has none or is absent, or its trial conversation fails on this template
        return stock


def check_templates(tokenizer: Any, templates: Templates, rows: Iterable[Row]) -> None:
    """Check for every assistant turn of every row that the served prompt is a prefix of the training text.

    Its tokens have to be the first ones of the training text, too. This is not checked for turns whose text
    begins with white space, which can join the prompt's last token: that is not the template's fault.

    Raises:
        WrongUseError: rows have tools, and the template cannot show them.
        TemplateSkewError: a prompt differs; the text shows where.
    """
    for row in rows:
        if row.tools and not knows_tools(templates.training):
            raise WrongUseError(
                f"{row.place} has tools, but the chat template cannot show them, and the tokenizer has no "
                "turn tokens for ours: set model.chat_template to a template that can"
            )
        text = templates.train_text(tokenizer, row)
        for turn, message in enumerate(row.messages):
            if message["role"] != "assistant" or turn == 0:
                continue
            served = templates.served_text(tokenizer, row, turn)
            if not text.startswith(served):
                raise TemplateSkewError(_difference(row, turn, text, served))
            parts = (message.get("content"), message.get("reasoning_content"))
            spaced = any(isinstance(part, str) and part[:1].isspace() for part in parts)
            if not spaced and not _same_tokens(tokenizer, text, len(served)):
                raise TemplateSkewError(
                    f"{row.place}: the prompt that the server renders before messages[{turn}] has other "
                    f"tokens than the same part of the training text: it ends with {served[-AROUND:]!r}, and "
                    f"the training text goes on with {text[len(served) : len(served) + AROUND]!r}. Often a "
                    "template opens a thought that the rows do not have: set model.thinking to false, or "
                    "keep their thoughts (mcp-bench export --reasoning keep)"
                )


def shows_calls(tokenizer: Any, templates: Templates, row: Row) -> bool:
    """Return whether the training text has all calls: some templates render only the first one of a turn."""
    for turn, message in enumerate(row.messages):
        calls = message.get("tool_calls") or ()
        if len(calls) > 1:
            fewer = [*row.messages[:turn], {**message, "tool_calls": calls[:-1]}]
            texts = {
                templates.train_text(tokenizer, replace(row, messages=messages))
                for messages in (row.messages[: turn + 1], fewer)
            }
            if len(texts) == 1:
                return False
    return True


def _same_tokens(tokenizer: Any, text: str, end: int) -> bool:
    """Return whether a text up to `end` has the tokens that it has when it goes on."""
    near = text[max(0, end - NEAR) : end]
    alone, longer = (
        tokenizer(part, add_special_tokens=False)["input_ids"] for part in (near, near + text[end:][:NEAR])
    )
    return bool(longer[: len(alone)] == alone)


def assistant_spans(tokenizer: Any, templates: Templates, row: Row, text: str) -> list[tuple[int, int]]:
    """Return where the assistant's turns are in the training text, for a template without marks.

    A turn is what rendering up to its end adds to the prompt before it. It ends with its last special token;
    white space after that belongs to the template.

    Args:
        tokenizer: the tokenizer.
        templates: the templates.
        row: the conversation.
        text: its training text.

    Returns:
        Start and end of each turn, in characters.

    Raises:
        TemplateSkewError: the template renders a turn differently when the conversation goes on.
    """
    special = special_tokens(tokenizer).values()
    spans = []
    for turn, message in enumerate(row.messages):
        if message["role"] != "assistant":
            continue
        before, whole = templates.turn_text(tokenizer, row, turn)
        for part in (before, whole):
            if not text.startswith(part):
                raise TemplateSkewError(_difference(row, turn, text, part))
        stripped = whole.rstrip()
        end = len(stripped) if stripped.endswith(tuple(special)) else len(whole)
        spans.append((len(before), max(end, len(before))))
    return spans


def turn_spans(tokenizer: Any, templates: Templates, row: Row, text: str) -> dict[int, tuple[int, int]]:
    """Return where the assistant's turns are in the training text, each up to the next one.

    Args:
        tokenizer: the tokenizer.
        templates: the templates.
        row: the conversation.
        text: its training text.

    Returns:
        Start and end in characters, by the index of the message. Between the turns is nothing that is
        trained on.

    Raises:
        TemplateSkewError: the template renders a prompt differently when the conversation goes on.
    """
    starts = {}
    for turn, message in enumerate(row.messages):
        if message["role"] == "assistant":
            before, _ = templates.turn_text(tokenizer, row, turn)
            if not text.startswith(before):
                raise TemplateSkewError(_difference(row, turn, text, before))
            starts[turn] = len(before)
    return {
        at: (start, min((other for turn, other in starts.items() if turn > at), default=len(text)))
        for at, start in starts.items()
    }


def failed_turns(messages: Sequence[Mapping[str, Any]]) -> set[int]:
    """Return the indices of the assistant's messages whose calls all failed."""
    failed = set()
    for turn, message in enumerate(messages):
        if message["role"] == "assistant" and message.get("tool_calls"):
            results = list(takewhile(lambda one: one["role"] == "tool", messages[turn + 1 :]))
            if results and all(one.get("is_error") for one in results):
                failed.add(turn)
    return failed


def special_tokens(tokenizer: Any) -> dict[int, str]:
    """Return the tokens with a special meaning, such as the end of a turn: number and text."""
    added = {
        number: token.content for number, token in tokenizer.added_tokens_decoder.items() if token.special
    }
    named = zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True)
    return {**added, **dict(named)}


def _difference(row: Row, turn: int, text: str, served: str) -> str:
    pairs = zip(text, served, strict=False)
    at = next((i for i, (one, other) in enumerate(pairs) if one != other), min(len(text), len(served)))
    start, end = max(0, at - AROUND), at + AROUND
    return (
        f"{row.place}: the prompt that the server renders before messages[{turn}] is not a prefix of the "
        f"training text. They differ from character {at}, after {text[start:at]!r}:\n"
        f"  in training: {text[at:end]!r}\n"
        f"  when served: {served[at:end]!r}\n"
        "Serve with the training template (model.serve_with: training), or set model.chat_template to one "
        "that renders the history as in training. Templates of models that do not reason need rows without "
        "reasoning (mcp-bench export --reasoning drop)"
    )
