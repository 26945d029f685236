"""Which chat template a model is trained on, which it is served with, and whether the two agree.

The loss is put on what the model says after a prefix. If the server renders that prefix differently from
the training text, the model is asked something it was never trained on; nothing fails, scores just drop.
TRL trains Qwen3 on a template with an empty `<think>` block in every turn, which the stock template leaves
out of the history: exactly that.
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
    """The text at inference time is no prefix of the text in training."""


@dataclass(frozen=True)
class Templates:
    """Jinja sources, and what they are told."""

    training: str
    serving: str
    thinking: bool | None = None

    def train_text(self, tokenizer: Any, row: Row) -> str:
        """Render the whole conversation as it is trained on."""
        return self._render(tokenizer, row, row.messages, self.training, prompt=False)

    def served_text(self, tokenizer: Any, row: Row, turn: int) -> str:
        """Render what the server puts before the assistant's turn at that index of the messages."""
        return self._render(tokenizer, row, row.messages[:turn], self.serving, prompt=True)

    @property
    def told(self) -> dict[str, Any]:
        """Variables for the templates, beside messages and tools."""
        return {} if self.thinking is None else {"enable_thinking": self.thinking}

    def _render(
        self, tokenizer: Any, row: Row, messages: list[dict[str, Any]], template: str, *, prompt: bool
    ) -> str:
        try:
            text = tokenizer.apply_chat_template(
                messages, tools=row.tools, chat_template=template, tokenize=False,
                add_generation_prompt=prompt, **self.told,
            )  # fmt: skip
        except Exception as error:  # a template raises whatever it likes
            raise BenchError(
                sanitize_line(f"{row.place}: the chat template fails on this row: {error}")
            ) from error
        return str(text)


def choose_templates(tokenizer: Any, model: ModelSource) -> Templates:
    """Find the template to train on (with marks around what the assistant says) and the one to serve with.

    Raises:
        WrongUseError: there is no template, or none that marks the assistant's part.
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
                f"{model.chat_template} does not mark what the assistant says: put "
                "{% generation %} and {% endgeneration %} around it"
            )
    elif stock is None:
        raise WrongUseError(
            "the tokenizer has no chat template: is it a base model's? Name a file in model.chat_template"
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
            "the tokenizer's chat template does not mark what the assistant says, and TRL has no training "
            "variant of it: write one with {% generation %} marks and name it in model.chat_template"
        ) from error
    return stock if variant is None else str(variant)


def check_templates(tokenizer: Any, templates: Templates, rows: Iterable[Row]) -> None:
    """Compare, for every turn of the assistant in every row, the served prefix with the training text.

    Raises:
        TemplateSkewError: at the first row where the prefix is no prefix; the text shows where they part.
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
        f"{row.place}: what the server renders before messages[{turn}] is no prefix of the training text. "
        f"They part at character {at}, after {text[start:at]!r}:\n"
        f"  in training: {text[at:end]!r}\n"
        f"  when served: {served[at:end]!r}\n"
        "Serve with the template that is trained on (model.serve_with: training), or name one in "
        "model.chat_template that renders history as it was trained. A template for models that do not think "
        "wants rows without reasoning (mcp-bench export --reasoning drop)"
    )
