"""Calls that real templates render are read back, and the grammars accept them."""

from __future__ import annotations

import json
import time
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mcp_bench.trainer.chat.answer import Answer, Call
from mcp_bench.trainer.chat.calls import AnswerParser, find_format
from mcp_bench.trainer.engine.constraint import Constraint, Grammars
from tests.support.training.byte_tokenizers import byte_tokenizer
from tests.support.training.tiny_checkpoints import template

pytestmark = pytest.mark.unit

THINK = ("<think>", "</think>")
CALL = ("<tool_call>", "</tool_call>")
CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
HARMONY = ("<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|return|>", "<|call|>")
GLM = (
    "<|assistant|>",
    "<|user|>",
    "<|observation|>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
)
# Mistral's two forms; TRL ships none of its templates
LISTED = """\
{%- for m in messages %}{%- if m.role == 'user' %}{{ '[INST]' + m.content + '[/INST]' }}
{%- elif m.tool_calls %}{{ m.content or '' }}[TOOL_CALLS] [{% for c in m.tool_calls %}
{{- '{"name": "' + c.function.name + '", "arguments": ' + c.function.arguments | tojson + '}' }}
{%- if not loop.last %}, {% endif %}{% endfor %}]{{ '</s>' }}
{%- else %}{{ m.content + '</s>' }}{% endif %}{% endfor %}"""
NAMED = """\
{%- for m in messages %}{%- if m.role == 'user' %}{{ '[INST]' + m.content + '[/INST]' }}
{%- elif m.tool_calls %}{{ m.content or '' }}{% for c in m.tool_calls %}
{{- '[TOOL_CALLS]' + c.function.name + '[ARGS]' + c.function.arguments | tojson }}{% endfor %}{{ '</s>' }}
{%- else %}{{ m.content + '</s>' }}{% endif %}{% endfor %}"""
MISTRAL = ("</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[ARGS]")

# name: form, reasoning, template, special tokens, ends of an answer, calls in one answer
FAMILIES: dict[str, tuple[str, str | None, str, tuple[str, ...], tuple[str, ...], int]] = {
    "qwen2.5": ("hermes", None, "qwen2_5", CHATML + CALL, ("<|im_end|>",), 3),
    "qwen3": ("hermes", "qwen3", "qwen3", CHATML + CALL + THINK, ("<|im_end|>",), 3),
    "qwen3.5": ("qwen3_coder", "qwen3", "qwen3_5_think", CHATML + CALL + THINK, ("<|im_end|>",), 3),
    "llama3": ("llama3_json", None, "llama3_1", ("<|eot_id|>", "<|python_tag|>"), ("<|eot_id|>",), 1),
    "mistral": ("mistral", None, LISTED, MISTRAL, ("</s>",), 1),
    "mistral-v11": ("mistral", None, NAMED, MISTRAL, ("</s>",), 3),
    "gpt-oss": ("openai", "openai_gptoss", "gptoss", HARMONY, ("<|return|>", "<|call|>"), 1),
    "glm": ("glm45", "glm45", "glm4moe", GLM + CALL + THINK, ("<|user|>", "<|observation|>"), 3),
}


@cache
def family(name: str) -> tuple[Any, AnswerParser, Grammars, tuple[str, ...]]:
    form, reasoning, source, special, ends, _ = FAMILIES[name]
    text = source if "{" in source else template(source)
    tokenizer = byte_tokenizer(text, special)
    parser = AnswerParser(find_format(form, text), reasoning)
    ids = [tokenizer.convert_tokens_to_ids(end) for end in ends]
    return tokenizer, parser, Grammars(tokenizer, len(tokenizer), ids, parser), ends


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=8)
TEXTS = st.lists(WORDS.filter(lambda word: "<" not in word and "[" not in word), min_size=1, max_size=3)
NUMBERS = st.integers(-9999, 9999)
SCHEMAS: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = [
    ({"type": "string"}, TEXTS.map(" ".join)),
    ({"type": "integer"}, NUMBERS),
    ({"type": "boolean"}, st.booleans()),
    ({"type": "string", "enum": ["low", "high"]}, st.sampled_from(["low", "high"])),
    ({"type": "array", "items": {"type": "integer"}}, st.lists(NUMBERS, max_size=3)),
    ({"type": "object", "properties": {"q": {"type": "string"}}}, st.fixed_dictionaries({"q": WORDS})),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, st.one_of(NUMBERS, st.none())),
]


