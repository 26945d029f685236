"""Redaction finds every secret and address, distinguishes them, and changes nothing else."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.curation.redaction import redact
from mcp_bench.recorder.trajectory import FunctionCall, Message, ToolCall, Trajectory
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.component

X, D = "aB3" * 30, "7" * 40
SECRETS = [
    "sk-" + X[:40],
    "sk-ant-api03-" + X[:60],
    "sk_live_" + X[:24],
    "ghp_" + X[:36],
    "github_pat_" + X[:40],
    "glpat-" + X[:20],
    "AKIA" + "ABCD2345" * 2,
    "AIza" + X[:35],
    "xoxb-" + D[:12] + "-" + X[:12],
    "hf_" + X[:34],
    "npm_" + X[:36],
    "pypi-" + X[:60],
    "SG." + X[:22] + "." + X[:43],
    ".".join(["eyJ" + X[:20], "eyJ" + X[:30], X[:40]]),
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----",
]


def trajectory(*texts: str, arguments: dict[str, Any] | None = None) -> Trajectory:
    call = ToolCall(id="c1", function=FunctionCall(name="send", arguments=arguments or {}))
    return Trajectory(
        id="ep", benchmark="b", task="t", split="train", domain="d", agent="x", seed=0, isolation="none", tools=[],
        messages=[
            Message(role="assistant", tool_calls=[call]),
            *(Message(role="user", content=text, reasoning=text) for text in texts),
        ],
    )  # fmt: skip


def redacted(*texts: str, kinds: tuple[str, ...] = ("secrets",)) -> list[str]:
    messages = redact([trajectory(*texts)], kinds)[0].messages[1:]
    assert [message.reasoning for message in messages] == [message.content for message in messages]
    return [message.content or "" for message in messages]


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret[:12])
def test_a_key_is_found_in_any_text(secret: str) -> None:
    in_json = json.dumps({"log": f"line\n{secret}\tend"})
    assert redacted(f"use {secret}, please", in_json, f"({secret})", secret) == [
        "use [SECRET_1], please",
        # a key with characters that JSON escapes is a different text
        in_json.replace(json.dumps(secret)[1:-1], "[SECRET_2]" if "\n" in secret else "[SECRET_1]"),
        "([SECRET_1])",
        "[SECRET_1]",
    ]


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("Authorization: Bearer abcdefgh12345678", "Authorization: Bearer [SECRET_1]"),
        (
            "curl -u x postgres://root:hunter2@db.example/x",
            "curl -u x postgres://root:[SECRET_1]@db.example/x",
        ),
        ("DB_PASSWORD=hunter22 make", "DB_PASSWORD=[SECRET_1] make"),
        ('{"client_secret": "oh", "n": 1}', '{"client_secret": "[SECRET_1]", "n": 1}'),
        ('{"body": "{\\"apiKey\\": \\"a1b2c3\\"}"}', '{"body": "{\\"apiKey\\": \\"[SECRET_1]\\"}"}'),
        ("access_token: 12ab34cd", "access_token: [SECRET_1]"),
        ("old_db-password=hunter22, _api_key=abc123", "old_db-password=[SECRET_1], _api_key=[SECRET_2]"),
        ("dbPassword: hunter22 clientSecret=abc123", "dbPassword: [SECRET_1] clientSecret=[SECRET_2]"),
        ("PASSWORD='correct horse 9' make", "PASSWORD='[SECRET_1]' make"),
        ("PASSWORD='hunter22 to\nthe end", "PASSWORD='[SECRET_1]\nthe end"),
        ('{"token": "abc", "page_token": "def"}', '{"token": "[SECRET_1]", "page_token": "def"}'),
        ('{"password": "cut off at', '{"password": "[SECRET_1]'),
        ("{'password': 'it is', 'n': 1}", "{'password': '[SECRET_1]', 'n': 1}"),
        ('{"secret": "", "n": "x"}', '{"secret": "", "n": "x"}'),
    ],
)
def test_a_value_is_found_by_its_context(text: str, after: str) -> None:
    assert redacted(text) == [after]


VALUES = ["correct horse battery staple", "ab'cdEF123456", "p@ss\\word99", 'say "hi" \\', "a\nb\tc", "\\"]


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("value", VALUES)
def test_a_quoted_value_is_found_to_its_end(value: str, depth: int) -> None:
    """JSON, JSON in a string of JSON, and once more."""
    document: Any = {"password": value, "name": "ann"}
    expected: Any = {"password": "[SECRET_1]", "name": "ann"}
    for _ in range(depth):
        document, expected = {"body": json.dumps(document)}, {"body": json.dumps(expected)}
    assert redacted(document["body"], json.dumps(document)) == [
        expected["body"],
        # more escapes make another text, unless there are none
        json.dumps(expected).replace("SECRET_1", "SECRET_2" if '"' in value or "\\" in json.dumps(value) else "SECRET_1"),
    ]  # fmt: skip


@pytest.mark.parametrize("number", [4821337790, 7, -1.5, 2.5e30])
def test_a_number_is_a_secret_where_its_name_says_so(number: float) -> None:
    document = {"secret": number, "n": 9}
    text = json.dumps(document)
    found, nested = redacted(text, json.dumps({"body": text}))
    assert json.loads(found) == json.loads(json.loads(nested)["body"]) == {"secret": "[SECRET_1]", "n": 9}
    call = redact([trajectory(arguments={"deep": [document]})], ["secrets"])[0].messages[0].tool_calls[0]
    assert call.function.arguments == {"deep": [{"secret": "[SECRET_1]", "n": 9}]}


def test_a_key_in_a_quoted_value_is_found_whole() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIE+abc=\n-----END PRIVATE KEY-----\n"
    (found,) = redacted(json.dumps({"type": "account", "private_key": key, "id": 1}))
    assert found == '{"type": "account", "private_key": "[SECRET_1]", "id": 1}'
    assert redacted(f'export PRIVATE_KEY="{key}"') == ['export PRIVATE_KEY="[SECRET_1]\n"']


@pytest.mark.parametrize("quoted", [str, json.dumps, lambda text: json.dumps(json.dumps(text))])
def test_a_key_that_was_cut_off_is_found(quoted: Callable[[str], str]) -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA/+AA\nMhAAAAAAtzc2gtZWQyNTUx"
    text = "It is:\n{}\n[3 more lines] -----BEGIN CERTIFICATE-----"
    assert redacted(quoted(text.format(key))) == [quoted(text.format("[SECRET_1]"))]
    mentioned = "A file with -----BEGIN RSA PRIVATE KEY----- is missing."
    assert redacted(mentioned) == [mentioned]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ("%E4%BD%A0", "emails"),
        ("Ab3_-" * 5, "emails"),
        ("a.", "emails"),
        ("a@b.", "emails"),
        ("ab-cd-", "secrets"),
        ("ab_", "secrets"),
        ("-eyJabcdefgh", "secrets"),
        ("password=", "secrets"),
        ("password='", "secrets"),
        ('"password":\\"', "secrets"),
        ("-----BEGIN PRIVATE KEY-----", "secrets"),
        ("-----BEGIN PRIVATE KEY-----\n" + "A" * 15 + "\n", "secrets"),
        ("\\", "secrets"),
    ],
)
def test_long_unbroken_text_takes_no_longer_than_its_length(part: str, kind: str) -> None:
    """A search from each place to the end would take many minutes."""
    (text,) = redacted(part * (500_000 // len(part)), kinds=(kind,))
    assert text


@pytest.mark.parametrize(
    "text",
    [
        "Reset the password: required by policy, see ticket T-2821.",
        "The secret of good tea is patience.",
        "next_page_token=abc123, max_tokens=4096",
        "sk-8 is a ski; AKIA is short; bearer of news",
        "https://db.example:8080/path?x=1 at 10:30",
        "ghp_ and hf_transformers",
        "dev@mail.example wrote",
    ],
)
def test_other_text_is_unchanged(text: str) -> None:
    assert redacted(text) == [text]


def test_a_value_found_once_is_replaced_everywhere() -> None:
    texts = redacted("api_key=s3cr3t-value", "I used s3cr3t-value twice: s3cr3t-value", "s3cr3t-values stay")
    assert texts == ["api_key=[SECRET_1]", "I used [SECRET_1] twice: [SECRET_1]", "s3cr3t-values stay"]


def test_a_plain_word_is_replaced_only_as_a_password() -> None:
    assert redacted('{"password": "welcome"}', "You are welcome") == [
        '{"password": "[SECRET_1]"}',
        "You are welcome",
    ]


def test_fields_of_arguments() -> None:
    arguments = {"user": "ann", "password": "pw", "deep": [{"api_key": "k"}, {"api_key": ""}], "secret": True}
    call = redact([trajectory(arguments=arguments)], ["secrets"])[0].messages[0].tool_calls[0]
    assert call.function.arguments == {
        "user": "ann", "password": "[SECRET_1]", "deep": [{"api_key": "[SECRET_2]"}, {"api_key": ""}], "secret": True,
    }  # fmt: skip
    assert redact([trajectory(arguments=arguments)], ["emails"]) == [trajectory(arguments=arguments)]


def test_keys_of_objects_are_replaced_but_names_of_fields_are_not() -> None:
    arguments = {"shared_with": {"ann@mail.example": "editor"}, "tool_calls9": 1, "password": "tool_calls9"}
    call = redact([trajectory(arguments=arguments)], ["secrets", "emails"])[0].messages[0].tool_calls[0]
    assert call.function.arguments == {
        "shared_with": {"[EMAIL_1]": "editor"}, "tool_calls9": 1, "password": "[SECRET_1]",
    }  # fmt: skip


def test_different_addresses_are_distinguished() -> None:
    texts = redacted(
        "From ann.lee+x@mail.example to Bob <bob@corp.co.example>.",
        '{"text": "Hi\\nann.lee+x@mail.example"}',
        kinds=("emails",),
    )
    assert texts == ["From [EMAIL_1] to Bob <[EMAIL_2]>.", '{"text": "Hi\\n[EMAIL_1]"}']


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("mailto:..ann@mail.example?x", "mailto:..[EMAIL_1]?x"),
        ("_ann@mail.example_ CORP\\\\ann@mail.example", "_[EMAIL_1]_ CORP\\\\[EMAIL_1]"),
        ("{'x': '\\u00fcann@mail.example'}", "{'x': '\\u00fc[EMAIL_1]'}"),
        (f"{'x' * 90}@mail.example", "[EMAIL_1]"),
        ("a@b a@b.c @mail.example a@mail.example9", "a@b a@b.c @mail.example a@mail.example9"),
    ],
)
def test_where_an_address_begins_and_ends(text: str, after: str) -> None:
    assert redacted(text, kinds=("emails",)) == [after]


def test_both_kinds() -> None:
    (text,) = redacted("ann@mail.example has sk-" + X[:40], kinds=("emails", "secrets"))
    assert text == "[EMAIL_1] has [SECRET_1]"


around = st.text(st.characters(codec="utf-8", exclude_characters="[]"), max_size=20)


@given(st.sampled_from(SECRETS[:-1]), around, around)
def test_keys_are_replaced_in_any_context(secret: str, before: str, after: str) -> None:
    text = f"{before} {secret} {after}"
    (found,) = redacted(text)
    assert secret not in found
    assert secret not in redacted(json.dumps({"x": text}))[0]
    assert json.loads(redacted(json.dumps({"x": text}))[0])  # still JSON


@given(st.lists(around, max_size=4))
def test_texts_without_secrets_are_unchanged(texts: list[str]) -> None:
    story = trajectory(*texts)
    [both] = redact([story], ["secrets", "emails"])
    if not any("_1]" in (message.content or "") for message in both.messages):
        assert both == story


def test_exported_rows_contain_no_secret(invoke: Callable[..., Result], tmp_path: Path) -> None:
    """Not in prompt, arguments, results or answer."""
    key = SECRETS[0]
    calls = [("transfer", {"to": "ann@mail.example", "key": key}, f"sent with {key} to ann@mail.example")]
    answer = [Message(role="assistant", content=f"Ann is ann@mail.example; {key}")]
    record([(planned(), Episode(calls=calls, transcript=answer))])
    out = tmp_path / "rows.jsonl"
    assert invoke(export, "--redact", "secrets", "--redact", "emails", "--out", out).exit_code == 0
    row = json.loads(out.read_text())
    assert key not in out.read_text() and "ann@" not in out.read_text()
    (call,) = row["messages"][1]["tool_calls"]
    assert call["function"]["arguments"] == {"to": "[EMAIL_1]", "key": "[SECRET_1]"}
    assert row["messages"][2]["content"] == "sent with [SECRET_1] to [EMAIL_1]"
    assert row["messages"][3]["content"] == "Ann is [EMAIL_1]; [SECRET_1]"
    manifest = json.loads((tmp_path / "rows.jsonl.manifest.json").read_text())
    assert manifest["selection"]["redact"] == ["secrets", "emails"]
