"""Recordings become Inspect logs, and come back unchanged."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.cli.import_ import import_
from mcp_bench.recorder.conversations.load import trajectory
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.runs.annotations import annotate
from mcp_bench.recorder.runs.find import run_paths
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.trajectory import FunctionCall, Message, ToolCall, Trajectory
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.component

Invoke = Callable[..., Result]
THINKING = [
    Message(
        role="assistant",
        content="I look.",
        reasoning="What is there?\n\nMoney.",
        tool_calls=[ToolCall(id="t1", function=FunctionCall(name="transfer", arguments={"amount": 12.5}))],
    ),
    Message(role="assistant", content="Sent — ÄÖ🙂."),
]


def recorded(**info: Any) -> None:
    record(
        [
            (planned("a/1"), Episode(transcript=THINKING, detail="the sum arrived")),
            (planned("a/1", repeat=1), Episode(partial=0.5, calls=[("transfer", {"amount": 1}, "!no")])),
            (planned("b", split="test"), Episode(partial=None, invalid="endpoint_error")),
        ],
        **{"model": "org/m", **info},
    )


def inside(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        return {name: json.loads(archive.read(name)) for name in archive.namelist()}


def written(invoke: Invoke, out: Path, *more: str) -> dict[str, Any]:
    result = invoke(export, "--format", "inspect", "--out", out, "--json", *more)
    assert result.exit_code == 0, (result.output, result.exception)
    return dict(json.loads(result.stdout))


def test_a_log_has_every_episode_of_a_run(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    recorded()
    manifest = written(invoke, tmp_path / "logs" / "x.eval")
    assert (manifest["rows"], [file["name"] for file in manifest["files"]]) == (3, ["x.eval"])
    log = inside(tmp_path / "logs" / "x.eval")
    assert {name for name in log if name.startswith("samples/")} == {
        "samples/a/1_epoch_1.json", "samples/a/1_epoch_2.json", "samples/b_epoch_1.json"
    }  # fmt: skip
    header = log["header.json"]
    spec = header["eval"]
    assert (spec["task"], spec["solver"], spec["model"]) == ("agentdojo", "oracle", "org/m")
    assert (spec["config"], spec["dataset"]["sample_ids"]) == ({"epochs": 2}, ["a/1", "b"])
    results = header["results"]
    assert (results["total_samples"], results["completed_samples"]) == (3, 2)
    assert {score["name"]: score["metrics"] for score in results["scores"]} == {
        "partial": {"mean": {"name": "mean", "value": 0.75, "params": {}}},
        "strict": {"accuracy": {"name": "accuracy", "value": 0.5, "params": {}}},
    }
    first, failed = log["samples/a/1_epoch_1.json"], log["samples/b_epoch_1.json"]
    call = first["messages"][1]["tool_calls"][0]
    assert (call["function"], call["arguments"]) == ("transfer", {"amount": 12.5})
    assert first["messages"][1]["content"][0] == {
        "type": "reasoning",
        "reasoning": "What is there?\n\nMoney.",
    }
    assert first["scores"]["partial"]["explanation"] == "+ sent: the sum arrived"
    assert first["model_usage"] == {"org/m": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}}
    assert log["samples/a/1_epoch_2.json"]["messages"][2]["error"]["message"] == "!no"
    assert (failed["error"]["message"], failed["scores"]) == ("endpoint_error", None)
    kinds = [event["event"] for event in first["events"]]
    assert kinds == ["sample_init", "model", "tool", "model", "score", "score"]
    assert [one["id"] for one in log["summaries.json"]] == ["a/1", "a/1", "b"]


def stored() -> list[Trajectory]:
    found = []
    for path in run_paths():
        with RunReader(path) as reader:
            found += [trajectory(reader, episode) for episode in reader.episodes()]
    return found


def test_what_is_imported_equals_what_was_recorded(
    bench_home: Path, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded()
    were = {(one.task, one.seed, index): one for index, one in enumerate(stored())}
    written(invoke, tmp_path / "x.eval")
    assert "imported 0 episodes" in invoke(import_, tmp_path / "x.eval").stdout  # they are all here
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "other"))
    result = invoke(import_, tmp_path / "x.eval")
    assert "imported 3 episodes as inspect" in result.stdout, (result.output, result.exception)
    now = {
        (one.task, one.seed, index): one for index, one in enumerate(sorted(stored(), key=lambda t: t.task))
    }
    assert now.keys() == were.keys()
    marks = {"id", "isolation", "verified", "taint"}
    for slot, one in now.items():
        assert one.model_dump(exclude=marks) == were[slot].model_dump(exclude=marks)
        assert (one.isolation, one.verified, one.taint) == ("none", False, "unknown")
    with RunReader(run_paths()[0]) as reader:
        (graded,) = [e for e in reader.episodes() if e.partial == 1.0]
        assert reader.assertions(graded.id)[0]["detail"] == "the sum arrived"
        assert (reader.metrics(graded.id), graded.termination) == ({"steps": 1}, "agent_exit")


def test_each_run_agent_and_model_has_its_log(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    recorded()
    recorded(model=None, agent="codex")
    manifest = written(invoke, tmp_path / "all.eval")
    assert [(file["agent"], file["model"], file["rows"]) for file in manifest["files"]] == [
        ("oracle", "org/m", 3), ("codex", None, 3)
    ]  # fmt: skip
    names = [file["name"] for file in manifest["files"]]
    assert names[0].startswith("all-oracle-org-m-run_") and names[1].startswith("all-codex-run_")
    assert inside(tmp_path / names[1])["header.json"]["eval"]["model"] == "none/none"
    assert written(invoke, tmp_path / "one.eval", "--agent", "codex")["rows"] == 3


def test_the_same_recordings_give_the_same_bytes(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    recorded()
    for name in ("x.eval", "y.eval"):
        written(invoke, tmp_path / name)
    assert (tmp_path / "x.eval").read_bytes() == (tmp_path / "y.eval").read_bytes()


def test_the_rules_of_export_apply_when_they_are_named(
    bench_home: Path, invoke: Invoke, tmp_path: Path
) -> None:
    recorded()
    assert written(invoke, tmp_path / "a.eval", "--min-partial", "0.6")["rows"] == 1
    assert written(invoke, tmp_path / "b.eval", "--split", "test")["rows"] == 1
    written(invoke, tmp_path / "c.eval", "--reasoning", "drop")
    assert "What is there" not in json.dumps(inside(tmp_path / "c.eval"))


def test_redaction_reaches_every_text_of_a_log(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    """A value has one placeholder in its sample. Names and times stay, also of calls whose arguments change."""
    address, key = "ann@mail.example", "sk-" + "aB3" * 12
    story = Episode(
        calls=[("transfer", {"to": address, "key": key}, f"sent to {address}"), ("transfer", {}, f"!{key}")],
        transcript=[Message(role="assistant", content=f"Sent to {address}.", reasoning=f"With {key}.")],
        answer=f"Sent to {address}.",
        assertion=f"mail with {key}",
        detail=f"{address} got it",
        partial=0.5,
    )
    slot = planned("tool_calls").model_copy(update={"prompt": f"Write to {address} with {key}."})
    # a secret that is also a word of the format, and the name of the task
    unlucky = Episode(calls=[("transfer", {"password": "tool_calls"}, "done")], partial=None, invalid="crash")
    record([(slot, story), (slot.model_copy(update={"repeat": 1}), unlucky)])
    written(invoke, tmp_path / "plain.eval")
    written(invoke, tmp_path / "x.eval", "--redact", "emails", "--redact", "secrets")
    plain, log = inside(tmp_path / "plain.eval"), inside(tmp_path / "x.eval")
    assert log.keys() == plain.keys()
    assert address in json.dumps(plain) and key in json.dumps(plain)
    assert address not in json.dumps(log) and key not in json.dumps(log)
    sample, other = (log[f"samples/tool_calls_epoch_{epoch}.json"] for epoch in (1, 2))
    assert sample["input"] == sample["events"][0]["sample"]["input"] == "Write to [EMAIL_1] with [SECRET_1]."
    score = sample["scores"]["partial"]
    assert (score["answer"], score["explanation"]) == (
        "Sent to [EMAIL_1].", "- mail with [SECRET_1]: [EMAIL_1] got it"
    )  # fmt: skip
    assert sample["events"][2]["arguments"] == {"to": "[EMAIL_1]", "key": "[SECRET_1]"}
    assert log["summaries.json"][0]["input"] == sample["input"]
    assert other["events"][2]["arguments"] == {"password": "[SECRET_2]"}
    assert other["events"][1]["output"]["choices"][0]["stop_reason"] == "tool_calls"
    for name in (one for one in log if one.startswith("samples/")):
        times = [[event["timestamp"], event.get("completed")] for event in log[name]["events"]]
        assert times == [[event["timestamp"], event.get("completed")] for event in plain[name]["events"]]


def test_redaction_reaches_what_another_source_says(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    """Only imported episodes have metrics with texts."""
    row = {
        "example_id": 1, "task": "mail", "reward": 0.5, "info": {}, "prompt": [{"role": "user", "content": "Hi"}],
        "completion": [{"role": "assistant", "content": "Ho"}], "metrics": {"judge": "ann@mail.example is right"},
    }  # fmt: skip
    error = {"error": "ModelError", "error_chain_str": "no answer for bob@mail.example"}
    folder = tmp_path / "evals" / "desk" / "1"
    folder.mkdir(parents=True)
    lines = [row, {**row, "example_id": 2, "error": error}]
    (folder / "results.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert "imported 2 episodes as verifiers" in invoke(import_, tmp_path / "evals").stdout
    written(invoke, tmp_path / "x.eval", "--redact", "emails")
    good, failed = (one for name, one in inside(tmp_path / "x.eval").items() if name.startswith("samples/"))
    assert good["scores"]["partial"]["metadata"]["metrics"] == {"judge": "[EMAIL_1] is right"}
    assert failed["error"]["message"].endswith("no answer for [EMAIL_1]")
    assert "@" not in json.dumps([good, failed])


def test_a_run_tag_chooses_the_runs(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    folder, _ = record([(planned("a"), Episode())])
    record([(planned("b"), Episode())])
    annotate(folder.path, add=["baseline"])
    assert written(invoke, tmp_path / "x.eval", "--run-tag", "baseline")["runs"].keys() == {folder.id}


def test_what_is_left_out_is_named_with_its_rule(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    folder, (_, worse) = record([(planned("a"), Episode()), (planned("b"), Episode(partial=0.5))])
    manifest = written(invoke, tmp_path / "x.eval", "--strict")
    beside = tmp_path / manifest["left_out"]
    assert json.loads(beside.read_text()) == {folder.id: {"not_strict": [worse]}}
    assert manifest["rules"] == {"not_strict": "not strictly solved"}
    assert written(invoke, tmp_path / "x.eval", "--force")["left_out"] is None
    assert not beside.exists()


def test_the_grade_of_an_invalid_episode_does_not_count(
    bench_home: Path, invoke: Invoke, tmp_path: Path
) -> None:
    """As in the reports. Other tools grade what failed to run."""
    rows = [
        {"example_id": at, "prompt": "Go.", "completion": "Gone.", "reward": 1 - at, "error": at and "broken"}
        for at in range(2)
    ]
    (tmp_path / "results.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert invoke(import_, tmp_path / "results.jsonl").exit_code == 0
    assert written(invoke, tmp_path / "x.eval")["rows"] == 2
    log = inside(tmp_path / "x.eval")
    assert [one["scores"]["partial"]["value"] for one in log["summaries.json"]] == [1.0, 0.0]
    results = log["header.json"]["results"]
    assert results["completed_samples"] == 1
    for score in results["scores"]:
        (metric,) = score["metrics"].values()
        assert (metric["value"], score["scored_samples"], score["unscored_samples"]) == (1.0, 1, 1)


def test_a_run_whose_folder_was_renamed_is_written(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    folder, _ = record([(planned("a"), Episode())])
    record([(planned("b"), Episode())])
    folder.path.rename(folder.path.with_name("kept"))
    manifest = written(invoke, tmp_path / "x.eval")
    assert (manifest["rows"], manifest["files"][0]["rows"], len(manifest["files"])) == (2, 1, 2)
    assert folder.id in manifest["runs"]


def test_a_damaged_run_is_named_and_nothing_written(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    record([(planned("a"), Episode())])
    broken, _ = record([(planned("b"), Episode())])
    (broken.path / "recordings.db").write_bytes(b"no database")
    result = invoke(export, "--format", "inspect", "--out", tmp_path / "x.eval")
    assert isinstance(result.exception, StorageError)
    assert broken.id in str(result.exception)
    assert not (tmp_path / "x.eval").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--out", "x.jsonl"), "ends in .eval: --out x.eval"),
        (("--out", "x.eval", "--pairs"), "--pairs makes training data"),
        (("--out", "x.eval", "--shard-size", "2"), "--shard-size makes training data"),
        (("--out", "x.eval", "--license", "mit"), "--license makes training data"),
        (("--out", "x.eval", "--margin", "0.2"), "--margin makes training data"),
        (("--out", "x.eval", "--run", "run_0"), "run_0"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(
    bench_home: Path, invoke: Invoke, arguments: tuple[str, ...], words: str
) -> None:
    recorded()
    assert words in str(invoke(export, "--format", "inspect", *arguments).exception)


def test_an_existing_log_is_kept_without_force(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    recorded()
    written(invoke, tmp_path / "x.eval")
    before = (tmp_path / "x.eval").read_bytes()
    assert "--force" in str(invoke(export, "--format", "inspect", "--out", tmp_path / "x.eval").exception)
    written(invoke, tmp_path / "x.eval", "--force")
    assert (tmp_path / "x.eval").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(("x", "."))) == [
        "x.eval", "x.eval.manifest.json"
    ]  # fmt: skip


def test_equal_attempts_come_back_as_two(
    bench_home: Path, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent without luck does the same in each epoch."""
    record([(planned("a"), Episode()), (planned("a", repeat=1), Episode())])
    written(invoke, tmp_path / "x.eval")
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "other"))
    assert "imported 2 episodes" in invoke(import_, tmp_path / "x.eval").stdout
    assert "imported 0 episodes as inspect, 2 were" in invoke(import_, tmp_path / "x.eval").stdout


