"""`mcp-bench install` and `--remove` in files that people wrote: all else stays, or the file is not touched."""

import itertools
import json
import re
import tomllib
from pathlib import Path
from typing import Any, NoReturn

import pytest
import tomlkit
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from json5 import loads as loads5

from mcp_bench.plugins.install import json_file, toml_file
from mcp_bench.plugins.install.cli import install
from mcp_bench.plugins.install.errors import UnreadableSettingsError

pytestmark = pytest.mark.unit

ENTRY = {"command": "x", "args": ["b"], "env": {"A": "c"}}
OURS = {"command": "mcp-bench", "args": ["connect"]}
OURS_TOML = 'command = "mcp-bench"\nargs = ["connect"]\n'


@pytest.fixture
def codex(tmp_path: Path) -> Path:
    (tmp_path / ".codex").mkdir()
    return tmp_path / ".codex/config.toml"


@pytest.fixture
def gemini(tmp_path: Path) -> Path:
    (tmp_path / ".gemini").mkdir()
    return tmp_path / ".gemini/settings.json"


def invoke(path: Path, *options: str) -> Result:
    """Run `install` for the agent whose configuration the path is."""
    env = {"HOME": str(path.parents[1]), "CODEX_HOME": None, "MCP_BENCH_HOME": "/recordings"}
    return CliRunner().invoke(install, [path.parent.name[1:], *options], env=env)


def run(path: Path, *options: str) -> str:
    done = invoke(path, *options)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def refusal(path: Path, *options: str) -> str:
    error = invoke(path, *options).exception
    assert isinstance(error, UnreadableSettingsError), error
    return str(error)


def others(content: dict[str, Any], table: str) -> dict[str, Any]:
    """Return the content without our entry. A table that has only our entry is as good as none."""
    kept = {name: value for name, value in content.get(table, {}).items() if name != "bench"}
    return {**content, table: kept}


TOML = {
    "dotted keys": 'mcp_servers.a.command = "x"\nmodel = "gpt-5" # mine\napproval_policy = "never"\n',
    "dotted keys before tables": 'mcp_servers.a.command = "x"\nmodel = "gpt-5"\n\n# screen\n[tui]\nt = 1\n',
    "an inline table": 'mcp_servers = { a = {command = "x"} } # mine\nmodel = "gpt-5"\n',
    "an empty inline table": 'mcp_servers = {}\nmodel = "gpt-5"\n',
    "tables apart": '[mcp_servers.a]\ncommand = "x"\n# next\n[tui]\nt = 1\n[mcp_servers.b]\ncommand = "y"\n',
    "ours as dotted keys": 'mcp_servers.bench.command = "x"\nmodel = "gpt-5"\nmcp_servers.a.command = "y"\n'
    'mcp_servers.bench.args = ["connect", "--entry"]\n',
    "ours before a comment": f"[mcp_servers.bench]\n{OURS_TOML}\n# screen\n[tui]\nt = 1\n",
    "ours inline": 'mcp_servers = { bench = {command = "mcp-bench", args = ["connect"]}, a = {command = "y"} }\n'
    'model = "gpt-5"\n',
    "ours in two places": f"[mcp_servers.bench]\n{OURS_TOML}[tui]\n[mcp_servers.bench.env]\nA = 'b'\n# end",
    "no last line end": 'model = "gpt-5"',
}


def test_line_ends_of_windows_stay(codex: Path, gemini: Path) -> None:
    texts = {codex: 'model = "gpt-5" # mine\n[tui]\nt = 1\n', gemini: '{\n  "theme": "dark"\n}\n'}
    for path, text in texts.items():
        path.write_bytes(text.replace("\n", "\r\n").encode())
        run(path)
        after = path.read_bytes()
        assert b"connect" in after and after.count(b"\n") == after.count(b"\r\n") > text.count("\n")
        run(path, "--remove")
        assert set(text.encode().splitlines()) <= set(path.read_bytes().split(b"\r\n"))


