"""A tool's property may refer to another property, and to the whole schema that it is part of."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_bench.trainer.chat.answer import Call
from mcp_bench.trainer.chat.calls import AnswerParser, find_format
from mcp_bench.trainer.engine.constraint import Constraint, Grammars
from tests.support.training.byte_tokenizers import byte_tokenizer

pytestmark = pytest.mark.unit

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "other": {"$ref": "#/properties/size/anyOf/0"},  # as zod's converter refers to what it wrote before
        "parent": {"$ref": "#"},
        "below": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
    },
    "$defs": {"Node": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
}
TOOLS = [{"type": "function", "function": {"name": "find", "parameters": SCHEMA}}]
GOOD = {"size": None, "other": 2, "parent": {"other": 3}, "below": [{"below": [None]}]}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"other": None}, "n"),
    ({"parent": 7}, "7"),
    ({"below": [7]}, "7"),
]


def written(form: str, arguments: dict[str, Any]) -> str:
    """Return a call as models write it."""
    texts = {key: json.dumps(value) for key, value in arguments.items()}
    if form == "hermes":
        call = json.dumps({"name": "find", "arguments": arguments})
        return f"<tool_call>{call}</tool_call>"
    if form == "glm45":
        each = [f"\n<arg_key>{key}</arg_key>\n<arg_value>{text}</arg_value>" for key, text in texts.items()]
        return f"<tool_call>find{''.join(each)}\n</tool_call>"
    each = [f"<parameter={key}>\n{text}\n</parameter>\n" for key, text in texts.items()]
    return f"<tool_call>\n<function=find>\n{''.join(each)}</function>\n</tool_call>"


@pytest.mark.parametrize("form", ["hermes", "qwen3_coder", "glm45"])
def test_calls_are_read_and_held_by_what_their_schemas_refer_to(form: str) -> None:
    tokenizer = byte_tokenizer("", ("<|im_end|>",))
    parser = AnswerParser(find_format(form), None)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    grammars = Grammars(tokenizer, len(tokenizer), [end], parser)

    def refused(text: str) -> str | None:
        """Return the character that a constraint does not allow."""
        constraint = Constraint(grammars, TOOLS, required=True)
        for number, character in enumerate(text):
            for token in tokenizer(character, add_special_tokens=False)["input_ids"]:
                allowed = constraint.allowed(len(tokenizer))
                if allowed is not None and not allowed[token]:
                    return character
                constraint.take(token, text[:number], text[: number + 1])
        return None

    assert parser.parse(written(form, GOOD), TOOLS).calls == (Call("find", GOOD),)
    assert refused(written(form, GOOD)) is None
    assert [refused(written(form, arguments)) for arguments, _ in WRONG] == [at for _, at in WRONG]
