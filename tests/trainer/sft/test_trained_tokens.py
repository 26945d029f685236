"""Random conversations: exactly the assistant's turns are trained on, up to the token that ends each."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_bench.trainer.data import Example, prepare
from mcp_bench.trainer.recipe import ModelSource
from mcp_bench.trainer.rows import Row
from mcp_bench.trainer.templates import check_templates, choose_templates
from tests.support.training.byte_tokenizers import CHATML, byte_tokenizer
from tests.support.training.tiny_models import MISTRAL, family_tokenizer

pytestmark = pytest.mark.component

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": "find", "description": "", "parameters": SCHEMA}}]

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
CALLS = st.lists(st.dictionaries(st.sampled_from(["name", "age"]), WORDS | st.integers()), max_size=2)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw a question, and turns of the assistant with calls and their results, or an answer and a question."""
    messages = [{"role": "user", "content": draw(WORDS)}]
    if draw(st.booleans()):
        messages.insert(0, {"role": "system", "content": draw(WORDS)})
    for _ in range(draw(st.integers(1, 4))):
        made = draw(CALLS)
        calls = [
            {"id": "c", "type": "function", "function": {"name": "find", "arguments": one}} for one in made
        ]
        message = {"role": "assistant", "content": draw(WORDS)}
        messages.append({**message, "tool_calls": calls} if calls else message)
        failed: Any = draw(st.sampled_from([{}, {"is_error": True}]))
        follow = [{"role": "tool", "content": draw(WORDS), **failed} for _ in calls]
        messages += follow or [{"role": "user", "content": draw(WORDS)}]
    return messages


def calls_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [call["function"] for call in message.get("tool_calls", ())]


def chatml(message: dict[str, Any]) -> str:
    calls = "".join(
        f"<tool_call>{call['name']} {json.dumps(call['arguments'], ensure_ascii=False)}</tool_call>"
        for call in calls_of(message)
    )
    return f"{message['content']}{calls}<|im_end|>"


def mistral(message: dict[str, Any]) -> str:
    calls = json.dumps(calls_of(message), ensure_ascii=False)
    return (f"[TOOL_CALLS]{calls}" if calls_of(message) else message["content"]) + "</s>"


def signatures(message: dict[str, Any]) -> str:
    calls = [
        f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>" for call in calls_of(message)
    ]
    return "\n".join([*([message["content"]] if message["content"] else []), *calls]) + "<|im_end|>"


def gemma(message: dict[str, Any]) -> str:
    return signatures(message).replace("<|im_end|>", "<end_of_turn>")


UNMARKED = CHATML.replace("{% generation %}", "").replace("{% endgeneration %}", "")
# as Mistral's own does, it refuses the ids that other servers give
MARKED = (
    MISTRAL.replace("{{- '[TOOL_CALLS][' }}", "{% generation %}{{- '[TOOL_CALLS][' }}")
    .replace("{{- ']' + eos_token }}", "{{- ']' + eos_token }}{% endgeneration %}")
    .replace(
        "{{- message.content + eos_token }}",
        "{% generation %}{{- message.content + eos_token }}{% endgeneration %}",
    )
    .replace(
        "{{- call.function",
        "{% if call.id | length != 9 %}{{ raise_exception('IDs should have length 9!') }}{% endif %}{{- call.function",
    )
)
FORMS = {
    "chatml without marks": chatml,
    "mistral without marks": mistral,
    "mistral": mistral,
    "signatures": signatures,
    "signatures of gemma": gemma,
}


@cache
def tokenizer_of(form: str) -> Any:
    if form.startswith("mistral"):
        made = family_tokenizer("mistral")
        made.chat_template = MARKED if form == "mistral" else made.chat_template
        return made
    if form.endswith("gemma"):
        return family_tokenizer("gemma3_text")
    return byte_tokenizer(UNMARKED if form.startswith("chatml") else None)


def turns(tokenizer: Any, example: Example) -> list[str]:
    """Return the runs of trained tokens as text."""
    found: list[list[int]] = [[]]
    for token, trained in zip(example.tokens, example.trained, strict=True):
        if trained:
            found[-1].append(token)
        elif found[-1]:
            found.append([])
    return [tokenizer.decode(run) for run in found if run]


@pytest.mark.parametrize("form", list(FORMS))
@settings(deadline=None, max_examples=25)
@given(messages=conversations())
def test_exactly_the_assistants_turns_are_trained(form: str, messages: list[dict[str, Any]]) -> None:
    tokenizer, said = tokenizer_of(form), FORMS[form]
    row = Row("x:1", messages, TOOLS)
    templates = choose_templates(tokenizer, ModelSource(base="x"))
    check_templates(tokenizer, templates, [row])
    [example] = prepare([row], tokenizer, templates, 100_000).examples
    assert turns(tokenizer, example) == [said(one) for one in messages if one["role"] == "assistant"]
    assert tokenizer.decode(example.tokens) == templates.train_text(tokenizer, row)


@pytest.mark.parametrize("form", list(FORMS))
@settings(deadline=None, max_examples=25)
@given(messages=conversations())
def test_failed_calls_are_read_and_not_trained(form: str, messages: list[dict[str, Any]]) -> None:
    tokenizer, said = tokenizer_of(form), FORMS[form]
    row = Row("x:1", [*messages, {"role": "assistant", "content": "Done."}], TOOLS)
    templates = choose_templates(tokenizer, ModelSource(base="x"))
    [example] = prepare([row], tokenizer, templates, 100_000, mask_failed=True).examples
    following = [*messages[1:], {}]
    good = [
        one
        for one, after in zip(messages, following, strict=True)
        if one["role"] == "assistant" and not after.get("is_error")
    ]
    assert turns(tokenizer, example) == [*map(said, good), said(row.messages[-1])]
    [whole] = prepare([row], tokenizer, templates, 100_000).examples
    assert example.tokens == whole.tokens
    assert example.masked == sum(whole.trained) - sum(example.trained)
    assert whole.masked == 0
