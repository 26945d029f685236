"""Training rows: malformed rows are named, dropped rows are counted, and no row is cut."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.data import NothingToTrainOnError, prepare
from mcp_bench.trainer.preference.pairs import Pair, prepare_pairs
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.rows import BrokenRowsError, Row, read_rows
from mcp_bench.trainer.sft.model import stop_tokens
from mcp_bench.trainer.templates import Templates, choose_templates
from tests.support.training.byte_tokenizers import CHATML, byte_tokenizer

pytestmark = pytest.mark.component

TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": {key: {}}}},
    }
    for name, key in (("find", "name"), ("update", "contact_id"))
]


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]}


GOOD: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "Who is Ada?"},
        call("find", name="Ada", limit=None),
        {"role": "tool", "tool_call_id": "c", "content": ""},
        {"role": "assistant", "content": "Nobody."},
    ],
    "tools": TOOLS,
    "partial": 1.0,
}


def write(path: Path, *rows: object) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_arguments_stay_as_recorded(tmp_path: Path) -> None:
    [row] = read_rows([write(tmp_path / "a.jsonl", "", GOOD)])
    assert row.messages == GOOD["messages"]
    assert row.tools == TOOLS
    assert row.place == f"{tmp_path / 'a.jsonl'}:2"


COMPRESS = pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])


@COMPRESS
def test_compressed_exports_are_read(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    plain = write(tmp_path / "plain.jsonl", "", GOOD, GOOD)
    packed = tmp_path / "packed"
    packed.write_bytes(compress(plain.read_bytes()))
    assert [(row.messages, row.tools) for row in read_rows([packed])] == [(GOOD["messages"], TOOLS)] * 2
    assert [row.place for row in read_rows([packed])] == [f"{packed}:2", f"{packed}:3"]


@COMPRESS
def test_a_truncated_compressed_file_is_reported(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    data = compress(write(tmp_path / "plain.jsonl", GOOD, GOOD).read_bytes())
    (tmp_path / "cut.jsonl").write_bytes(data[: len(data) // 2])
    with pytest.raises(WrongUseError, match=r"cannot read .*cut.jsonl"):
        read_rows([tmp_path / "cut.jsonl"])


BROKEN: list[tuple[object, str]] = [
    ("{", "Expecting property name"),
    ("[]", "a row must be an object"),
    ('{"messages": NaN}', "NaN is not JSON"),
    ({"prompt": "x", "completion": "y"}, "no messages (keys: prompt, completion)"),
    ({"messages": []}, "messages is empty"),
    ({"messages": "[]"}, "messages is not a list of objects, not a JSON string"),
    ({"messages": [{"role": "human", "content": "x"}]}, "messages[0]: role is 'human'"),
    ({"messages": [{"role": "user", "content": [1]}]}, "messages[0]: content is a list of parts"),
    ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "a tool call has no function.name"),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}]},
        "arguments of f is not an object",
    ),
    (
        {
            "messages": [
                call("find", name="Ada", contact_id=None),
                call("update", name=None, contact_id="7"),
            ],
            "tools": TOOLS,
        },
        "null arguments of other tools in a call of find (contact_id)",
    ),
]


def test_broken_rows_are_named_by_file_and_line(tmp_path: Path) -> None:
    files = [
        write(tmp_path / "one.jsonl", GOOD, *[row for row, _ in BROKEN[:5]]),
        write(tmp_path / "two.jsonl", *[row for row, _ in BROKEN[5:10]], GOOD),
    ]
    with pytest.raises(BrokenRowsError) as caught:
        read_rows(files)
    head, *lines = str(caught.value).splitlines()
    assert head == "10 broken rows:"
    places = [f"{files[0]}:{n}" for n in range(2, 7)] + [f"{files[1]}:{n}" for n in range(1, 6)]
    for line, place, (_, fault) in zip(lines, places, BROKEN[:10], strict=True):
        assert line.startswith(f"{place}: ")
        assert fault in line
    write(files[0], BROKEN[10][0])
    with pytest.raises(BrokenRowsError, match="null arguments of other tools in a call of find"):
        read_rows(files[:1])


@pytest.mark.parametrize("half", [b"\\ud83d", b"\xed\xa0\xbd"])
def test_a_row_with_half_a_character_is_named(tmp_path: Path, half: bytes) -> None:
    """No tokenizer takes it, with an error that names neither file nor line."""
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b'{"messages": [{"role": "user", "content": "%b"}]}\n' % half)
    with pytest.raises(BrokenRowsError, match=r"rows\.jsonl:1: half a character \('\\ud83d'\)"):
        read_rows([file])


def test_rows_that_arrow_wrote_are_named(tmp_path: Path) -> None:
    rows = [
        {"messages": [GOOD["messages"][0], call("find", name="Ada")], "tools": TOOLS},
        {"messages": [GOOD["messages"][0], call("update", contact_id="7")], "tools": TOOLS},
    ]
    Dataset.from_list(rows).to_json(tmp_path / "arrow.jsonl")
    with pytest.raises(
        BrokenRowsError, match=r"2 broken .*\n.* in the schema of find \(contact_id\): the file"
    ):
        read_rows([tmp_path / "arrow.jsonl"])


def test_an_agent_may_pass_a_null_of_another_tool(tmp_path: Path) -> None:
    odd = call("find", name="Ada", contact_id=None)
    for said in (
        [odd],
        [odd, call("find", name="Bob", contact_id=None)],
        [odd, call("update", contact_id="7")],
    ):
        [row] = read_rows([write(tmp_path / "a.jsonl", {"messages": said, "tools": TOOLS})])
        assert row.messages == said


def test_a_parquet_file_is_named_as_one(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_bytes(b"PAR1\xae")
    with pytest.raises(WrongUseError, match=r"rows.parquet is Parquet, .* a name with .jsonl"):
        read_rows([tmp_path / "rows.parquet"])


def test_empty_and_missing_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(WrongUseError, match=r"no row in .*empty.jsonl"):
        read_rows([write(tmp_path / "empty.jsonl")])
    with pytest.raises(WrongUseError, match=r"cannot read .*gone.jsonl: No such file"):
        read_rows([tmp_path / "gone.jsonl"])


@given(st.binary(max_size=60))
def test_no_line_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, line: bytes) -> None:
    file = tmp_path_factory.mktemp("rows") / "x.jsonl"
    file.write_bytes(line)
    try:
        rows = read_rows([file])
    except BenchError as error:
        assert str(file) in str(error)
    else:
        assert all(row.messages for row in rows)


TEMPLATES = Templates(training=CHATML, serving=CHATML)


def row(*messages: dict[str, Any], tools: list[dict[str, Any]] | None = None) -> Row:
    return Row("x.jsonl:1", list(messages), tools)


def test_only_assistant_tokens_are_trained_on() -> None:
    tokenizer = byte_tokenizer(CHATML)
    prepared = prepare([row(*GOOD["messages"], tools=TOOLS)], tokenizer, TEMPLATES, 4096)
    [example] = prepared.examples
    trained = [token for token, flag in zip(example.tokens, example.trained, strict=True) if flag]
    assert tokenizer.decode(trained) == (
        '<tool_call>find {"name": "Ada", "limit": null}</tool_call><|im_end|>\nNobody.<|im_end|>\n'
    )
    assert [label for label in example.labels() if label != -100] == trained
    assert prepared.trained_tokens == len(trained)
    assert prepared.tokens == prepared.longest == len(example.tokens)
    assert tokenizer.decode(example.tokens) == TEMPLATES.train_text(
        tokenizer, row(*GOOD["messages"], tools=TOOLS)
    )


def test_dropped_rows_are_counted() -> None:
    tokenizer = byte_tokenizer(CHATML)
    question = {"role": "user", "content": "Hi"}
    rows = [
        Row("x:1", [question, {"role": "assistant", "content": "Yes."}], None),
        Row("x:2", [question], None),
        Row("x:3", [question, {"role": "assistant", "content": "y" * 500}], None),
    ]
    length = len(prepare(rows[:1], tokenizer, TEMPLATES, 4096).examples[0].tokens)
    prepared = prepare(rows, tokenizer, TEMPLATES, length)
    assert [example.place for example in prepared.examples] == ["x:1"]
    assert prepared.untrainable == ["x:2"]
    [(place, tokens)] = prepared.too_long
    assert (place, tokens > 500) == ("x:3", True)
    with pytest.raises(NothingToTrainOnError, match=rf"2 are over .*the shortest has {length}\), 1 have no"):
        prepare(rows, tokenizer, TEMPLATES, length - 1)


DESCRIBED = [
    {
        "type": "function",
        "function": {
            **tool["function"],
            "description": "",
            "parameters": {"type": "object", "properties": {}},
        },
    }
    for tool in TOOLS
]


def gpt_oss() -> tuple[Any, Templates]:
    template = (resources.files("trl") / "chat_templates" / "gptoss.jinja").read_text(encoding="utf-8")
    names = ("return", "call", "start", "end", "channel", "message", "constrain")
    tokenizer = byte_tokenizer(template, ("<|endoftext|>", "<|im_end|>", *(f"<|{name}|>" for name in names)))
    return tokenizer, choose_templates(tokenizer, load_recipe("tiny-cpu")[1].model)


def test_rows_with_calls_that_the_template_drops_are_left_out() -> None:
    """gpt-oss's renders only the first call of a turn; CHATML renders all."""
    tokenizer, templates = gpt_oss()
    question, one, result, answer = GOOD["messages"]
    two = {**one, "tool_calls": [*one["tool_calls"], *call("update", contact_id=7)["tool_calls"]]}
    both = row(question, two, result, result, answer, tools=DESCRIBED)
    prepared = prepare([both, row(*GOOD["messages"], tools=DESCRIBED)], tokenizer, templates, 4096)
    assert len(prepared.examples) == 1 and prepared.unshown == ["x.jsonl:1"]
    assert prepare([both], byte_tokenizer(CHATML), TEMPLATES, 4096).unshown == []
    with pytest.raises(NothingToTrainOnError, match="1 have calls that the chat template leaves out"):
        prepare([both], tokenizer, templates, 4096)
    with pytest.raises(NothingToTrainOnError, match="1 have calls that the chat template leaves out"):
        prepare_pairs([Pair(row(*GOOD["messages"], tools=DESCRIBED), both)], tokenizer, templates, 4096)


