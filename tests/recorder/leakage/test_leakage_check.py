"""Held-out tasks stay out of training data: `leakage` reports them, `export` refuses them."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.cli.leakage import leakage
from mcp_bench.recorder.errors import LeakError
from mcp_bench.recorder.leakage import held_out as held_out_tasks
from mcp_bench.recorder.leakage.check import LeakCheck
from mcp_bench.recorder.leakage.held_out import held_out, prompt_hash
from mcp_bench.recorder.leakage.split_index import Leak, Row
from mcp_bench.recorder.trajectory import Message
from mcp_bench.servers.contracts import Task
from mcp_bench.servers.errors import (
    BenchError,
    MissingDependencyError,
    NoSecretError,
    SecretError,
    UnknownNameError,
    WorkerDiedError,
    WrongUseError,
)
from mcp_bench.servers.registry import load
from mcp_bench.servers.remote.failures import from_wire, to_wire
from mcp_bench.servers.secret import variable
from tests.support.recorded import Episode, planned, record
from tests.support.task_folders import harbor_task

pytestmark = pytest.mark.component

Invoke = Callable[..., Result]
SAAS: dict[str, Any] = {"benchmark": "saasworld", "benchmark_version": load("benchmark", "saasworld").version}


def tasks(split: str, count: int) -> list[Task]:
    return list(load("benchmark", "saasworld").tasks(split, count))


def attempt(task: Task, prompt: str | None = None, split: str = "train", name: str | None = None) -> Any:
    slot = planned(name or task.id, split=split)
    return slot.model_copy(update={"prompt": prompt or task.prompt}), Episode()


def solved(task: Task) -> Episode:
    """Return an attempt with the calls of the reference solution."""
    reference = load("benchmark", "saasworld").reference(task.id)
    calls = [(call.name, dict(call.arguments), "ok") for call in reference.calls]
    return Episode(calls=calls, transcript=[Message(role="assistant", content=reference.answer)])


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def edited(prompt: str) -> str:
    return f"Hello! {prompt}"


def long_task() -> Task:
    return max(tasks("test", 40), key=lambda task: len(task.prompt))


@pytest.mark.parametrize("options", [[], ["--format", "sharegpt"], ["--format", "verifiers"]])
@pytest.mark.parametrize("name", ["d.jsonl", "d.jsonl.gz", "d.parquet"])
def test_attempts_at_training_tasks_do_not_leak(
    invoke: Invoke, tmp_path: Path, options: list[str], name: str
) -> None:
    record([(attempt(task)[0], solved(task)) for task in tasks("train", 12)], **SAAS)
    assert invoke(export, "--out", tmp_path / name, *options).exit_code == 0
    done = invoke(leakage, tmp_path / name, "--against", "test", "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    found = json.loads(done.stdout)
    assert (found["rows"], found["leaks"], found["benchmarks"]) == (12, [], ["saasworld"])


def test_instructions_of_a_task_are_not_compared(invoke: Invoke, tmp_path: Path) -> None:
    """Many tasks share them, so they may quote what a held-out prompt quotes."""
    task, fine = long_task(), tasks("train", 1)[0]
    slot, story = attempt(fine)
    record([(slot.model_copy(update={"system": f"Policy: {task.prompt}"}), story)], **SAAS)
    assert invoke(export, "--out", tmp_path / "d.jsonl").exit_code == 0
    (row,) = lines(tmp_path / "d.jsonl")
    assert row["messages"][0] == {"role": "system", "content": f"Policy: {task.prompt}"}


def test_each_leak_has_row_kind_task_and_similarity(invoke: Invoke, tmp_path: Path) -> None:
    task, fine = long_task(), tasks("train", 1)[0]
    others = " ".join(other.prompt for other in tasks("train", 12))
    rows = [
        attempt(fine),
        attempt(task),
        attempt(task, split="test", name="x"),
        attempt(task, name="mine.1"),
        attempt(task, edited(task.prompt), name="mine.2"),
        attempt(task, f"{others} Someone once asked: {task.prompt}", name="mine.3"),
        (attempt(task, "Please do it.", name="mine.4")[0], solved(task)),
        attempt(task, "Please do as you were told.", name=task.id.rpartition(".")[0] + ".987654"),
    ]
    record(rows, **SAAS)
    done = invoke(export, "--split", "all", "--out", tmp_path / "d.jsonl")
    assert done.exit_code == 0, done.exception
    done = invoke(leakage, tmp_path / "d.jsonl", "--against", "test", "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)["leaks"]
    assert [(leak["row"], leak["kind"]) for leak in found] == [
        ("line 2", "task"),
        ("line 3", "split"),
        ("line 4", "same prompt"),
        ("line 5", "similar prompt"),
        ("line 6", "quoted prompt"),
        ("line 7", "similar solution"),
        ("line 8", "task"),
    ]
    assert {leak["held_out_task"] for leak in found[2:6]} == {task.id}
    assert all(0.8 <= leak["similarity"] <= 1 for leak in found)
    done = invoke(leakage, tmp_path / "d.jsonl", "--against", "test")
    assert f"line 4: mine.1: same prompt as the test task {task.id} of saasworld" in done.stdout
    assert "7 of 8 rows leak into test of saasworld" in done.stdout


def test_on_leak_refuses_drops_or_allows(invoke: Invoke, tmp_path: Path) -> None:
    task = long_task()
    record(
        [attempt(one) for one in tasks("train", 2)] + [attempt(task, edited(task.prompt), name="a")], **SAAS
    )
    refused = invoke(export, "--out", tmp_path / "d.jsonl")
    assert isinstance(refused.exception, LeakError)
    assert f"similar prompt as the test task {task.id}" in str(refused.exception)
    assert not [path for path in tmp_path.iterdir() if "d.jsonl" in path.name]
    dropped = invoke(export, "--on-leak", "drop", "--out", tmp_path / "dropped.jsonl", "--json")
    assert json.loads(dropped.stdout)["funnel"]["dropped"]["leak"] == 1
    assert len(lines(tmp_path / "dropped.jsonl")) == 2
    assert invoke(export, "--on-leak", "allow", "--out", tmp_path / "all.jsonl").exit_code == 0
    assert len(lines(tmp_path / "all.jsonl")) == 3


def test_placeholders_hide_no_leak(invoke: Invoke, tmp_path: Path) -> None:
    """A row's prompt is compared as it was, also if an address in it is replaced."""
    with_address = [task for task in tasks("test", 400) if "@" in task.prompt]
    task = min(with_address, key=lambda one: len(one.prompt))
    record([attempt(tasks("train", 1)[0]), attempt(task, name="mine")], **SAAS)
    refused = invoke(export, "--redact", "emails", "--out", tmp_path / "d.jsonl")
    assert isinstance(refused.exception, LeakError)
    dropped = invoke(export, "--redact", "emails", "--on-leak", "drop", "--out", tmp_path / "d.jsonl")
    assert dropped.exit_code == 0 and len(lines(tmp_path / "d.jsonl")) == 1


