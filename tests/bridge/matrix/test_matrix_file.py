"""The file of a matrix: its cells, and what is said about mistakes."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from mcp_bench.bridge.cli.record import record
from mcp_bench.bridge.matrix.file import MatrixFile, read_matrix
from mcp_bench.bridge.matrix.settings import arguments, settings_of
from mcp_bench.servers.errors import WrongUseError
from tests.support import ROOT

pytestmark = pytest.mark.unit

SETTINGS = settings_of(record)


def read(folder: Path, text: str) -> MatrixFile:
    path = folder / "matrix.yaml"
    path.write_text(text)
    return read_matrix(path, record)


def names(folder: Path, text: str) -> list[str]:
    return [cell.name for cell in read(folder, f"name: m\n{text}").cells]


def fault(folder: Path, text: str) -> str:
    with pytest.raises(WrongUseError) as caught:
        read(folder, text)
    return str(caught.value).replace(f"{folder}/", "")


def test_cells_are_agents_times_tasks_times_lists(tmp_path: Path) -> None:
    text = """
record: {limit: 3, seed: [0, 1]}
agents:
  - {agent: oracle, agent-option: {drop: [0, 0.5]}}
  - {agent: codex, model: [gpt-x, null]}
  - {name: careful, agent: claude-code, agent_option: {effort: high}, timeout: 60}
tasks:
  - {split: dev}
  - {name: all tests, split: test, limit: null}
"""
    found = read(tmp_path, "name: m" + text).cells
    assert len(found) == (2 + 2 + 1) * 2 * 2
    first, last = found[0], found[-1]
    assert first.name == "oracle drop=0 dev seed=0"
    assert first.values == {
        "agent": "oracle", "agent-option": {"drop": "0"}, "split": "dev", "limit": 3, "seed": 0,
    }  # fmt: skip
    assert last.name == "careful all tests seed=1"
    assert arguments(SETTINGS, last.values, tmp_path) == [
        "--agent=claude-code", "--split=test", "--seed=1", "--timeout=60", "--agent-option=effort=high",
    ]  # fmt: skip
    assert [cell.name for cell in found[8:12]] == [
        "codex gpt-x dev seed=0", "codex gpt-x dev seed=1", "codex dev seed=0", "codex dev seed=1",
    ]  # fmt: skip


def test_a_name_has_no_login(tmp_path: Path) -> None:
    urls = "[http://me:secret@127.0.0.1:1/v1, 'http://127.0.0.1:2/v1?key=secret']"
    assert names(tmp_path, f"record: {{agent: codex, user-model: m, user-base-url: {urls}}}") == [
        "codex user-base-url=http://127.0.0.1:1/v1",
        "codex user-base-url=http://127.0.0.1:2/v1",
    ]


def test_repeatable_options_and_files(tmp_path: Path) -> None:
    (cell,) = read(
        tmp_path, "name: m\nrecord: {agent: codex, server: ./s, prompt: [a, -b], prompt-file: p.txt, tag: []}"
    ).cells
    assert arguments(SETTINGS, cell.values, Path("there")) == [
        "--agent=codex", "--server=./s", "--prompt=a", "--prompt=-b", "--prompt-file=there/p.txt",
    ]  # fmt: skip


def test_files_are_beside_the_matrix_or_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    text = "record: {agent: codex, prices: [p.yaml, ~/p.yaml, ~no-such-user/p.yaml, /p.yaml], harness: h}"
    found = read(tmp_path, f"name: m\n{text}").cells
    assert [arguments(SETTINGS, cell.values, Path("sub"))[1:] for cell in found] == [
        [f"--prices={prices}", "--harness=sub/h"]
        for prices in ("sub/p.yaml", "/home/ada/p.yaml", "sub/~no-such-user/p.yaml", "/p.yaml")
    ]
    with pytest.raises(WrongUseError, match="prices: -: standard input"):
        arguments(SETTINGS, {"prices": "-"}, Path("sub"))


def test_files_of_ids_and_folders_of_tasks_are_beside_the_matrix(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    text = 'record: {agent: codex, path: [tasks, published], task: ["@ids.txt", "@/all.txt", one]}'
    found = [arguments(SETTINGS, cell.values, tmp_path) for cell in read(tmp_path, f"name: m\n{text}").cells]
    tasks = [f"--task=@{tmp_path}/ids.txt", "--task=@/all.txt", "--task=one"]
    assert found == [
        ["--agent=codex", *tasks, f"--path={tmp_path}/tasks"],
        ["--agent=codex", *tasks, "--path=published"],
    ]


def test_the_folder_of_a_benchmark_is_beside_the_matrix(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    text = "name: m\nrecord: {agent: codex, benchmark: [improve:tasks, improve:elsewhere, saasworld]}"
    found = [arguments(SETTINGS, cell.values, tmp_path)[-1] for cell in read(tmp_path, text).cells]
    wanted = [f"improve:{tmp_path}/tasks", "improve:elsewhere", "saasworld"]
    assert found == [f"--benchmark={benchmark}" for benchmark in wanted]


def test_flags_and_shared_values_of_yaml(tmp_path: Path) -> None:
    text = """