def test_a_token_within_turns_ends_no_answer() -> None:
    """In gpt-oss's, `<|end|>` ends a thought, and the answer to an earlier user turn."""
    tokenizer, templates = gpt_oss()
    question, one, result, answer = GOOD["messages"]
    thought = {**one, "thinking": "Look."}
    rows = [row(question, answer, question, answer), row(question, thought, result, tools=DESCRIBED)]
    prepared = prepare(rows, tokenizer, templates, 4096)
    stops = stop_tokens(prepared.examples, tokenizer)
    assert {tokenizer.decode([token]) for token in stops} == {"<|return|>", "<|call|>"}
    chat = byte_tokenizer(CHATML)  # a text with the token of its end in it
    odd = [row(question, {**answer, "content": "a<|im_end|>b"})]
    stops = stop_tokens(prepare(odd, chat, TEMPLATES, 4096).examples, chat)
    assert {chat.decode([token]) for token in stops} == {"<|im_end|>"}


def test_a_plan_with_a_tokenizer_counts_tokens(tmp_path: Path) -> None:
    byte_tokenizer(CHATML).save_pretrained(tmp_path / "tokenizer")
    long = {"messages": [{"role": "user", "content": "z" * 2000}, {"role": "assistant", "content": "Yes."}]}
    data = write(
        tmp_path / "train.jsonl", *[GOOD] * 17, long, {"messages": [{"role": "user", "content": "Hi"}]}
    )
    over = ["--set", "training.epochs=4", "--set", "training.sequences_per_device=16"]
    arguments = ["plan", "tiny-cpu", *over, "--data", str(data), "--tokenizer", str(tmp_path / "tokenizer")]
    result = CliRunner().invoke(train, [*arguments, "--json"])
    assert result.exit_code == 0, result.exception
    plan = json.loads(result.stdout)
    assert (plan["rows"], plan["steps"]) == (17, 8)
    assert plan["data"]["tokens"] == 17 * plan["data"]["longest"]
    assert [dropped["place"] for dropped in plan["data"]["too_long"]] == [f"{data}:18"]
    assert plan["data"]["untrainable"] == [f"{data}:19"]
    shown = CliRunner().invoke(train, arguments).stdout
    assert f"too long    1 dropped: {data}:18 (" in shown
    assert f"untrainable 1 dropped: {data}:19" in shown

    result = CliRunner().invoke(train, [*arguments[:-1], str(tmp_path)])
    assert isinstance(result.exception, WrongUseError)
    assert "no tokenizer in" in str(result.exception)


def test_a_plan_counts_masked_tokens(tmp_path: Path) -> None:
    byte_tokenizer(CHATML).save_pretrained(tmp_path / "tokenizer")
    failed = {"role": "tool", "tool_call_id": "c", "content": "no such argument", "is_error": True}
    question, *rest = GOOD["messages"]
    row = {**GOOD, "messages": [question, call("find", nome="Ada"), failed, *rest]}
    data = write(tmp_path / "train.jsonl", row)
    arguments = ["plan", "tiny-cpu", "--data", str(data), "--tokenizer", str(tmp_path / "tokenizer")]
    masking = [*arguments, "--set", "data.failed_calls=mask"]
    whole, masked = (
        json.loads(CliRunner().invoke(train, [*asked, "--json"]).stdout)["data"]
        for asked in (arguments, masking)
    )
    assert whole["masked_tokens"] == 0
    assert masked["masked_tokens"] == whole["trained_tokens"] - masked["trained_tokens"] > 0
    assert f"masked      {masked['masked_tokens']} tokens" in CliRunner().invoke(train, masking).stdout
    assert "\nmasked" not in CliRunner().invoke(train, arguments).stdout