@pytest.mark.parametrize("text", TOML.values(), ids=TOML)
def test_toml_of_any_layout_keeps_all_else(codex: Path, text: str) -> None:
    """Codex also reads dotted keys and inline tables; keys below a new table would become that table's."""
    codex.write_text(text)
    comments = re.findall("# .*", text)
    before = others(tomllib.loads(text), "mcp_servers")
    assert f"{'changed' if 'bench' in text else 'added'} bench" in run(codex)
    after = tomllib.loads(codex.read_text())
    assert others(after, "mcp_servers") == before
    assert after["mcp_servers"]["bench"]["env"]["MCP_BENCH_HOME"] == "/recordings"
    assert "has it already" in run(codex)
    run(codex, "--benchmark", "agentdojo")
    changed = tomllib.loads(codex.read_text())
    assert others(changed, "mcp_servers") == before
    assert changed["mcp_servers"]["bench"]["args"][1] == "agentdojo"
    assert re.findall("# .*", codex.read_text()) == comments
    assert "removed bench" in run(codex, "--remove")
    removed = tomllib.loads(codex.read_text())
    assert others(removed, "mcp_servers") == before and "bench" not in removed.get("mcp_servers", {})
    assert re.findall("# .*", codex.read_text()) == comments


JSONC = {
    "ours alone, with a trailing comma": '{\n  "mcpServers": {\n    "bench": OURS,\n  },\n}\n',
    "before the next": '{"mcpServers": {\n  "bench": OURS,\n  // keep: prod server\n  "prod": {}\n}}\n',
    "after the last": '{"mcpServers": {\n  "prod": {}, // keep: prod server\n  "bench": OURS\n}}\n',
    "around the comma": '{"mcpServers": {"prod": {} /* p */, /* o */ "bench": OURS /* q */, // r\n}}\n',
    "at the brace": '{"mcpServers": { // my servers\n  "prod": {},\n}}\n',
    "at the brace of none": '{"mcpServers": { /* my servers */\n}}\n',
}


@pytest.mark.parametrize("text", JSONC.values(), ids=JSONC)
def test_jsonc_keeps_comments_and_stays_valid(gemini: Path, text: str) -> None:
    text = text.replace("OURS", json.dumps(OURS))
    gemini.write_text(text)
    comments = re.findall(r"// .*|/\* .*? \*/", text)
    before = others(loads5(text), "mcpServers")
    for _ in range(2):
        run(gemini)
        assert loads5(gemini.read_text())["mcpServers"]["bench"]["args"][0] == "connect"
        assert re.findall(r"// .*|/\* .*? \*/", gemini.read_text()) == comments
        run(gemini, "--remove")
        assert loads5(gemini.read_text()) == before
        assert re.findall(r"// .*|/\* .*? \*/", gemini.read_text()) == comments


def test_jsonc_is_the_same_after_adding_and_removing(gemini: Path) -> None:
    text = '{\n  "mcpServers": { // my servers\n    // keep\n    "prod": {}, // prod\n  },\n}\n'
    gemini.write_text(text)
    run(gemini)
    assert "{ // my servers\n" in gemini.read_text()
    run(gemini, "--remove")
    assert gemini.read_text() == text


@pytest.mark.parametrize("place", range(3))
def test_json_without_comments_stays_plain_json(gemini: Path, place: int) -> None:
    """Some agents read no trailing commas."""
    members = [("prod", {}), ("dev", {})]
    ours = [*members[:place], ("bench", OURS), *members[place:]]
    gemini.write_text(json.dumps({"mcpServers": dict(ours)}))
    run(gemini)
    assert set(json.loads(gemini.read_text())["mcpServers"]) == {"bench", "dev", "prod"}
    run(gemini, "--remove")
    assert json.loads(gemini.read_text()) == {"mcpServers": dict(members)}


