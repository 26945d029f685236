"""`mcp-bench record --run-tag --note`: words about a run from its start."""

import json

import pytest

pytestmark = pytest.mark.system


def test_a_run_begins_with_tags_and_a_note(bench) -> None:
    some = ("record", "--agent", "noop", "--benchmark", "notebook", "--limit", "1")
    refused = bench.run(*some, "--run-tag", "two words", code=2)
    assert "cannot be a run's tag" in refused.stderr
    assert not (bench.home / "runs").exists()
    bench.run(*some, "--run-tag", "baseline", "--run-tag", "sweep", "--note", "first try")
    (run,) = json.loads(bench.run("show", "--run-tag", "baseline", "--json").stdout)
    assert (run["tags"], run["note"]) == (["baseline", "sweep"], "first try")
    bench.run("record", "--resume", run["id"][:-1], "--run-tag", "again")  # a prefix is enough
    assert (bench.run("annotate", run["id"]).stdout.splitlines()) == [
        f"{run['id']}  again, baseline, sweep", "  first try",
    ]  # fmt: skip
    bench.run("verify")