name: m
agents:
  - &one {agent: codex, capture-llm: true, base-url: http://127.0.0.1:1/v1}
  - {<<: *one, model: other, capture-llm: false}
"""
    found = read(tmp_path, text).cells
    assert [cell.name for cell in found] == ["codex", "codex other"]
    assert [arguments(SETTINGS, cell.values, tmp_path) for cell in found] == [
        ["--agent=codex", "--base-url=http://127.0.0.1:1/v1", "--capture-llm"],
        ["--agent=codex", "--model=other", "--base-url=http://127.0.0.1:1/v1"],
    ]


AGENTS = """
agents: [{agent: codex}, {agent: oracle, agent-option: {drop: [0, 0.5]}}]
tasks: [{split: dev}, {split: test}]
"""


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("{agent: oracle}", 2),
        ("{agent: [oracle, codex], split: test}", 3),
        ("{agent-option: {drop: 0.5}, split: dev}", 5),
        ("{cell: 'oracle * test'}", 4),
        ("{benchmark: saasworld, model: null, split: dev}", 3),
        ("{agent-option: null}", 4),
        ("{tag: null, agent: codex}", 4),
    ],
)
def test_exclude_takes_cells_out(tmp_path: Path, condition: str, left: int) -> None:
    assert len(names(tmp_path, f"{AGENTS}exclude: [{condition}]")) == left


def test_exclude_takes_any_of_the_values_of_a_repeatable_option(tmp_path: Path) -> None:
    text = "agents: [{agent: oracle}]\ntasks: [{tag: [a]}, {tag: [b]}, {tag: [c]}, {tag: [b, c]}]\n"
    assert names(tmp_path, f"{text}exclude: [{{tag: [a, b]}}]") == ["oracle c"]


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("claude-code sonnet[1m] *", ["claude-code opus dev"]),
        ("* sonnet[1m] dev", ["claude-code opus dev"]),
        ("claude-code o* d*", ["claude-code sonnet[1m] dev"]),
    ],
)
def test_only_a_star_stands_for_other_text(tmp_path: Path, pattern: str, left: list[str]) -> None:
    """Brackets are a part of names: these are of a model with a long context."""
    text = "agents: [{agent: claude-code, model: ['sonnet[1m]', opus]}]\ntasks: [{split: dev}]\n"
    assert names(tmp_path, f"{text}exclude: [{{cell: '{pattern}'}}]") == left


def test_overrides_change_some_cells(tmp_path: Path) -> None:
    text = f"""name: m{AGENTS}
record: {{timeout: 60, limit: 5}}
overrides:
  - {{where: {{split: test}}, record: {{timeout: 120, limit: null}}}}
  - {{where: {{agent: oracle, timeout: 60}}, record: {{agent-option: {{spoil: 0.1}}}}}}
  - {{where: {{cell: oracle drop=0.5 dev}}, record: {{agent-option: null}}}}
"""
    by_name = {cell.name: cell.values for cell in read(tmp_path, text).cells}
    assert by_name["codex dev"] == {"agent": "codex", "split": "dev", "timeout": 60, "limit": 5}
    assert by_name["codex test"] == {"agent": "codex", "split": "test", "timeout": 120, "limit": None}
    assert by_name["oracle drop=0.5 test"]["agent-option"] == {"drop": "0.5", "spoil": "0.1"}
    assert by_name["oracle drop=0.5 dev"]["agent-option"] is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "matrix.yaml: the file has no keys: it must be a mapping (see `mcp-bench record --help`)"),
        ("name: [", "matrix.yaml:1: not YAML"),
        ("record: {agent: codex}", "matrix.yaml:1: the key 'name' is missing"),
        ("name: m\nagnets: []", "matrix.yaml:2: agnets: unknown key (did you mean agents?)"),
        ("name: m\nname: n", "matrix.yaml:2: name occurs twice (also in line 1)"),
        (
            "name: m\nagents:\n  - agent: codex\n    modle: x",
            "matrix.yaml:4: agents[0].modle: unknown key (did you mean model",
        ),
        ("name: m\nrecord:\n  limit: 0", "matrix.yaml:3: record.limit: must be greater than or equal to 1 (it is 0)"),
        ("name: m\nrecord:\n  max_cost: true", "matrix.yaml:3: record.max-cost: must be a valid number (it is True)"),
        ("name: m\nrecord:\n  model: 4.1", "must be a valid string (it is 4.1); write it in quotes"),
        ("name: m\nrecord:\n  tools: mcp_only", "record.tools: must be 'mcp-only' or 'all' (it is 'mcp_only')"),
        ("name: m\nrecord: {seed: []}", "record.seed: List should have at least 1 item"),
        ("name: m\nrecord: {seed: [1, 1]}", "matrix.yaml:2: record: two cells are the same (seed=1)"),
        (
            "name: m\nagents:\n  - agent: a\n  - agent: a\n    timeout: 5",
            "matrix.yaml:4: agents[1]: two cells have the same name: give entries a `name` (a)",
        ),
        ("name: m\nexclude:\n  - agent: x", "matrix.yaml:3: exclude[0]: no cell fits"),
        ("name: m\nrecord: {agent: x}\nexclude: [{agent: x}]", "matrix.yaml:3: exclude: every cell is excluded"),
        (
            "name: m\noverrides:\n  - where: {agent: y}\n    record: {seed: 1}",
            "matrix.yaml:3: overrides[0].where: no cell fits",
        ),
        (
            "name: m\noverrides:\n  - where: {}\n    record:\n      seed: [1, 2]",
            "matrix.yaml:5: overrides[0].record.seed: an override has one value",
        ),
        ("name: m\noverrides: [{record: {}}]", "overrides[0]: the key 'where' is missing"),
        ("name: m\nrecord: {resume: run_x}", "record.resume: unknown key"),
        ("name: a b", "name: String should match pattern"),
        (
            f"name: m\nrecord: {{seed: {list(range(101))}, repeat: {list(range(1, 101))}}}",
            "matrix.yaml:1: these are more than 10000 cells",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_line_and_key(tmp_path: Path, text: str, said: str) -> None:
    assert said in fault(tmp_path, text)


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    lines = fault(tmp_path, "nam: m\nrecord: {limt: 1}\ntasks: [{split: 3}]").splitlines()
    assert len(lines) == 4 and all(line.startswith("matrix.yaml:") for line in lines)


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(WrongUseError, match=r"cannot read .*there\.yaml: No such file"):
        read_matrix(tmp_path / "there.yaml", record)


def examples() -> list[str]:
    page = (ROOT / "docs" / "recording" / "matrix.md").read_text()
    return re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def test_the_examples_of_the_docs_fit_the_schema(tmp_path: Path) -> None:
    schema = json.loads(CliRunner().invoke(record, ["--config-schema"]).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    counts = []
    for text in examples():
        check.validate(yaml.safe_load(text))
        counts.append(len(read(tmp_path, text).cells))
    assert counts == [8, 11]
    assert not check.is_valid({"name": "m", "record": {"limt": 1}})
