"""Which requests for permission are for a tool of our server, in the words of many agents."""

import re
from typing import Any

import pytest

from mcp_bench.clients.acp.permission import NOT_OURS, Server, Verdict, verdict

pytestmark = pytest.mark.unit

TOOLS = {"add": ("a", "b"), "find_order": ("order_id",), "desk.tidy": None, "run": ("command",)}
ADD = {"a": 1, "b": 2}
OURS = Verdict("add", allow=True)


def judged(title: str = "", server: Server | None = None, **call: Any) -> Verdict:
    return verdict({"title": title, **call}, server or Server("bench", TOOLS))


TITLES = [
    "add", "Add", "`add`", "add: a=1, b=2", 'add: {"text": "a; b...', "bench_add", "bench__add", "mcp__bench__add", "mcp_bench_add",
    "bench.add", "mcp.bench.add", "bench/add", "bench:add", "bench-add", "add_bench", "Bench: Add",
    "add (bench MCP Server)", 'add (bench MCP Server): {"a":1,"b":2}', "MCP: bench/add", "Tool: bench/add",
    "bench/add(a=1, b=2)", "Calling bench__add", "mcp__bench__add - adds two numbers",
]  # fmt: skip


@pytest.mark.parametrize("title", TITLES)
@pytest.mark.parametrize("more", [{}, {"kind": "other", "rawInput": ADD}, {"kind": "read", "rawInput": ADD}])
def test_a_tool_is_known_by_each_of_its_names(title: str, more: dict[str, Any]) -> None:
    assert judged(title, **more) == OURS


@pytest.mark.parametrize(
    "call",
    [
        {"rawInput": {"server": "bench", "tool": "add", "arguments": ADD}, "kind": "execute"},
        {"rawInput": {"server_name": "bench", "tool_name": "add", "arguments": '{"a": 1}'}},
        {"_meta": {"claudeCode": {"toolName": "mcp__bench__add"}}, "title": "Adding"},
        {"title": "add", "rawInput": '{"a": 1, "b": 2}'},
        {"title": "add", "rawInput": {"kind": "MCPToolAction", "data": ADD}},
        {"title": "Run the tool bench_add for the sum", "rawInput": ADD},
        {"title": "mcp.bench.add", "kind": "execute", "rawInput": ADD},
        {"title": "bench_add", "rawInput": {"x": "the model's mistake"}},
        {"title": "bench/add(a=1, b=2)", "kind": "delete", "rawInput": ADD},  # a kind guessed from a name
    ],
)
def test_a_tool_is_known_by_the_rest_of_its_call(call: dict[str, Any]) -> None:
    assert verdict(call, Server("bench", TOOLS)) == OURS


def test_names_with_signs_or_words_are_matched() -> None:
    for title in ("find_order", "Find Order", "bench_find-order", "Bench: Find Order"):
        assert judged(title, rawInput={"order_id": "A1"}) == Verdict("find_order", allow=True)
    assert judged("bench_desk_tidy") == Verdict("desk.tidy", allow=True)


SHELL = {"kind": "execute", "rawInput": {"command": "rm -rf ."}}


@pytest.mark.parametrize(
    "call",
    [
        {"title": "add", **SHELL},
        {"title": "bench_add", **SHELL},
        {"title": "mcp__bench__add", **SHELL},
        {"title": "echo mcp__bench__add", "kind": "execute"},
        {"title": "add", "kind": "execute"},
        {"title": "add", "kind": "execute", "rawInput": ADD},
        {"title": "bench_add && rm -rf .", "kind": "execute", "rawInput": {}},
        {"title": "bench_add", "rawInput": {"command": "bench_add"}},
        {"title": "bench_add", "kind": "execute", "rawInput": {"command": "bench_add"}},
        {"title": "add", "rawInput": {"command": "ls", "description": "add"}},
        {"title": "add", "kind": "edit", "rawInput": ADD},
        {"title": "bench_add", "kind": "delete", "rawInput": {"path": "bench_add"}},
        {"title": "bench_add", "content": [{"type": "diff", "path": "x"}]},
        {"title": "bench_add", "kind": "read", "rawInput": {"path": "bench_add"}},
        {"title": "add", "rawInput": {"server": "other", "tool": "add", "path": "x"}},
        {"rawInput": {"server": "bench", "tool": "add", "arguments": ADD, "command": "ls"}},
        {"title": "addition"},
        {"title": "Bash"},
        {"title": "badd"},
        {"title": "readd: x"},
        {},
    ],
)
def test_the_agents_own_tool_is_not_ours_whatever_it_says(call: dict[str, Any]) -> None:
    assert verdict(call, Server("bench", TOOLS)) == NOT_OURS


@pytest.mark.parametrize(
    "call",
    [
        {"title": "add", "rawInput": {"x": 1}},
        {"title": "bench_add", "kind": "execute"},
        {"title": "bench_add", "kind": "edit", "rawInput": {"x": 1}},
        {"title": "add: $(rm -rf .)"},
        {"title": "Shall I use bench_add here?"},
    ],
)
def test_a_doubtful_call_is_refused_and_named(call: dict[str, Any]) -> None:
    assert verdict(call, Server("bench", TOOLS)) == Verdict("add", allow=False)


def test_a_server_whose_tools_are_unknown() -> None:
    server = Server("bench", {})
    assert judged("bench_echo", server, rawInput={"message": "hi"}) == Verdict("echo", allow=True)
    assert judged("mcp__bench__get-sum", server) == Verdict("get-sum", allow=True)
    assert judged("echo", server, rawInput={"message": "hi"}) == NOT_OURS
    assert judged("bench_echo", server, **SHELL) == NOT_OURS


def test_a_servers_own_shell_is_not_the_agents() -> None:
    assert judged("bench_run", rawInput={"command": "ls"}) == Verdict("run", allow=True)
    for title in ("run ls -l", "run", "rm -rf ."):
        assert judged(title, **SHELL) == NOT_OURS
    assert judged("bench_run", kind="execute", rawInput={"command": "bench_run"}) == NOT_OURS


def test_the_names_of_many_tools_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more patterns than Python keeps, each request took seconds."""
    compiled: list[object] = []
    usual = re._compiler.compile  # type: ignore[attr-defined]

    def counted(*args: object) -> object:
        compiled.append(args)
        return usual(*args)

    many = Server("records", {f"records_change_{number}": ["a"] for number in range(200)})
    call = {"title": "ls -la", "kind": "execute", "rawInput": {"command": "ls"}}
    monkeypatch.setattr("re._compiler.compile", counted)
    assert [verdict(call, many).allow, bool(compiled)] == [False, True]
    compiled.clear()
    assert [verdict(call, many).allow, compiled] == [False, []]