def test_an_inline_table_may_have_several_lines(codex: Path) -> None:
    """TOML 1.1 allows it, and `tomllib` does not read it yet."""
    text = 'mcp_servers = {\n  a = {command = "x"}, # mine\n}\n'
    codex.write_text(text)
    run(codex)
    servers = tomlkit.parse(codex.read_text()).unwrap()["mcp_servers"]
    assert set(servers) == {"a", "bench"} and "# mine" in codex.read_text()
    run(codex, "--remove")
    assert tomlkit.parse(codex.read_text()).unwrap() == tomlkit.parse(text).unwrap()


def test_values_without_a_json_form_are_no_obstacle(codex: Path) -> None:
    """NaN differs from itself, which is no reason to refuse."""
    text = "limit = nan\nday = 2026-01-01\n"
    codex.write_text(text)
    run(codex)
    run(codex, "--remove")
    assert codex.read_text().strip() == text.strip()


def test_an_edit_that_would_not_show_is_refused(gemini: Path) -> None:
    """The last of equal keys counts, and the edit would go into the first."""
    text = '{"mcpServers": {}, "mcpServers": {"prod": {}}}'
    gemini.write_text(text)
    message = refusal(gemini)
    assert f"{gemini} is unchanged" in message and "add mcpServers.bench yourself" in message
    assert gemini.read_text() == text
    text = f'{{"mcpServers": {{"bench": {json.dumps(OURS)}, "bench": {json.dumps(OURS)}}}}}'
    gemini.write_text(text)
    assert "delete mcpServers.bench yourself" in refusal(gemini, "--remove")
    assert gemini.read_text() == text


def test_a_removal_that_would_lose_a_comment_is_refused(codex: Path) -> None:
    """tomlkit gathers the tables of an array, so that the comment's old place is not found."""
    text = "[mcp_servers.bench]\n" + OURS_TOML + "# keep\n[[a]]\n[tui]\n[[a]]\n"
    codex.write_text(text)
    message = refusal(codex, "--remove")
    assert "comments would be lost" in message and "delete mcp_servers.bench yourself" in message
    assert codex.read_text() == text


@pytest.mark.parametrize("broken", ["", "x = 1\n", 'model = "gpt-5"\n[', 'model = "gpt-5"\n'])
@pytest.mark.parametrize("name", ["put", "remove"])
def test_a_wrong_edit_is_not_written(
    codex: Path, monkeypatch: pytest.MonkeyPatch, name: str, broken: str
) -> None:
    """For the layouts that nobody thought of: what an edit returns is read again."""
    text = 'model = "gpt-5"\n[mcp_servers.a]\n[mcp_servers.bench]\n' + OURS_TOML
    codex.write_text(text)
    monkeypatch.setattr(toml_file, name, lambda *_: broken)
    assert f"{codex} is unchanged" in refusal(codex, *(["--remove"] if name == "remove" else []))
    assert codex.read_text() == text


