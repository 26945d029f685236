"""Scripted agents for `mcp-bench improve`: one that obeys its instructions, and one that proposes changes.

Both are stand-ins for agents with a model: they do what their script says, whatever the recordings are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp_bench.trainer.improve.gate import FEWEST_TASKS, halves
from tests.support.bench_commands import RPC

GOOD = "Knock before you leave a parcel."
BAD = "Do nothing at all."

OBEDIENT = (
    RPC
    + f"""
server = Server()
server.connect()
prompt = CONFIG["prompt"]
door = prompt.split("Leave the parcel at ")[1].split(".")[0]
if {BAD!r} not in prompt:
    if {GOOD!r} in prompt:
        server.call("knock", door=door)
    server.call("leave", door=door)
print("Done.")
"""
)

PROPOSING = (
    RPC
    + """
server = Server()
server.connect()
ANSWERS = open(__file__ + ".answers", "a")
number = open(__file__ + ".answers").read().count("begin")
print("begin", file=ANSWERS)
for tool, arguments in json.load(open(__file__ + ".calls"))[number]:
    answer = server.call(tool, **arguments)["result"]
    print(tool, json.dumps("".join(one["text"] for one in answer["content"])), file=ANSWERS, flush=True)
print("I have proposed something.")
"""
)


def obedient(folder: Path) -> Path:
    """Write the agent that leaves parcels as its instructions say, and return its file."""
    path = folder / "obedient.py"
    path.write_text(OBEDIENT, encoding="utf-8")
    return path


def proposing(folder: Path, sessions: Sequence[Sequence[tuple[str, dict[str, Any]]]]) -> Path:
    """Write the agent that makes these calls, one list in each session, and return its file.

    What the tools answered is in the file beside it, `.answers`.
    """
    path = folder / "proposing.py"
    path.write_text(PROPOSING, encoding="utf-8")
    path.with_name("proposing.py.calls").write_text(json.dumps(sessions), encoding="utf-8")
    return path


def dev_ids(folder: Path) -> Path:
    """Write the ids of tasks of `doors` with ten in each half of dev, and return their file."""
    sides = halves(f"{('oak', 'iron')[number % 2]}.1.dev.{number}" for number in range(40))
    path = folder / "dev.txt"
    path.write_text("\n".join(one for side in sides for one in side[:FEWEST_TASKS]), encoding="utf-8")
    return path


def lesson(name: str, text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls that add a lesson to the harness and propose it."""
    return [
        ("overview", {}),
        ("write_file", {"path": f"memory/{name}.md", "text": text}),
        ("propose_harness", {"reason": f"because of {name}"}),
    ]
