"""Choose the chat templates for training and serving, and check that they agree.

The model learns to continue prefixes of the training text. If the server renders such a prefix differently,
the model gets input that it was not trained on: nothing fails, but scores drop. This happens with Qwen3:
TRL's training template has an empty `<think>` block in every turn, which the stock template omits from the
history.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.servers.sanitize import sanitize_line
from mcp_bench.trainer.recipe import ModelSource
from mcp_bench.trainer.rows import Row

AROUND = 60
"""Characters shown before and after a difference."""


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
        return self._render(tokenizer, row, row.messages, self.training, prompt=False)

    def served_text(self, tokenizer: Any, row: Row, turn: int) -> str:
        """Render the prompt that the server makes for the assistant's turn at index `turn`."""
        return self._render(tokenizer, row, row.messages[:turn], self.serving, prompt=True)

    @property
    def variables(self) -> dict[str, Any]:
        """Variables for the templates besides messages and tools."""
        return {} if self.thinking is None else {"enable_thinking": self.thinking}

    def _render(
        self, tokenizer: Any, row: Row, messages: list[dict[str, Any]], template: str, *, prompt: bool
    ) -> str:
        try:
            text = tokenizer.apply_chat_template(
                messages, tools=row.tools, chat_template=template, tokenize=False,
                add_generation_prompt=prompt, **self.variables,
            )  # fmt: skip
        except Exception as error:  # templates can raise anything
            raise BenchError(
                sanitize_line(f"{row.place}: the chat template fails on this row: {error}")
            ) from error
        return str(text)


def choose_templates(tokenizer: Any, model: ModelSource) -> Templates:
    """Return the training template, which marks the assistant's tokens, and the serving template.

    Raises:
        WrongUseError: there is no template, or none that marks the assistant's tokens.
    """
    stock = tokenizer.chat_template
    if isinstance(stock, dict):
        stock = stock.get("default")
    if model.chat_template is not None:
        try:
            training = Path(model.chat_template).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise WrongUseError(f"model.chat_template: cannot read {model.chat_template}: {error}") from error
        if "generation %}" not in training and "generation -%}" not in training:
            raise WrongUseError(
                f"{model.chat_template} does not mark the assistant's tokens: put "
                "{% generation %} and {% endgeneration %} around them"
            )
    elif stock is None:
        raise WrongUseError(
            "the tokenizer has no chat template (base models often have none): set model.chat_template to "
            "the path of one"
        )
    else:
        training = _training_variant(tokenizer, stock)
    if model.serve_with == "stock" and stock is None:
        raise WrongUseError("model.serve_with is stock, but the tokenizer has no chat template")
    return Templates(training, training if model.serve_with == "training" else stock, model.thinking)


def _training_variant(tokenizer: Any, stock: str) -> str:
    from trl.chat_template_utils import get_training_chat_template, has_generation_markers

    if has_generation_markers(stock):
        return stock
    try:
        variant = get_training_chat_template(tokenizer)
    except ValueError as error:
        raise WrongUseError(
            "the tokenizer's chat template does not mark the assistant's tokens, and TRL has no training "
            "variant of it: write one with {% generation %} marks and set model.chat_template to its file"
        ) from error
    return stock if variant is None else str(variant)


def check_templates(tokenizer: Any, templates: Templates, rows: Iterable[Row]) -> None:
    """Check for every assistant turn of every row that the served prompt is a prefix of the training text.

    Raises:
        TemplateSkewError: a prompt differs; the text shows where.
    """
    for row in rows:
        text = templates.train_text(tokenizer, row)
        for turn, message in enumerate(row.messages):
            if message["role"] != "assistant" or turn == 0:
                continue
            served = templates.served_text(tokenizer, row, turn)
            if not text.startswith(served):
                raise TemplateSkewError(_difference(row, turn, text, served))


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