@st.composite
def conversations(draw: st.DrawFn, most: int) -> tuple[list[dict[str, Any]], list[Call], str]:
    """Return tools, calls of them that fit their schemas, and the text before the calls."""
    tools, values = [], {}
    for name in draw(
        st.lists(st.sampled_from(["find", "mail.send", "crm-add_note"]), min_size=1, unique=True)
    ):
        chosen = draw(st.lists(st.sampled_from(range(len(SCHEMAS))), max_size=4, unique=True))
        required = [f"key_{number}" for number in chosen if draw(st.booleans())]
        properties = {f"key_{number}": SCHEMAS[number][0] for number in chosen}
        schema = {"type": "object", "properties": properties, "required": required}
        tools.append(
            {"type": "function", "function": {"name": name, "description": "D.", "parameters": schema}}
        )
        values[name] = (chosen, required)
    calls = []
    for _ in range(draw(st.integers(1, most))):
        name = draw(st.sampled_from(sorted(values)))
        chosen, required = values[name]
        order = draw(st.permutations(chosen))
        kept = [number for number in order if f"key_{number}" in required or draw(st.booleans())]
        calls.append(Call(name, {f"key_{number}": draw(SCHEMAS[number][1]) for number in kept}))
    return tools, calls, draw(st.one_of(st.just(""), TEXTS.map(" ".join)))


def written(
    tokenizer: Any, ends: tuple[str, ...], message: dict[str, Any], tools: list[Any]
) -> tuple[str, str]:
    """Return the end of the prompt and the answer, as the family's template renders them."""
    question = [{"role": "user", "content": "Do it."}]
    render: Any = tokenizer.apply_chat_template
    prompt = render(question, tools=tools, tokenize=False, add_generation_prompt=True)
    # a next turn, since GLM's template ends an answer with the next role
    whole = render([*question, message], tools=tools, tokenize=False)
    assert whole.startswith(prompt)
    answer = whole[len(prompt) :]
    at = min((at for end in ends if (at := answer.find(end)) >= 0), default=len(answer))
    return prompt, answer[:at]


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_rendered_calls_are_read_and_accepted(name: str, data: st.DataObject) -> None:
    tokenizer, parser, grammars, ends = family(name)
    tools, calls, text = data.draw(conversations(FAMILIES[name][5]))
    said = "" if name in ("llama3", "gpt-oss") else text  # their templates drop text before a call
    listed = [{"type": "function", "function": {"name": c.name, "arguments": c.arguments}} for c in calls]
    message = {"role": "assistant", "content": said, "tool_calls": listed}
    prompt, answer = written(tokenizer, ends, message, tools)
    opened = parser.opened(prompt)
    parts = parser.parse(answer, tools, opened=opened)
    assert (parts.content.strip(), list(parts.calls)) == (said, calls)
    # what a stream sends early is the beginning of what it sends in the end
    for at in range(0, len(answer) + 1, 5):
        reasoning, content = parser.certain(answer[:at], tools, opened=opened)
        assert (parts.reasoning or "").startswith(reasoning) and parts.content.startswith(content)
    if not parser.thinking(answer, opened=opened):
        accept(tokenizer, Constraint(grammars, tools, required=False, opened=opened), answer, ends[-1])
    if not said and not (parts.reasoning and not parser.thinks):
        accept(tokenizer, Constraint(grammars, tools, required=True, opened=opened), answer, ends[-1])