def test_what_may_not_be_trained_on_stays_so(
    bench_home: Path, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record([(planned("kept", trainable=False), Episode()), (planned("free"), Episode())])
    written(invoke, tmp_path / "x.eval")
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "other"))
    assert "imported 2 episodes" in invoke(import_, tmp_path / "x.eval").stdout
    done = invoke(export, "--out", tmp_path / "rows.jsonl", "--json")
    assert json.loads((tmp_path / "rows.jsonl").read_text())["task"] == "free"
    assert json.loads(done.stdout)["funnel"]["dropped"]["not_for_training"] == 1


def test_private_episodes_are_left_out_unless_they_are_named(
    bench_home: Path, invoke: Invoke, tmp_path: Path
) -> None:
    record([(planned("open"), Episode()), (planned("held", split="private"), Episode())])
    manifest = written(invoke, tmp_path / "x.eval")
    assert (manifest["rows"], manifest["funnel"]["dropped"]["private"]) == (1, 1)
    assert "held" not in (tmp_path / "x.eval.manifest.json").read_text()
    assert written(invoke, tmp_path / "y.eval", "--split", "private")["rows"] == 1
    assert written(invoke, tmp_path / "z.eval", "--split", "all", "--split", "private")["rows"] == 2


def test_models_whose_names_begin_alike_have_logs_of_their_own(
    bench_home: Path, invoke: Invoke, tmp_path: Path
) -> None:
    rows = [
        {
            "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}],
            "model": f"/models/{'long-name-' * 6}checkpoint-{number}",
            "partial": 1.0,
        }
        for number in (100, 200)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert invoke(import_, tmp_path / "rows.jsonl").exit_code == 0
    manifest = written(invoke, tmp_path / "logs" / "x.eval")
    models = {file["name"]: file["model"] for file in manifest["files"]}
    assert sorted(models.values()) == [row["model"] for row in rows]
    for name, model in models.items():
        assert inside(tmp_path / "logs" / name)["header.json"]["eval"]["model"] == model


def test_force_replaces_the_logs_of_an_earlier_export(
    bench_home: Path, invoke: Invoke, tmp_path: Path
) -> None:
    folder, _ = record([(planned("a"), Episode())])
    record([(planned("b"), Episode())])
    written(invoke, tmp_path / "logs" / "x.eval")
    (tmp_path / "logs" / "x-mine.eval").write_text("mine")
    written(invoke, tmp_path / "logs" / "x.eval", "--run", folder.id, "--force")
    names = ["x-mine.eval", "x.eval", "x.eval.manifest.json"]
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == names


@pytest.mark.parametrize(
    "manifest",
    ["no JSON", "[]", '{"files": 3}', '{"files": [3, {"name": "../x-a.eval"}, {"name": "y.eval"}]}'],
)
def test_an_odd_manifest_removes_nothing(
    bench_home: Path, invoke: Invoke, tmp_path: Path, manifest: str
) -> None:
    record([(planned("a"), Episode())])
    for name in ("x-a.eval", "logs/y.eval"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    (tmp_path / "logs" / "x.eval.manifest.json").write_text(manifest)
    written(invoke, tmp_path / "logs" / "x.eval", "--force")
    assert [(tmp_path / name).read_text() for name in ("x-a.eval", "logs/y.eval")] == ["mine", "mine"]
