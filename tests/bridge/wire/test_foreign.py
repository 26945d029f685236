"""`mcp-bench record --server` records any agent with any MCP server, without grades."""

import json
import os
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import DESK_SERVER
from tests.support.desk.desk_over_http import desk_on_http
from tests.support.processes.forked import script_command

pytestmark = pytest.mark.system

Write = Callable[[str], str]
DESK = DESK_SERVER
SCRIPT = ("--agent", "script", "--prompt", "Add one and two.")
ADDS = """
server = Server()
listed = server.connect()
print(server.call("add", a=1, b=2)["result"]["content"][0]["text"])
"""


def stdio() -> str:
    """Return the command line of the desk server."""
    return shlex.join(script_command(DESK))


def test_an_episode_with_a_third_party_server_is_recorded(bench, script: Write, tmp_path: Path) -> None:
    done = bench.run("record", "--server", stdio(), *SCRIPT, "--agent-option", script(ADDS), "--json")
    assert json.loads(done.stdout)["recorded"] == 1
    assert "recorded, not graded" in done.stderr
    (episode,) = bench.rows("select * from episodes")
    assert (episode["prompt"], episode["answer"], episode["invalid"]) == ("Add one and two.", "3", None)
    assert (episode["termination"], episode["connections"]) == ("agent_exit", 1)
    assert "desk.tidy" in [tool["function"]["name"] for tool in json.loads(episode["tools"])]
    assert bench.rows("select tool, outcome from calls") == [{"tool": "add", "outcome": "ok"}]
    messages = bench.rows("select role, content from messages order by position")
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert messages[2]["content"] == "3"
    (run,) = bench.rows("select * from runs")
    assert (run["benchmark"], run["graded"]) == ("server", 0)
    assert json.loads(run["settings"])["server"] == shlex.split(stdio())
    assert bench.grades() == []
    (row,) = bench.report()
    assert (row["episodes"], row["ungraded"], row["invalid"], row["strict"]) == (1, 1, 0, None)
    assert "Add one and two." in bench.run("show", episode["id"]).stdout
    refused = bench.run("export", "--split", "all", "--out", tmp_path / "out.jsonl", code=3).stderr
    assert "1 without a grade" in refused
    (listed,) = json.loads(bench.run("show", "--json").stdout)
    assert (listed["planned"], listed["done"]) == (1, 1)