def test_what_tomlkit_cannot_edit_is_refused(codex: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> NoReturn:
        raise ValueError("Inline tables cannot contain a table")

    codex.write_text("mcp_servers = {}\n")
    monkeypatch.setattr(tomlkit, "dumps", fail)
    message = refusal(codex)
    assert "Inline tables cannot contain a table" in message and "add mcp_servers.bench yourself" in message
    assert codex.read_text() == "mcp_servers = {}\n"


NAMES = st.text('ab"\\é/,}', min_size=1, max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | NAMES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
GAPS = ["", "", " ", "\n  ", '// {}: "bench", {{\n', "/* {}, }} */", "\n/*\n{} // */", " // {}\n"]
COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|(//[^\n]*|/\*.*?\*/)', re.DOTALL)


def comments(text: str) -> list[str]:
    return [match[1] for match in COMMENT.finditer(text) if match[1]]


def written(draw: st.DrawFn, value: Any) -> str:
    """Return a value as JSONC: with numbered comments between all tokens, and trailing commas."""
    numbers = itertools.count()

    def gap() -> str:
        return draw(st.sampled_from(GAPS)).format(next(numbers))

    def member(name: str, value: Any) -> str:
        if name == "bench":
            return f'"bench": {json.dumps(value)}'
        return f"{json.dumps(name)}{gap()}:{gap()}{text(value)}"

    def text(value: Any) -> str:
        if not isinstance(value, dict | list):
            return json.dumps(value)
        pieces = (
            [member(*item) for item in value.items()] if isinstance(value, dict) else [text(v) for v in value]
        )
        inner = ",".join(gap() + piece + gap() for piece in pieces) + gap()
        if pieces and draw(st.booleans()):
            inner += "," + gap()
        return f"{{{inner}}}" if isinstance(value, dict) else f"[{inner}]"

    return gap() + text(value) + gap()


@st.composite
def jsonc(draw: st.DrawFn, ours: bool) -> tuple[str, dict[str, Any]]:
    """Draw a document and its content. Our entry, if it is there, is in any place and has no comments inside."""
    members = list(draw(st.dictionaries(NAMES, VALUES, max_size=3)).items())
    if ours:
        members.insert(draw(st.integers(0, len(members))), ("bench", {"command": "old"}))
    content = {**draw(st.dictionaries(NAMES, VALUES, max_size=2)), "servers": dict(members)}
    return written(draw, content), content


@given(jsonc(ours=False))
def test_adding_and_removing_gives_the_same_jsonc(document: tuple[str, dict[str, Any]]) -> None:
    text, content = document
    after = json_file.put(text, ["servers", "bench"], ENTRY)
    assert loads5(after) == {**content, "servers": {**content["servers"], "bench": ENTRY}}
    assert comments(after) == comments(text)
    removed = json_file.remove(after, ["servers", "bench"])
    assert loads5(removed) == content
    assert comments(removed) == comments(text)


@given(jsonc(ours=True))
def test_replacing_and_removing_keeps_the_other_jsonc(document: tuple[str, dict[str, Any]]) -> None:
    text, content = document
    after = json_file.put(text, ["servers", "bench"], ENTRY)
    assert loads5(after) == {**content, "servers": {**content["servers"], "bench": ENTRY}}
    removed = json_file.remove(text, ["servers", "bench"])
    assert loads5(removed) == others(content, "servers")
    assert comments(removed) == comments(after) == comments(text)


ROOT = ['model = "gpt-5"', 'servers.a.command = "x"', 'servers.a.args = ["y"]', "# root", "", "tui.t = 1"]
TABLES = [
    '[servers.b]\ncommand = "x" # b\n# below b\n',
    "[servers.c]\n  [servers.c.env]\n  A = '''\n[servers.bench]\n# text\n'''\n\n# below c",
    "# d\n[d]\nlist = [\n  1, # one\n]\n",
]
BENCH = '[servers.bench]\ncommand = "x"\n[servers.bench.env]\nA = "b"\n# below ours\n'


@given(
    root=st.lists(st.sampled_from(ROOT), unique=True),
    tables=st.lists(st.sampled_from([*TABLES, BENCH]), unique=True),
)
def test_toml_with_comments_keeps_all_else(root: list[str], tables: list[str]) -> None:
    text = "\n".join([*root, *tables])
    content, keys = tomllib.loads(text), ["servers", "bench"]
    after = toml_file.put(text, keys, ENTRY)
    read = tomllib.loads(after)
    assert others(read, "servers") == others(content, "servers") and read["servers"]["bench"] == ENTRY
    for removed in (toml_file.remove(after, keys), toml_file.remove(text, keys)):
        assert others(tomllib.loads(removed), "servers") == others(content, "servers")
        assert toml_file.get(removed, keys) is None
        assert re.findall("#.*", removed) == re.findall("#.*", after) == re.findall("#.*", text)
