"""The served prompt of every turn must be a prefix of the training text."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcp_bench.recorder.formats.trl import Trl
from mcp_bench.recorder.trajectory import (
    FunctionCall,
    FunctionSchema,
    Message,
    ToolCall,
    ToolSchema,
    Trajectory,
)
from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.data import prepare
from mcp_bench.trainer.recipe import ModelSource, load_recipe
from mcp_bench.trainer.rows import Row
from mcp_bench.trainer.templates import Templates, TemplateSkewError, check_templates, choose_templates
from tests.support.training.byte_tokenizers import CHATML, FORGETFUL, byte_tokenizer

pytestmark = pytest.mark.component

TOOLS = [
    {"type": "function", "function": {"name": "find", "description": "", "parameters": {"type": "object"}}}
]
CALL = {
    "id": "c",
    "type": "function",
    "function": {"name": "find", "arguments": {"name": "Ada", "old": False}},
}
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "Who is Ada?"},
    {"role": "assistant", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "[]"},
    {"role": "assistant", "content": "Nobody."},
]
ROW = Row("train.jsonl:7", MESSAGES, TOOLS)
THOUGHT = [*MESSAGES]
THOUGHT[1] = {**MESSAGES[1], "reasoning_content": "Let me look."}


def stock(name: str) -> str:
    """Return a real model's template, as shipped with TRL."""
    return (resources.files("trl") / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")


def unmarked(template: str) -> str:
    return template.replace("{% generation %}", "").replace("{% endgeneration %}", "")


def model(**settings: Any) -> ModelSource:
    return load_recipe("tiny-cpu")[1].model.model_copy(update=settings)


@pytest.mark.parametrize("name", ["qwen2_5", "qwen3", "qwen3_instruct_2507", "qwen3_5_think"])
@pytest.mark.parametrize("messages", [MESSAGES, THOUGHT], ids=["plain", "reasoning"])
def test_a_model_served_with_its_training_template_passes(name: str, messages: list[dict[str, Any]]) -> None:
    tokenizer = byte_tokenizer(stock(name))
    templates = choose_templates(tokenizer, model())
    assert "generation" in templates.training
    check_templates(tokenizer, templates, [Row("x:1", messages, TOOLS)])


@pytest.mark.parametrize("name", ["qwen2_5", "gptoss"])
def test_an_export_with_empty_turns_can_be_rendered(name: str) -> None:
    call = ToolCall(id="c", function=FunctionCall(name="find"))
    said = [
        Message(role="user", content="Who is Ada?"),
        Message(role="assistant", tool_calls=[call]),
        Message(role="tool", tool_call_id="c", name="find"),
        Message(role="assistant"),
        Message(role="user", content=""),
        Message(role="assistant"),
    ]
    facts = {
        "benchmark": "b",
        "task": "t",
        "split": "train",
        "domain": "d",
        "agent": "a",
        "isolation": "none",
    }
    tools = [ToolSchema(function=FunctionSchema(name="find", parameters={"type": "object"}))]
    exported = Trl().row(Trajectory(id="ep_1", seed=0, messages=said, tools=tools, **facts))
    assert [message.get("content") for message in exported["messages"]] == [
        "Who is Ada?",
        None,
        "",
        "",
        "",
        "",
    ]
    tokenizer = byte_tokenizer(stock(name))
    templates = choose_templates(tokenizer, model(thinking=False))
    templates.train_text(tokenizer, Row("x:1", exported["messages"], exported["tools"]))


def test_reasoning_needs_a_template_that_renders_it() -> None:
    tokenizer = byte_tokenizer(stock("qwen3_5_nothink"))
    templates = choose_templates(tokenizer, model())
    check_templates(tokenizer, templates, [ROW])
    with pytest.raises(TemplateSkewError, match="--reasoning drop"):
        check_templates(tokenizer, templates, [Row("x:1", THOUGHT, TOOLS)])


def test_qwen3_on_its_stock_template_is_refused() -> None:
    tokenizer = byte_tokenizer(stock("qwen3"))
    templates = choose_templates(tokenizer, model(serve_with="stock"))
    assert templates.training != templates.serving == stock("qwen3")
    with pytest.raises(TemplateSkewError) as caught:
        check_templates(tokenizer, templates, [ROW])
    head, trained, served, advice = str(caught.value).splitlines()
    assert head.startswith(
        "train.jsonl:7: the prompt that the server renders before messages[3] is not a prefix"
    )
    assert trained.startswith("  in training: 'hink>\\n\\n</think>\\n\\n<tool_call>")
    assert served.startswith("  when served: 'ool_call>")
    assert "model.serve_with: training" in advice


def test_a_prompt_with_extra_reasoning_is_refused() -> None:
    prompt = CHATML.replace(
        "{{ '<|im_start|>assistant\\n' }}{% endif %}", "{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}"
    )
    assert prompt != CHATML
    with pytest.raises(TemplateSkewError, match=r"before messages\[1\]"):
        check_templates(byte_tokenizer(CHATML), Templates(CHATML, prompt), [ROW])


def test_the_thinking_setting_reaches_the_template() -> None:
    tokenizer = byte_tokenizer(stock("qwen3"))
    for thinking, ends in ((None, "assistant\n"), (False, "</think>\n\n")):
        templates = choose_templates(tokenizer, model(thinking=thinking))
        assert templates.served_text(tokenizer, ROW, 1).endswith(ends)
        check_templates(tokenizer, templates, [ROW])


def served(tokenizer: Any, serving: str, **variables: Any) -> str:
    """Return the prompt that a server makes: it has the template that was saved, and the request's variables."""
    text: str = tokenizer.apply_chat_template(
        MESSAGES[:1],
        tools=TOOLS,
        chat_template=serving,
        tokenize=False,
        add_generation_prompt=True,
        **variables,
    )
    return text


@pytest.mark.parametrize("name", ["qwen3", "qwen3_5_think", "qwen3_5_nothink", "glm4moe"])
@pytest.mark.parametrize("thinking", [True, False])
def test_the_saved_template_has_the_thinking_setting(name: str, thinking: bool) -> None:
    tokenizer = byte_tokenizer(stock(name))
    saved = choose_templates(tokenizer, model(thinking=thinking)).serving
    for asked in (True, False):
        expected = served(tokenizer, tokenizer.chat_template, enable_thinking=asked)
        assert served(tokenizer, saved, enable_thinking=asked) == expected  # a request decides for itself
        assert (served(tokenizer, saved) == expected) >= (asked == thinking)


def test_a_prompt_that_ends_inside_of_a_token_is_refused() -> None:
    """Qwen3.5 opens a thought with one line end. Rows without thoughts have two there, which are one token."""
    tokenizer = byte_tokenizer(stock("qwen3_5_think"), merges=[("Ċ", "Ċ")])
    templates = choose_templates(tokenizer, model())
    with pytest.raises(
        TemplateSkewError, match=r"before messages\[1\] has other tokens .* model.thinking to false"
    ):
        check_templates(tokenizer, templates, [ROW])
    check_templates(tokenizer, templates, [Row("x:1", THOUGHT[:3], TOOLS)])
    check_templates(tokenizer, choose_templates(tokenizer, model(thinking=False)), [ROW])


def test_an_answer_that_begins_with_white_space_is_not_refused() -> None:
    tokenizer = byte_tokenizer(CHATML, merges=[("Ċ", "Ċ")])
    row = Row("x:1", [MESSAGES[0], {"role": "assistant", "content": "\nNobody."}], TOOLS)
    check_templates(tokenizer, choose_templates(tokenizer, model()), [row])


def test_plan_refuses_a_template_mismatch(tmp_path: Path) -> None:
    byte_tokenizer(FORGETFUL).save_pretrained(tmp_path / "tokenizer")
    data = tmp_path / "train.jsonl"
    data.write_text(json.dumps({"messages": MESSAGES, "tools": TOOLS}) + "\n")
    arguments = ["plan", "tiny-cpu", "--data", str(data), "--tokenizer", str(tmp_path / "tokenizer")]
    result = CliRunner().invoke(train, arguments)
    assert result.exception is None  # training drops the history's reasoning in the same way
    assert f"--data {data} --tokenizer {tmp_path / 'tokenizer'}\n" in result.stdout  # the start command

    template = tmp_path / "train.jinja"
    template.write_text(
        FORGETFUL.replace("{% if loop.last %}", "{% if true %}").replace(
            "{%- if loop.last %}", "{%- if true %}"
        )
    )
    arguments += ["--set", f"model.chat_template={template}", "--set", "model.serve_with=stock"]
    result = CliRunner().invoke(train, arguments)
    assert isinstance(result.exception, TemplateSkewError)
    assert f"{data}:1: the prompt that the server renders before messages[3]" in str(result.exception)


def test_plan_refuses_turns_without_an_end(tmp_path: Path) -> None:
    byte_tokenizer(CHATML.replace("<|im_end|>", ".")).save_pretrained(tmp_path / "tokenizer")
    row = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes."}]}
    data = tmp_path / "train.jsonl"
    data.write_text(json.dumps(row))
    arguments = ["plan", "tiny-cpu", "--data", str(data), "--tokenizer", str(tmp_path / "tokenizer")]
    result = CliRunner().invoke(train, arguments)
    assert isinstance(result.exception, WrongUseError)
    assert "no turn of the assistant ends with a special token" in str(result.exception)


def test_a_tokenizer_without_a_usable_template_is_refused(tmp_path: Path) -> None:
    plain = ("<|im_end|>",)  # no turn tokens
    with pytest.raises(WrongUseError, match="has no chat template"):
        choose_templates(byte_tokenizer(None, plain), model())
    with pytest.raises(WrongUseError, match="serve_with is stock"):
        choose_templates(byte_tokenizer(None), model(serve_with="stock"))
    blind = byte_tokenizer("{% for message in messages %}{{ message.content }}{% endfor %}", plain)
    with pytest.raises(WrongUseError, match=r"train.jsonl:7 has tools, but the chat template cannot show"):
        check_templates(blind, choose_templates(blind, model()), [ROW])
    with pytest.raises(WrongUseError, match="cannot read"):
        choose_templates(byte_tokenizer(CHATML), model(chat_template=str(tmp_path / "gone")))
    file = tmp_path / "mine.jinja"
    file.write_text(CHATML)
    made = choose_templates(byte_tokenizer(None), model(chat_template=str(file)))
    assert made == Templates(CHATML, CHATML)


def test_a_template_that_forgets_needs_marks() -> None:
    tokenizer = byte_tokenizer(unmarked(FORGETFUL))
    templates = choose_templates(tokenizer, model())
    with pytest.raises(TemplateSkewError, match=r"before messages\[1\]"):
        prepare([ROW], tokenizer, templates, 4096)


TURN_TOKENS = {
    "ChatML": (("<|im_start|>", "<|im_end|>"), "<|im_start|>system\nBe brief.\n\nCall tools with "),
    "Gemma": (("<start_of_turn>", "<end_of_turn>"), "<|im_end|><start_of_turn>user\nBe brief.\n\nCall tools"),
    "Llama": (
        ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        "<|im_end|><|start_header_id|>system<|end_header_id|>\n\nBe brief.\n\nCall tools with ",
    ),
}


@pytest.mark.parametrize("family", list(TURN_TOKENS))
@pytest.mark.parametrize("stock", [None, "{% for m in messages %}{{ m.content }}{% endfor %}"])
def test_a_model_without_tools_gets_signatures(family: str, stock: str | None) -> None:
    special, head = TURN_TOKENS[family]
    tokenizer = byte_tokenizer(stock, ("<|im_end|>", *special) if family != "ChatML" else special)
    tokenizer.bos_token = "<|im_end|>"
    templates = choose_templates(tokenizer, model())
    schema = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string"},
            "age": {"type": ["integer", "null"]},
            "kind": {"enum": ["lead", "partner"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "at": {"anyOf": [{"type": "object", "properties": {"x": {"type": "number"}}}, {"type": "null"}]},
        },
    }
    function = {"name": "find", "description": "Find a person.\nBy name.", "parameters": schema}
    row = Row("x:1", [{"role": "system", "content": "Be brief."}, *MESSAGES], [{"function": function}])
    text = templates.train_text(tokenizer, row)
    assert text.startswith(head)
    line = "find(name: str, age?: int|null, kind?: lead|partner, tags?: [str], at?: {x?: num}|null)"
    assert f"\n{line}: Find a person. By name." in text
    called = '<tool_call>\n{"name": "find", "arguments": {"name": "Ada", "old": false}}\n</tool_call>'
    assert f"{called}{special[-1]}" in text
    assert "<tool_response>\n[]\n</tool_response>" in text
    check_templates(tokenizer, templates, [row])
    parts = [{"type": "text", "text": message["content"]} for message in row.messages if "content" in message]
    as_parts = [{**message, "content": [part]} for message, part in zip(row.messages, parts, strict=False)]
    assert templates.train_text(tokenizer, Row("x:1", as_parts[:2], row.tools)) == templates.train_text(
        tokenizer, Row("x:1", row.messages[:2], row.tools)
    )


def test_a_template_that_fails_names_the_row() -> None:
    broken = "{{ raise_exception('no tools here') }}"
    with pytest.raises(
        BenchError, match=r"train.jsonl:7: the chat template fails on this row: no tools here"
    ):
        check_templates(byte_tokenizer(CHATML), Templates(broken, broken), [ROW])