def test_a_pair_that_leaks_is_one_row(invoke: Invoke, tmp_path: Path) -> None:
    task = long_task()
    attempts = [
        (attempt(task, name="mine")[0].model_copy(update={"repeat": number}), Episode(partial=partial))
        for number, partial in enumerate((1.0, 0.0))
    ]
    record(attempts, **SAAS)
    assert invoke(export, "--pairs", "--on-leak", "allow", "--out", tmp_path / "p.jsonl").exit_code == 0
    done = invoke(leakage, tmp_path / "p.jsonl", "--against", "test")
    assert "1 of 1 rows leak into test of saasworld" in done.stdout


def test_the_private_split_is_written_only_by_name(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("long enough to be a secret of a test\n")
    monkeypatch.setenv(variable("saasworld"), str(secret))
    (task,) = tasks("private", 1)
    (trained,) = tasks("train", 1)
    record([attempt(trained), attempt(task, name="copied"), attempt(task, split="private")], **SAAS)
    for options in ([], ["--on-leak", "allow"], ["--split", "all"]):
        refused = invoke(export, *options, "--out", tmp_path / "d.jsonl")
        assert isinstance(refused.exception, LeakError), options
        assert "--on-leak allow" not in str(refused.exception)
    named = invoke(export, "--split", "private", "--split", "train", "--out", tmp_path / "d.jsonl")
    assert named.exit_code == 0
    # without the secret there are no private prompts
    monkeypatch.setenv(variable("saasworld"), str(tmp_path / "none"))
    done = invoke(export, "--out", tmp_path / "e.jsonl")
    assert (done.exit_code, "not compared" in done.stderr) == (0, False)
    # with one that cannot be used, nobody knows
    secret.write_text("short")
    monkeypatch.setenv(variable("saasworld"), str(secret))
    done = invoke(export, "--out", tmp_path / "f.jsonl")
    assert f"not compared with held-out tasks: rows of saasworld: the secret {secret} has 5" in done.stderr


def test_a_split_that_cannot_be_made_is_not_taken_as_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = load("benchmark", "saasworld")

    def failing(error: BenchError) -> Leak | None:
        monkeypatch.setattr(benchmark, "tasks", lambda *_: (_ for _ in ()).throw(error))
        return LeakCheck(["private"], benchmarks=["saasworld"]).find(Row("saasworld", "t", "train", []))

    # as they come back from a worker
    for error in (MissingDependencyError("no package"), WorkerDiedError("killed"), SecretError("too short")):
        with pytest.raises(type(error)):
            failing(from_wire(**to_wire(error)))  # type: ignore[arg-type]
    assert failing(from_wire(**to_wire(NoSecretError("there is none")))) is None  # type: ignore[arg-type]


def test_rows_of_a_benchmark_whose_code_fails_are_not_compared(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record([attempt(tasks("train", 1)[0])], **SAAS)
    benchmark = load("benchmark", "saasworld")
    monkeypatch.setattr(benchmark, "version", "of which nothing is cached")
    monkeypatch.setattr(benchmark, "reference", lambda task: {}[task])
    done = invoke(export, "--out", tmp_path / "d.jsonl")
    assert done.exit_code == 0, done.exception
    assert (
        "rows of saasworld: saasworld: the tasks of the split test cannot be built: KeyError" in done.stderr
    )
    asked = ["--against", "test", "--benchmark", "saasworld"]
    checked = invoke(leakage, tmp_path / "d.jsonl", *asked).exception
    assert isinstance(checked, BenchError)


def test_a_benchmark_need_not_know_a_foreign_task(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = load("benchmark", "saasworld")
    monkeypatch.setattr(benchmark, "task", lambda task: {}[task])
    assert LeakCheck(["test"]).find(Row("saasworld", "t", None, [])) is None


def test_an_endless_split_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = load("benchmark", "saasworld")
    task = benchmark.task(next(iter(benchmark.tasks("test", 1))).id)
    monkeypatch.setattr(held_out_tasks, "MOST_TASKS", 3)
    monkeypatch.setattr(benchmark, "tasks", lambda *_: itertools.repeat(task))
    with pytest.raises(BenchError, match="saasworld: the split test has more than 3 tasks"):
        held_out_tasks.build(benchmark, "test")


def test_tasks_from_files_of_the_operator_are_read_again(tmp_path: Path) -> None:
    """Their version stays while the files change."""
    for prompt in ("Write a function that doubles.\n", "Write a function that halves.\n"):
        harbor_task(tmp_path / "tasks" / "one", instruction_dot_md=prompt)
        found = held_out(load("benchmark", "harbor").at(str(tmp_path / "tasks")), "test")
        assert list(found.exact) == [prompt_hash(prompt)]


def test_foreign_rows_are_compared_with_benchmark_option(invoke: Invoke, tmp_path: Path) -> None:
    task = long_task()
    rows = [{"messages": [{"role": "user", "content": text}]} for text in ("What is new?", task.prompt)]
    data = tmp_path / "chats.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{\n")
    alone = invoke(leakage, data, "--against", "test")
    assert isinstance(alone.exception, WrongUseError) and "--benchmark" in str(alone.exception)
    done = invoke(leakage, data, "--against", "test", "--benchmark", "saasworld", "--json")
    found = json.loads(done.stdout)
    assert [leak["row"] for leak in found["leaks"]] == ["line 2"]
    assert [(row["row"], done.exit_code) for row in found["unreadable"]] == [("line 3", 1)]
    assert invoke(leakage, tmp_path / "no", "--against", "test").exception.exit_code == 2  # type: ignore[union-attr]


def test_pairs_with_the_same_instructions_are_different_tasks(invoke: Invoke, tmp_path: Path) -> None:
    leaked = tasks("test", 2)
    said = [[{"role": "assistant", "content": text}] for text in ("Yes.", "No.")]
    rows = [
        {
            "prompt": [{"role": "system", "content": "Help."}, {"role": "user", "content": task.prompt}],
            "chosen": said[0],
            "rejected": said[1],
        }
        for task in leaked
    ]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = invoke(leakage, tmp_path / "p.jsonl", "--against", "test", "--benchmark", "saasworld", "--json")
    found = json.loads(done.stdout)["leaks"]
    assert [leak["held_out_task"] for leak in found] == [task.id for task in leaked for _ in said]
    assert len({leak["task"] for leak in found}) == 2


def test_a_split_that_no_benchmark_has_is_refused(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record([attempt(task) for task in tasks("train", 2)], **SAAS)
    assert invoke(export, "--out", tmp_path / "d.jsonl").exit_code == 0
    for splits in (["trian"], ["test", "trian"]):
        against = [word for split in splits for word in ("--against", split)]
        done = invoke(leakage, tmp_path / "d.jsonl", *against)
        assert isinstance(done.exception, UnknownNameError), (done.output, done.exception)
        assert "'trian' (did you mean train" in str(done.exception)
    # AgentDojo does not have it, and saasworld does, without a task as long as there is no secret
    monkeypatch.setenv(variable("saasworld"), str(tmp_path / "none"))
    record([(planned(), Episode())], benchmark="agentdojo")
    for benchmark, code in (("agentdojo", 2), ("saasworld", 0)):
        options = [word for name in ("agentdojo", benchmark) for word in ("--benchmark", name)]
        assert invoke(export, *options, "--out", tmp_path / benchmark).exit_code == 0
        done = invoke(leakage, tmp_path / benchmark, "--against", "private", "--format", "trl")
        assert getattr(done.exception, "exit_code", 0) == code, (done.output, done.exception)


def test_rows_that_cannot_be_read_are_named_first(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text('{"messages": [{"role": "robot"}]}\n')
    done = invoke(leakage, tmp_path / "d.jsonl", "--against", "test", "--format", "openai")
    assert isinstance(done.exception, WrongUseError)
    assert "no row could be read" in str(done.exception)
    assert "line 1: message 0: unknown role 'robot'" in done.stderr


def test_the_similarity_is_a_number(invoke: Invoke, tmp_path: Path) -> None:
    """No text is similar enough for a limit that is none."""
    (tmp_path / "d.jsonl").write_text('{"messages": [{"role": "user", "content": "Hi"}]}\n')
    done = invoke(leakage, tmp_path / "d.jsonl", "--against", "test", "--similarity", "nan")
    assert done.exit_code == 2
    assert "nan is not a finite number" in done.output


def test_a_row_that_is_not_utf8_is_named(invoke: Invoke, tmp_path: Path) -> None:
    row = b'{"messages": [{"role": "user", "content": "Hi"}]}\n'
    (tmp_path / "d.jsonl").write_bytes(row.replace(b"Hi", b"\xed\xa0\x80") + row)
    options = ("--against", "test", "--benchmark", "saasworld", "--json")
    found = json.loads(invoke(leakage, tmp_path / "d.jsonl", *options).stdout)
    assert [(bad["row"], bad["reason"][:10]) for bad in found["unreadable"]] == [("line 1", "not UTF-8 ")]


def test_a_benchmark_that_is_not_installed_is_reported(invoke: Invoke, tmp_path: Path) -> None:
    record([(planned(), Episode()), (planned("b"), Episode())], benchmark="of-old")
    record([attempt(tasks("train", 1)[0])], **SAAS)
    done = invoke(export, "--out", tmp_path / "d.jsonl")
    assert done.exit_code == 0
    assert "not compared with held-out tasks: rows of of-old" in done.stderr
    logged = invoke(export, "--format", "inspect", "--out", tmp_path / "d.eval")
    assert "not compared with held-out tasks: rows of of-old" in logged.stderr
    for name in ("d.jsonl", "d.eval"):
        manifest = json.loads((tmp_path / f"{name}.manifest.json").read_text())
        assert manifest["not_compared"] == {"of-old": 2}


@pytest.mark.full
@pytest.mark.parametrize("name", ["agentdojo", "saasworld"])
def test_splits_of_our_benchmarks_share_no_task(invoke: Invoke, tmp_path: Path, name: str) -> None:
    benchmark = load("benchmark", name)
    stories = []
    for task in benchmark.tasks("train"):
        reference = benchmark.reference(task.id)
        calls = [(call.name, dict(call.arguments), "ok") for call in reference.calls]
        story = Episode(calls=calls, transcript=[Message(role="assistant", content=reference.answer)])
        stories.append((attempt(task)[0], story))
    record(stories, benchmark=name, benchmark_version=benchmark.version)
    assert invoke(export, "--out", tmp_path / "d.jsonl").exit_code == 0
    done = invoke(leakage, tmp_path / "d.jsonl", "--against", "test", "--json")
    found = json.loads(done.stdout)
    assert (found["leaks"], found["rows"]) == ([], len(stories))
