"""What an agent in the sandbox of its task may try. It gets the task's files, and nothing of the referee."""

from __future__ import annotations

import json
import os
import socket
import sysconfig
import tempfile
from pathlib import Path

import pytest

from mcp_bench.bridge.sandbox.engine import engines
from mcp_bench.servers import contracts
from tests.support.attacks.places import greeter
from tests.support.bench_commands import RPC, Bench
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.requirements import needs

BWRAP = engines()["bwrap"]
pytestmark = [pytest.mark.system, needs("bwrap", BWRAP.support().works, BWRAP.support().detail)]
TASK = "access-log.1.dev.0"
AGENT = Path(__file__).parents[1] / "support" / "attacks" / "inside_agent.py"


def processes() -> str:
    """Return the command lines of the machine."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(place.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it has ended
    return "\n".join(found)


def test_an_agent_inside_reaches_nothing_of_the_referee(bench: Bench) -> None:
    bench.environ["MCP_BENCH_ISOLATION"] = "auto"
    secret = bench.home.parent / "secret"
    secret.write_text("a file of the user's\n")
    marker = f"outlives-{os.getpid()}"
    program = bench.home.parent / f"{marker}.py"
    with socket.create_server(("127.0.0.1", 0)) as tcp, greeter() as abstract, ModelEndpoint([]) as endpoint:
        places = {
            "home": str(bench.home), "user": str(secret), "tests": str(Path(__file__).parent),
            "benchmark": str(Path(contracts.__file__).parent), "packages": sysconfig.get_path("purelib"),
            "state": f"{tempfile.gettempdir()}/mcp-bench-box-*", "pid": os.getpid(), "agent": str(program),
            "port": tcp.getsockname()[1], "abstract": abstract[1:], "marker": marker,
        }  # fmt: skip
        program.write_text(RPC + AGENT.read_text().replace("@PLACES@", json.dumps(places)))
        done = bench.run(
            "record", "--agent", "script", "--agent-option", f"file={program}", "--benchmark", "codeworld",
            "--task", TASK, "--tools", "all", "--base-url", endpoint.openai_url, "--timeout", "200", "--json",
        )  # fmt: skip
    assert json.loads(done.stdout)["strict"] == 0
    [episode] = bench.rows("select * from episodes")
    outcome = json.loads(episode["answer"])
    assert outcome.pop("its own work")  # the attempts below fail for another reason than a broken program
    assert outcome.pop("its own relay")
    assert [name for name, succeeded in outcome.items() if succeeded] == []
    assert len(outcome) > 30
    assert marker not in processes()
    state = json.loads(bench.rows("select final_state from grades", database="grades.db")[0]["final_state"])
    assert "/work/late" in [change["path"] for change in state["changes"]]  # it did run
    assert bench.rows("select * from flags") == []
