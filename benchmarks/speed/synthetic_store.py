"""Make a store of the size of a leaderboard: 12 models, 28,800 graded attempts, about 650,000 calls.

It is the same each time, for a version of saasworld, whose tasks, prompts and tools it has. Texts of agents
and tools are random words of typical length. Rows are written in bulk without tags, so `mcp-bench verify`
refuses the store, and without frames, which neither report nor export reads.

    python benchmarks/speed/synthetic_store.py FOLDER     # then MCP_BENCH_HOME=FOLDER mcp-bench report
"""

import json
import random
import shutil
import sqlite3
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio

from mcp_bench.recorder.records import PlannedEpisode, RunInfo
from mcp_bench.recorder.runs.run_folder import GRADES, RECORDINGS, RunFolder
from mcp_bench.servers.contracts import Task
from mcp_bench.servers.registry import load

MODELS, TASKS, ATTEMPTS = 12, 800, 3
CALLS_LEAST, CALLS_MOST = 4, 41
START_US = 1_767_571_200_000_000
WORDS = [
    f"{word}{number}"
    for word in ("account", "invoice", "deal", "ticket", "quote", "order", "report", "claim")
    for number in range(100)
]


def main(home: Path, share: float = 1.0, attempts: int = ATTEMPTS) -> None:
    """Make the store in the folder `home`, with a `share` of the tasks, as many as there are.

    Raises:
        SystemExit: there is one.
    """
    runs, beside = home / "runs", home / "runs.new"  # so that half a store is never taken for a whole one
    if runs.exists():
        raise SystemExit(f"there are runs in {home} already: choose another folder")
    shutil.rmtree(beside, ignore_errors=True)
    benchmark = load("benchmark", "saasworld")
    tasks = list(benchmark.tasks("train", int(TASKS * share)))
    tools = [anyio.run(_tools, benchmark, task.id) for task in tasks]
    for model in range(MODELS):
        _write_run(beside, model, benchmark.version, tasks, tools, attempts)
    beside.rename(runs)


async def _tools(benchmark: Any, task: str) -> str:
    world = await benchmark.open(task)
    schemas = [
        {
            "type": "function",
            "function": {"name": t.name, "description": t.description, "parameters": t.input_schema},
        }
        for t in world.tools()
    ]
    await world.close()
    return json.dumps(schemas)


def _write_run(
    root: Path, model: int, version: str, tasks: list[Task], tools: list[str], attempts: int
) -> None:
    slots = [(task, repeat) for task in range(len(tasks)) for repeat in range(attempts)]
    plan = [
        PlannedEpisode(
            task=tasks[task].id,
            split="train",
            domain=tasks[task].domain,
            prompt=tasks[task].prompt,
            repeat=repeat,
        )
        for task, repeat in slots
    ]
    info = RunInfo(
        id=f"run_synthetic{model:02d}",
        created_us=START_US,
        benchmark="saasworld",
        benchmark_version=version,
        agent="chat",
        agent_version="1",
        model=f"model-{model:02d}",
        isolation="uid",
        home="sealed",
        tools="mcp-only",
        plan=plan,
    )
    with RunFolder.create(info, root=root) as folder:
        path = folder.path
    recordings, grades = sqlite3.connect(path / RECORDINGS), sqlite3.connect(path / GRADES)
    for database in (recordings, grades):
        database.execute("PRAGMA journal_mode=OFF")
        database.execute("PRAGMA synchronous=OFF")
    draw = random.Random(f"synthetic {model}")
    for number, (task, repeat) in enumerate(slots):
        episode = f"ep_s{model:02d}x{number:05d}"
        calls = draw.randint(CALLS_LEAST, CALLS_MOST)
        _write_episode(recordings, draw, episode, info.id, number, tasks[task], repeat, tools[task], calls)
        solved = draw.random() < 0.2 + model / 20
        partial = 1.0 if solved else round(draw.random() * 0.99, 2)
        row = (episode, partial, int(solved), "[]", "{}", "1", "null", START_US + number)
        grades.execute("INSERT INTO grades VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL)", row)
        grades.execute("INSERT INTO scans VALUES (?, 'clean', '[]', '1', ?, NULL, NULL)", (episode, START_US))
    for database in (recordings, grades):
        database.commit()
        database.close()


def _write_episode(
    db: sqlite3.Connection,
    draw: random.Random,
    episode: str,
    run: str,
    number: int,
    task: Task,
    repeat: int,
    tools: str,
    calls: int,
) -> None:
    begun = START_US + number * 60_000_000
    db.execute(
        "INSERT INTO episodes (id, run, task, split, domain, prompt, seed, repeat, attempt, tools,"
        " started_us, ended_us, termination, exit_code, answer, usage, connections) VALUES"
        " (?, ?, ?, 'train', ?, ?, 0, ?, 1, ?, ?, ?, 'agent_exit', 0, 'Done.', ?, 1)",
        (
            episode,
            run,
            task.id,
            task.domain,
            task.prompt,
            repeat,
            tools,
            begun,
            begun + 50_000_000,
            '{"input_tokens": 9000, "output_tokens": 700}',
        ),
    )
    names = [tool["function"]["name"] for tool in json.loads(tools)]
    made = [(draw.choice(names), _arguments(draw), draw.random() < 0.07) for _ in range(calls)]
    db.executemany(
        "INSERT INTO calls (episode, connection, rpc_id, tool, arguments, execution, outcome, started_us,"
        " ended_us, request_frame, response_frame, tag) VALUES (?, 1, ?, ?, ?, ?, ?, ?, ?, 0, 0, x'')",
        (
            (episode, str(n), tool, arguments, n, "tool_error" if failed else "ok", begun + n, begun + n + 1)
            for n, (tool, arguments, failed) in enumerate(made, start=1)
        ),
    )
    db.executemany(
        "INSERT INTO messages (episode, position, role, content, reasoning, tool_calls, tool_call_id, name,"
        " is_error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        ((episode, place, *row) for place, row in enumerate(_messages(draw, task.prompt, made))),
    )


def _messages(
    draw: random.Random, prompt: str, made: list[tuple[str, str, bool]]
) -> Iterator[tuple[Any, ...]]:
    yield "user", prompt, None, None, None, None, 0
    for n, (tool, arguments, failed) in enumerate(made, start=1):
        function = f'{{"name": "{tool}", "arguments": {arguments}}}'
        call = f'[{{"id": "c{n}", "type": "function", "function": {function}}}]'
        yield "assistant", None, _words(draw, 12), call, None, None, 0
        yield (
            "tool",
            json.dumps({"records": [_record(draw) for _ in range(2)]}),
            None,
            None,
            f"c{n}",
            tool,
            int(failed),
        )
    yield "assistant", f"Done: {_words(draw, 20)}.", None, None, None, None, 0


def _arguments(draw: random.Random) -> str:
    return json.dumps({"query": _words(draw, 3), "id": _words(draw, 1), "limit": draw.randint(1, 50)})


def _record(draw: random.Random) -> dict[str, Any]:
    return {"id": draw.randint(1, 10**6), "name": _words(draw, 2), "note": _words(draw, 8), "open": True}


def _words(draw: random.Random, count: int) -> str:
    return " ".join(draw.choices(WORDS, k=count))


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("share", type=float, nargs="?", default=1.0, help="of the tasks; default: all 800")
    given = parser.parse_args()
    main(given.folder, given.share)