def test_each_prompt_is_a_task(bench, script: Write, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("From a file.")
    says = "Server().connect(); print(sys.stdin.read())"
    bench.run(
        "record", "--server", stdio(), "--agent", "script", "--agent-option", script(says), "--prompt", "One.",
        "--prompt-file", prompt, "--repeat", "2", "--jobs", "2",
    )  # fmt: skip
    rows = bench.rows("select task, repeat, prompt from episodes order by task, repeat")
    assert [(row["task"], row["repeat"], row["prompt"]) for row in rows] == [
        ("prompt_1", 0, "One."), ("prompt_1", 1, "One."),
        ("prompt_2", 0, "From a file."), ("prompt_2", 1, "From a file."),
    ]  # fmt: skip


def test_the_server_runs_for_the_operator(bench, script: Write, tmp_path: Path) -> None:
    """It has the operator's environment, and runs outside the agent's process tree."""
    server = tmp_path / "server.py"
    server.write_text(
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        "    message = json.loads(line)\n"
        "    facts = {'pid': os.getpid(), 'mark': os.environ.get('MARK'), 'home': os.environ['HOME']}\n"
        "    if 'id' in message: print(json.dumps({'id': message['id'], 'result': facts}), flush=True)\n"
        "print('the end', file=sys.stderr)\n"
    )
    bench.environ["MARK"] = "the-operators"
    looks = """
server = Server()
facts = server.ask("initialize")["result"]
server.ask("tools/list")
parents = {}
for pid in filter(str.isdigit, os.listdir("/proc")):
    try: parents[int(pid)] = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
    except OSError: pass
pid, above = facts["pid"], []
while pid in parents: pid = parents[pid]; above.append(pid)
print(json.dumps({**facts, "below_me": os.getpid() in above, "mine": os.environ.get("MARK")}))
"""
    bench.run("record", "--server", f"{sys.executable} {server}", *SCRIPT, "--agent-option", script(looks))
    (episode,) = bench.rows("select id, answer from episodes")
    facts = json.loads(episode["answer"])
    assert (facts["mark"], facts["mine"], facts["below_me"]) == ("the-operators", None, False)
    assert facts["home"] == str(bench.home.parent)
    assert not Path(f"/proc/{facts['pid']}").exists()
    log = bench.run_folder / "logs" / f"{episode['id']}.server.log"
    assert log.read_text() == "the end\n"  # it had time to exit by itself


@pytest.mark.parametrize("code", [0, 3])
def test_a_server_that_dies_makes_the_episode_invalid(
    bench, script: Write, tmp_path: Path, code: int
) -> None:
    """Resuming the run repeats the episode."""
    flag = tmp_path / "flag"
    server = tmp_path / "server.py"
    server.write_text(
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        "    message = json.loads(line)\n"
        f"    if message['method'] == 'tools/call' and not os.path.exists({str(flag)!r}): sys.exit({code})\n"
        "    if 'id' in message: print(json.dumps({'id': message['id'], 'result': {}}), flush=True)\n"
    )
    calls = "server = Server(); server.connect(); print(server.call('x') is None)"
    command = f"{sys.executable} {server}"
    done = bench.run("record", "--server", command, *SCRIPT, "--agent-option", script(calls), code=1)
    assert f"server_died (The server ended with exit code {code}" in done.stderr
    (episode,) = bench.rows("select invalid, answer from episodes")
    assert episode == {"invalid": "server_died", "answer": "True"}
    assert bench.rows("select outcome from calls") == [{"outcome": "transport_error"}]
    flag.touch()
    bench.run("record", "--resume", bench.run_folder.name)
    rows = bench.rows("select attempt, invalid, answer from episodes order by id")
    assert [(row["attempt"], row["invalid"]) for row in rows] == [(1, "server_died"), (2, None)]
    assert bench.run("record", "--resume", bench.run_folder.name, "--json").returncode == 0
    assert len(bench.rows("select id from episodes")) == 2


def test_nothing_of_a_server_outlives_its_connection(bench, script: Write, tmp_path: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text(
        "import json, os, signal, subprocess, sys, time\n"
        "signal.signal(15, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "for line in sys.stdin:\n"
        "    message = json.loads(line)\n"
        "    facts = {'pids': [os.getpid(), child.pid]}\n"
        "    if 'id' in message: print(json.dumps({'id': message['id'], 'result': facts}), flush=True)\n"
        "time.sleep(600)\n"
    )
    says = "server = Server(); server.connect(); print(json.dumps(server.call('x')['result']['pids']))"
    bench.run("record", "--server", f"{sys.executable} {server}", *SCRIPT, "--agent-option", script(says))
    (episode,) = bench.rows("select invalid, answer from episodes")
    assert episode["invalid"] is None
    assert not [pid for pid in json.loads(episode["answer"]) if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--server", "no-such-server", *SCRIPT), "no command 'no-such-server'"),
        (("--server", "'", *SCRIPT), "is not a command line"),
        (("--server", " ", *SCRIPT), "is empty"),
        (("--server", "cat", "--agent", "noop"), "--prompt or --prompt-file"),
        (("--server", "cat", "--agent", "noop", "--prompt", " "), "a prompt is empty"),
        (
            ("--server", "cat", "--agent", "noop", "--prompt", "x", "--split", "dev"),
            "without a benchmark: leave out --split",
        ),
        (
            ("--server", "cat", "--agent", "noop", "--prompt", "x", "--benchmark", "b"),
            "leave out --benchmark",
        ),
        (("--agent", "noop", "--prompt", "x"), "a prompt needs --server: leave out --prompt"),
        (("--server", "cat", "--agent", "oracle", "--prompt", "x"), "replays a benchmark's solutions"),
        (
            ("--server", "http://127.0.0.1:1/mcp", "--agent", "priced", "--prompt", "x"),
            "does not support streamable HTTP",
        ),
        (("--server", "http://u:p@127.0.0.1:1/mcp", *SCRIPT), "logins are never stored"),
        (("--server", "http://127.0.0.1:1/mcp?key=x", *SCRIPT), "`mcp-bench proxy --http 0 URL`"),
        (("--server", "http://[bad/mcp", *SCRIPT), "'http://[bad/mcp' is not a URL"),
        (("--server", "http://127.0.0.1:99999/mcp", *SCRIPT), "is not a URL"),
    ],
)
def test_wrong_options_are_refused_before_a_run_is_created(bench, options, message: str) -> None:
    done = bench.run("record", *options, code=None)
    assert done.returncode in (1, 2) and message in done.stderr and "Traceback" not in done.stderr
    assert not (bench.home / "runs").exists()


@pytest.mark.parametrize("agent", ["noop", "chat"])
def test_an_agent_works_with_a_server_at_a_url(bench, agent: str) -> None:
    from tests.support.model_endpoint.endpoint import ModelEndpoint
    from tests.support.model_endpoint.script import script_from_reference

    calls = [{"name": "add", "arguments": {"a": 1, "b": 2}}]
    wanted = script_from_reference("Add one and two.", {"calls": calls, "answer": "It is 3."})
    with desk_on_http() as url, ModelEndpoint([wanted], api_key="dummy") as endpoint:
        bench.environ["OPENAI_API_KEY"] = "dummy"
        model = ("--model", "scripted", "--base-url", endpoint.openai_url) if agent == "chat" else ()
        bench.run(
            "record", "--server", url, "--agent", agent, "--prompt", "Add one and two.", *model,
        )  # fmt: skip
    (episode,) = bench.rows("select * from episodes")
    assert (episode["invalid"], episode["termination"]) == (None, "agent_exit")
    assert episode["connections"] >= 1
    made = bench.rows("select tool, arguments, outcome from calls")
    if agent == "chat":
        assert episode["answer"] == "It is 3."
        assert made == [{"tool": "add", "arguments": '{"a":1,"b":2}', "outcome": "ok"}]
    assert len(json.loads(episode["tools"])) > 3
    assert (
        bench.rows("select settings from runs")
        and url in bench.rows("select settings from runs")[0]["settings"]
    )


def test_a_second_ctrl_c_ends_at_once(bench, script: Write, tmp_path: Path) -> None:
    """The server is slow to exit: the first signal waits for it, the second does not."""
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    stays = f"""
server = Server(); server.connect()
open({str(pids)!r}, "w").write(json.dumps([os.getpid(), server.process.pid]))
import time; time.sleep(600)
"""
    stubborn = tmp_path / "server.py"
    stubborn.write_text(
        "import json, signal, sys, time\n"
        "signal.signal(15, signal.SIG_IGN)\n"
        "for line in sys.stdin:\n"
        "    message = json.loads(line)\n"
        "    if 'id' in message: print(json.dumps({'id': message['id'], 'result': {}}), flush=True)\n"
        "print('got eof', file=sys.stderr, flush=True)\n"
        "time.sleep(600)\n"
    )
    temporary = tmp_path / "t"
    temporary.mkdir()
    bench.environ["TMPDIR"] = str(temporary)
    with bench.start(
        "record", "--server", f"{sys.executable} {stubborn}", *SCRIPT, "--agent-option", script(stays)
    ) as process:
        agent, shim = json.loads(pids.read_text())
        process.send_signal(signal.SIGINT)
        log = next((bench.run_folder / "logs").glob("*.server.log"))
        while not log.read_text():  # the referee waits for the server
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "Stopped at once" in err and "Traceback" not in err
    assert not [pid for pid in (agent, shim) if Path(f"/proc/{pid}").exists()]
    assert list(temporary.iterdir()) == []
    assert bench.rows("select ended_us from episodes") == [{"ended_us": None}]
