"""The experience server shows what an agent may learn from, and nothing of the tasks that measure it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from tests.support.bench_commands import Bench
from tests.support.harness_folder import PRESSED, write_harness
from tests.support.model_endpoint.endpoint import ModelEndpoint

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A home with runs of every split; on train a bad one, a good one, and one with a harness."""
    bench = Bench(tmp_path_factory.mktemp("experience") / "home", {"OPENAI_API_KEY": "k"})
    for split, limit, drop in (
        ("train", 4, "0.9"),
        ("train", 4, "0"),
        ("dev", 16, "0.5"),
        ("dev", 4, "1"),
        ("test", 4, "0.5"),
    ):
        options = ("--split", split, "--limit", str(limit), "--agent-option", f"drop={drop}")
        bench.run("record", "--agent", "oracle", *options)
    with ModelEndpoint([PRESSED]) as endpoint:
        bench.run(
            "record", "--agent", "chat", "--benchmark", "counter", "--task", "unsolved", "--model", "m",
            "--base-url", endpoint.openai_url, "--harness", write_harness(bench.home.parent / "calm"),
        )  # fmt: skip
    yield bench


def episodes(bench: Bench) -> list[StoredEpisode]:
    """Return all episodes, in the order of their runs."""
    found = []
    for path in sorted((bench.home / "runs").iterdir()):
        with RunReader(path) as reader:
            found += list(reader.episodes())
    return found


def asked(bench: Bench, *calls: tuple[str, dict[str, Any]], options: tuple[str, ...] = ()) -> list[str]:
    """Return the answers of the server on stdio."""

    async def ask() -> list[str]:
        command, *rest = bench.warm_command("experience", *options)
        server = StdioServerParameters(command=command, args=rest, env=bench.environment())
        async with Client(server) as client:
            return [answer(await client.call_tool(name, arguments)) for name, arguments in calls]

    return anyio.run(ask)


def answer(result: Any) -> str:
    text = "".join(block.text for block in result.content)
    return f"refused: {text}" if result.is_error else text


def test_scores_and_failures_of_train_are_shown(recorded: Bench) -> None:
    overview, failures, errors, lineage = asked(
        recorded,
        ("overview", {}),
        ("failures", {"by": "family"}),
        ("failures", {"by": "error"}),
        ("lineage", {}),
    )
    train, _, rest = overview.partition("\n\ndev, rounded to a standard error:\n")
    dev, _, families = rest.partition("\n\n")
    assert train.startswith("train:\ncounter chat m timeout 900, retries 0, harness calm@")
    assert train.count("\nsaasworld oracle") == 2
    assert dev.startswith(
        "saasworld oracle timeout 900, retries 0, options drop=0.5"
    )  # four tasks are too few
    assert dev.endswith("± 0.12")
    assert "the families with the lowest scores" in families
    assert "1 of 2 episodes | saasworld " in failures
    assert errors == "(none)"
    assert [line.split(" | ")[0].partition("@")[0] for line in lineage.splitlines()] == [
        "oracle no harness",
        "oracle no harness",
        "chat m calm",
    ]
    assert lineage.splitlines()[0].startswith("oracle no harness | drop=0.9 | partial ")


def test_conversations_are_found_and_shown(recorded: Bench) -> None:
    pressed = episodes(recorded)[-1].id
    found, whole, part, none = asked(
        recorded,
        ("search", {"words": "softly"}),
        ("episode", {"id": pressed}),
        ("episode", {"id": pressed[:-2], "first": 1, "turns": 1}),
        ("search", {"words": "nowhereatall"}),
    )
    number = found.removeprefix(f"{pressed} unsolved message ").partition(" ")[0]
    assert "Press once" in whole.partition(f"\n[{number}] ")[2].partition(f"\n[{int(number) + 2}] ")[0]
    assert "Press once, **softly**." in found
    assert f"{pressed} counter unsolved partial 1.00 solved 2 calls, 0 failed" in whole
    assert '-> read_skill {"name": "press-well"}' in whole
    assert "[1] user\nTask unsolved: press the button." in part
    assert part.endswith("5 more messages.")
    assert none == "Nothing was found."


def test_runs_and_harnesses_are_compared(recorded: Bench) -> None:
    runs = list(dict.fromkeys(one.run for one in episodes(recorded)))
    flips, wrong, lineage = asked(
        recorded,
        ("flips", {"before": runs[0], "after": runs[1]}),
        ("flips", {"before": runs[0], "after": "run_1"}),
        ("lineage", {}),
    )
    assert flips.startswith("4 common tasks, ")
    assert " lost" in flips
    assert flips.count("\ngained | saasworld ") >= 1
    assert wrong.startswith("refused: No episode of train is of 'run_1'")
    version = lineage.splitlines()[-1].split(" | ")[0].removeprefix("chat m ")
    files, text, missing = asked(
        recorded,
        ("harness", {"version": version}),
        ("harness", {"version": version, "path": "memory/once.md"}),
        ("harness", {"version": version, "path": "memory/one.md"}),
    )
    assert "INSTRUCTIONS.md" in files.splitlines()
    assert text.endswith("One press\nis enough.\n")
    assert missing == f"refused: {version} has no file 'memory/one.md' (did you mean memory/once.md?)."