def accept(tokenizer: Any, constraint: Constraint, answer: str, end: str) -> None:
    """Check that a constraint allows each token of an answer, and then its end."""
    before = ""
    ids = tokenizer(answer, add_special_tokens=False)["input_ids"]
    for number, token in enumerate(ids):
        allowed = constraint.allowed(len(tokenizer))
        after = tokenizer.decode(ids[: number + 1])
        assert allowed is None or bool(allowed[token]), (before, tokenizer.decode([token]))
        assert constraint.take(token, before, after)
        before = after
    allowed = constraint.allowed(len(tokenizer))
    assert allowed is not None and bool(allowed[tokenizer.convert_tokens_to_ids(end)])


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=40, deadline=None)
@given(parts=st.lists(st.sampled_from([
    "<tool_call>", "</tool_call>", "<function=find>", "</function>", "<parameter=a>", "</parameter>", "find",
    "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", '{"name": "find", "arguments": {}}', "{", "}", '"',
    "[TOOL_CALLS]", "[ARGS]", "[", "<think>", "</think>", "\n", " ", "NaN", "text", "<|channel|>", "analysis",
    "<|message|>", "to=functions.find", "<|start|>", "assistant", "<|end|>", ";", "<tool",
]), max_size=9))  # fmt: skip
@example(parts=["<|start|>", "<|message|>", "<|start|>"])
def test_no_text_is_an_error(name: str, parts: list[str]) -> None:
    """Whatever a model writes is an answer, and a stream of it is consistent."""
    _, parser, _, _ = family(name)
    text, tools = "".join(parts), [{"function": {"name": "find"}}]
    whole = parser.parse(text, tools)
    for at in range(len(text) + 1):
        reasoning, content = parser.certain(text[:at], tools)
        assert whole.content.startswith(content) and (whole.reasoning or "").startswith(reasoning)


def test_a_malformed_call_is_text() -> None:
    tools = [{"function": {"name": "find"}}]
    for form, text in (
        ("hermes", 'Look.\n<tool_call>{"name": "find", "arguments": {"a": }}</tool_call>'),
        ("hermes", '<tool_call>{"name": "find", "arguments": {"a": 1}'),
        ("hermes", '<tool_call>{"arguments": {}}</tool_call>'),
        ("qwen3_coder", "<tool_call><function=find><parameter=a>1</function></tool_call>"),
        ("glm45", "<tool_call>find<arg_key>a</arg_key></tool_call>"),
        ("llama3_json", '{"name": "find", "parameters": [1]}'),
        ("mistral", "[TOOL_CALLS]find[ARGS]{"),
        # JSON that no answer can carry: half a character, and a number beyond all
        ("hermes", r'<tool_call>{"name": "find", "arguments": {"a": "\ud83d"}}</tool_call>'),
        ("hermes", '<tool_call>{"name": "find", "arguments": {"a": 1e999}}</tool_call>'),
        ("llama3_json", r'{"name": "\udc00", "parameters": {}}'),
    ):
        assert AnswerParser(find_format(form), None).parse(text, tools) == Answer(text)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("glm45", "<tool_call>find\n<arg_key>a</arg_key>\n<arg_value>" + " " * 60_000 + "x"),
        ("glm45", "<tool_call>find\n" + "<arg_key>a" * 12_000 + "</tool_call>"),
        ("qwen3_coder", "<tool_call>\n<function=find>\n" + "<parameter=a>" * 12_000 + "</function>"),
    ],
)
def test_a_long_answer_that_repeats_itself_is_read_at_once(form: str, text: str) -> None:
    """Meanwhile nobody else is answered. With each character looked at again for each, it takes a minute."""
    begun = time.process_time()
    assert AnswerParser(find_format(form), None).parse(text, find_tool({})) == Answer(text)
    assert time.process_time() - begun < 3


PLACES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "at": {"$ref": "#/$defs/Place"},
        "count": {"allOf": [{"$ref": "#/$defs/Count"}], "default": 1},
        "near": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}]},
        "name": {"$ref": "#/$defs/Name"},
        "odd": {"$ref": "#/$defs/Odd"},
        "lost": {"$ref": "#/$defs/Lost"},
    },
    "$defs": {
        "Place": {"type": "object", "properties": {"x": {"type": "integer"}}},
        "Count": {"type": "integer"},
        "Name": {"type": "string", "enum": ["Ada", "Ben"]},
        "Odd": {"anyOf": [{"$ref": "#/$defs/Odd"}, {"type": "boolean"}]},
    },
}
PLACED = {"at": {"x": 1}, "count": 2, "near": None, "name": "Ada", "odd": True, "lost": "1"}
TAGGED = {
    "qwen3.5": ("<tool_call>\n<function=find>\n", "<parameter={}>\n{}\n</parameter>\n", "</function>\n</tool_call>"),
    "glm": ("<tool_call>find", "\n<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>", "\n</tool_call>"),
}  # fmt: skip