def test_nothing_of_dev_and_test_is_shown(recorded: Bench) -> None:
    """Neither by listing, nor by naming it. Totals of dev are shown, rounded."""
    hidden = [one for one in episodes(recorded) if one.split != "train"]
    shown = asked(
        recorded,
        ("overview", {}), ("episodes", {"limit": 100}), ("lineage", {}),
        *[("failures", {"by": by, "limit": 100}) for by in ("tool", "error", "family")],
        *[("episode", {"id": one.id}) for one in hidden],
        *[("search", {"words": one.prompt, "limit": 100}) for one in hidden],
        *[("search", {"words": one.task, "limit": 100}) for one in hidden],
        *[("flips", {"before": one.run, "after": one.run}) for one in hidden],
    )  # fmt: skip
    for one in hidden:
        for text in shown:
            assert one.prompt not in text
            assert one.task not in text
            assert one.id not in text or text == f"refused: There is no episode {one.id!r}."
    assert "test" not in shown[0]


def test_assertions_are_shown_on_request_only(recorded: Bench) -> None:
    failed = next(one for one in episodes(recorded) if one.split == "train" and not one.strict)
    (plain,) = asked(recorded, ("episode", {"id": failed.id}))
    (revealed,) = asked(recorded, ("episode", {"id": failed.id}), options=("--reveal", "train"))
    assert "\nfailed: " in revealed
    assert "\nfailed: " not in plain
    assert revealed.endswith(plain.partition("\n")[2])


def test_the_effects_of_calls_are_shown_on_request(recorded: Bench) -> None:
    """Of calls, not of assertions: their names take --reveal."""
    good = next(one for one in episodes(recorded) if one.split == "train" and one.strict and one.calls > 1)
    hidden = next(one for one in episodes(recorded) if one.split == "dev")
    plain, shown, refused = asked(
        recorded,
        ("episode", {"id": good.id}),
        ("episode", {"id": good.id, "effects": True}),
        ("episode", {"id": hidden.id, "effects": True}),
    )
    labels = [line.rpartition(" [")[2] for line in shown.splitlines() if line.startswith("-> ")]
    assert len(labels) == good.calls
    assert "progress]" in labels
    assert set(labels) <= {"progress]", "neutral]"}
    assert " now" not in " ".join(labels)
    assert [line.partition(" [")[0] for line in shown.splitlines()] == [
        line.partition(" [")[0] for line in plain.splitlines()
    ]
    assert refused.startswith("refused: There is no episode")
    (revealed,) = asked(
        recorded, ("episode", {"id": good.id, "effects": True}), options=("--reveal", "train")
    )
    assert " holds now]" in revealed


def test_clients_over_http_need_the_token(recorded: Bench) -> None:
    command = recorded.command("experience", "--http", "0", "--run", episodes(recorded)[0].run)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=recorded.environment(), stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()

            async def ask(url: str) -> str:
                async with Client(url) as client:
                    return answer(await client.call_tool("episodes", {}))

            assert anyio.run(ask, url).endswith("4 episodes match.")
            base, _, rest = url.removeprefix("http://").partition("/")
            wrong = f"http://{base}/{'x' * len(rest.partition('/')[0])}/mcp"
            assert httpx2.post(wrong, json={}).status_code == 401
        finally:
            process.terminate()
    assert process.returncode == 0


ENDLESS = """
import runpy, sys, threading
from mcp_bench.bridge.experience import tools

def replay(*_):
    print("replaying", flush=True)
    threading.Event().wait()

tools.replay_of = replay
sys.argv = ["mcp-bench", "experience", "--http", "0"]
runpy.run_module("mcp_bench.bridge.cli.root", run_name="__main__")
"""


def test_ctrl_c_does_not_wait_for_a_replay(recorded: Bench) -> None:
    asked_for = {"id": episodes(recorded)[0].id, "effects": True}
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS], env=recorded.environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        read = process.stdout.readline
        url = read().strip()

        async def ask() -> None:
            with suppress(Exception):  # it ends without an answer
                async with Client(url) as client:
                    await client.call_tool("episode", asked_for)

        async def ended() -> int:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                assert await anyio.to_thread.run_sync(read) == "replaying\n"
                process.send_signal(signal.SIGINT)
                code = await anyio.to_thread.run_sync(process.wait, 60)
                tasks.cancel_scope.cancel()
            return code

        try:
            assert anyio.run(ended) == 0
        finally:
            process.kill()