def tagged(name: str, arguments: dict[str, Any]) -> str:
    opening, one, closing = TAGGED[name]
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in arguments.items()}
    return opening + "".join(one.format(key, text) for key, text in texts.items()) + closing


def find_tool(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": "find", "parameters": schema}}]


@pytest.mark.parametrize("name", TAGGED)
def test_arguments_have_the_types_that_their_schemas_refer_to(name: str) -> None:
    tokenizer, parser, grammars, ends = family(name)
    tools, answer = find_tool(PLACES), tagged(name, PLACED)
    assert parser.parse(answer, tools).calls == (Call("find", PLACED),)
    accept(tokenizer, Constraint(grammars, tools, required=True), answer, ends[-1])
    other = tagged(name, {"name": "Eve"})
    with pytest.raises(AssertionError, match="'E'"):  # the list of names is behind a reference
        accept(tokenizer, Constraint(grammars, tools, required=True), other, ends[-1])


LEVEL: dict[str, Any] = {"type": "string", "enum": ["low", "high"]}
NULL = {"type": "null"}


@pytest.mark.parametrize("name", TAGGED)
@pytest.mark.parametrize(
    ("schema", "good"),
    [
        ({"anyOf": [LEVEL, NULL], "default": None}, ["low", None]),  # as pydantic writes Optional[Literal]
        ({"anyOf": [{"$ref": "#/$defs/Level"}, NULL]}, ["high", None]),
        ({"oneOf": [{"const": "low"}, {"const": "high"}]}, ["low", "high"]),
        ({"allOf": [{"$ref": "#/$defs/Level"}], "description": "D."}, ["high"]),
        ({"enum": ["low", 7, None]}, ["low", 7, None]),
        ({"const": 5}, [5]),
        ({"enum": ["", "low"]}, ["", "low"]),
        ({"anyOf": [LEVEL, {"type": "integer"}]}, ["low", 7]),
    ],
)
def test_choices_are_held_wherever_the_schema_has_them(
    name: str, schema: dict[str, Any], good: list[Any]
) -> None:
    tokenizer, parser, grammars, ends = family(name)
    tools = find_tool({"properties": {"a": schema}, "$defs": {"Level": LEVEL}})
    for value in good:
        answer = tagged(name, {"a": value})
        assert parser.parse(answer, tools).calls == (Call("find", {"a": value}),)
        accept(tokenizer, Constraint(grammars, tools, required=True), answer, ends[-1])
    with pytest.raises(AssertionError, match="'z'"):
        accept(tokenizer, Constraint(grammars, tools, required=True), tagged(name, {"a": "zzz"}), ends[-1])


def test_a_string_ends_where_it_is_read_to_end() -> None:
    """A model that leaves out the line break before the end of a string is still held to the schema."""
    tokenizer, parser, grammars, ends = family("qwen3.5")
    tools = find_tool({"properties": {"q": {"type": "string"}, "n": {"type": "integer"}}})
    opening, _, closing = TAGGED["qwen3.5"]
    for q in ("a", "", "a\n\n", "1 < 2 </p>"):
        answer = f"{opening}<parameter=q>\n{q}</parameter>\n<parameter=n>\n5\n</parameter>\n{closing}"
        assert parser.parse(answer, tools).calls == (Call("find", {"q": q.removesuffix("\n"), "n": 5}),)
        accept(tokenizer, Constraint(grammars, tools, required=True), answer, ends[-1])
    for rest in ("\n<parameter=n>\nmany", "\n<parameter=nonsense>\n1", " here"):
        answer = f"{opening}<parameter=q>\na</parameter>{rest}\n</parameter>\n{closing}"
        with pytest.raises(AssertionError, match="</parameter>"):
            accept(tokenizer, Constraint(grammars, tools, required=True), answer, ends[-1])


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("name", TAGGED)
def test_answers_with_the_same_tools_are_matched_apart(name: str, required: bool) -> None:
    tokenizer, _, grammars, ends = family(name)
    one, other = (Constraint(grammars, find_tool(PLACES), required=required) for _ in range(2))
    answer, before = tagged(name, PLACED), ""
    for token in tokenizer(answer, add_special_tokens=False)["input_ids"][:-3]:
        after = before + tokenizer.decode([token])
        assert one.take(token, before, after)
        before = after
    accept(tokenizer, other, answer, ends[-1])


@pytest.mark.parametrize("name", TAGGED)
def test_a_tool_with_very_many_parameters_has_a_grammar(name: str) -> None:
    tokenizer, _, grammars, ends = family(name)
    properties = {f"key_{number}": {"type": "integer"} for number in range(70)}
    constraint = Constraint(grammars, find_tool({"type": "object", "properties": properties}), required=True)
    accept(tokenizer, constraint, tagged(name, {"key_69": 1, "key_2": 3}), ends[-1])


def test_arguments_of_a_schema_without_a_grammar_are_an_object() -> None:
    tokenizer, _, grammars, _ = family("qwen3")
    tools = find_tool({"properties": {"a": {"type": "string"}}, "minProperties": 1})
    constraint, before = Constraint(grammars, tools, required=True), ""
    text = '<tool_call>\n{"name": "find", "arguments": '
    for token in tokenizer(text, add_special_tokens=False)["input_ids"]:
        after = before + tokenizer.decode([token])
        assert constraint.take(token, before, after)
        before = after
    allowed = constraint.allowed(len(tokenizer))
    assert allowed is not None
    assert [tokenizer.decode([token]) for token in allowed.nonzero().flatten().tolist()] == ["{"]


@pytest.mark.parametrize(
    ("schema", "free"),
    [
        (None, False),
        ({"type": "object", "properties": {}}, False),
        ({"type": "object", "properties": {}, "additionalProperties": False}, False),
        ({"type": "object", "properties": {}, "additionalProperties": True}, True),
        ({"type": "object"}, True),
    ],
)
def test_a_tool_without_parameters_gets_none(schema: dict[str, Any] | None, free: bool) -> None:
    tokenizer, _, grammars, ends = family("qwen3")
    tools: list[dict[str, Any]] = [{"type": "function", "function": {"name": "now", "parameters": schema}}]
    call = '<tool_call>\n{"name": "now", "arguments": %s}\n</tool_call>'
    accept(tokenizer, Constraint(grammars, tools, required=True), call % "{}", ends[-1])
    other = Constraint(grammars, tools, required=True)
    if free:
        accept(tokenizer, other, call % '{"a": 1}', ends[-1])
    else:
        with pytest.raises(AssertionError):
            accept(tokenizer, other, call % '{"a": 1}', ends[-1])


def test_a_call_that_llguidance_gives_up_ends_the_answer() -> None:
    """As at a limit of its own. The rest would be free, and the call need not fit."""
    tokenizer, _, grammars, ends = family("qwen3")
    constraint = Constraint(grammars, find_tool({}), required=True)
    [wrong] = tokenizer("x", add_special_tokens=False)["input_ids"]
    assert constraint.take(wrong, "", "x")
    allowed = constraint.allowed(len(tokenizer))
    assert allowed is not None
    assert [tokenizer.decode([token]) for token in allowed.nonzero().flatten().tolist()] == list(ends)


def test_reasoning_is_kept_apart() -> None:
    parser = AnswerParser(find_format("hermes"), "qwen3")
    call = '<tool_call>\n{"name": "find", "arguments": {}}\n</tool_call>'
    tools = [{"function": {"name": "find"}}]
    read = parser.parse(f"<think>\nHm, {call}?\n</think>\n\nYes.\n{call}", tools)
    assert read == Answer("Yes.", f"Hm, {call}?", (Call("find", {}),))
    assert parser.parse("so\n</think>\n\nYes.", tools, opened=True) == Answer("Yes.", "so")
    assert parser.parse("No thought.", tools) == Answer("No thought.")
    without = AnswerParser(find_format("hermes"), None)
    assert without.parse("<think>x</think>y", tools) == Answer("<think>x</think>y")
    harmony = AnswerParser(find_format("openai"), "openai_gptoss")
    chain = (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>"
    )
    assert harmony.parse(chain, tools) == Answer("Yes.", "Hm.")
    called = (
        "<|channel|>commentary to=functions.find <|constrain|>json<|message|>"
        + json.dumps({"a": 1})
        + "<|call|>"
    )
    assert harmony.parse(called, tools) == Answer("", None, (Call("find", {"a": 1}),))
