"""An agent that reads, writes and reaches for whatever it can, within each level and without one."""

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from levels import each_level

from mcp_bench.bridge.episode_folder import EpisodeFolder

CANARY = "canary-4c1f"

HOSTILE = """
import ctypes, glob, signal
server = Server()
server.connect()
server.call("write", key="one", value="uno-sentinel")
PLACES = json.loads('''@PLACES@''')
succeeded = []

def attempt(name, action):
    try:
        if action():
            succeeded.append(name)
    except OSError:
        pass

def read(path):
    with open(path, "rb") as file:
        return file.read(1)

def write(path):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    return True

def processes():
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            yield int(name)

def of_any(action):
    def tried():
        for pid in processes():
            try:
                if action(pid):
                    return True
            except OSError:
                pass
    return tried

def mentions(path, words):
    with open(path, "rb") as file:
        return words.encode() in file.read()

def referee(pid):
    return b"mcp_bench.bridge.cli.root" in open(f"/proc/{pid}/cmdline", "rb").read()

def seize(pid):
    libc = ctypes.CDLL(None)
    return libc.ptrace(0x4206, pid, None, None) == 0

def ask(path):
    wire = socket.socket(socket.AF_UNIX)
    wire.connect(path)
    return wire.recv(1)

import socket
attempt("list the home", lambda: os.listdir(PLACES["home"]))
attempt("read the grades", lambda: [read(path) for path in glob.glob(PLACES["home"] + "/runs/*/grades.db")])
attempt("read the recording", lambda: [read(p) for p in glob.glob(PLACES["home"] + "/runs/*/recordings.db")])
for path in PLACES["plant"]:
    attempt("", lambda: write(path) and False)
attempt("read the benchmark", lambda: read(PLACES["benchmark"]))
attempt("read a file of the user's", lambda: read(PLACES["file"]))
attempt("read another episode's token", lambda: read(PLACES["neighbour"] + "/mcp/token"))
attempt("find the canary in an environment", of_any(lambda pid: mentions(f"/proc/{pid}/environ", PLACES["canary"])))
attempt("find the referee's memory", of_any(lambda pid: referee(pid) and read(f"/proc/{pid}/maps")))
attempt("see the referee's files", of_any(lambda pid: referee(pid) and os.readlink(f"/proc/{pid}/fd/0")))
attempt("trace the referee", of_any(lambda pid: referee(pid) and seize(pid)))
attempt("signal the referee", of_any(lambda pid: referee(pid) and os.kill(pid, 0) is None))
attempt("reach an abstract socket", lambda: ask(PLACES["abstract"].encode().replace(b"@", b"\\0")))
try:
    import mcp_bench.servers
    succeeded.append("import the benchmarks")
except ImportError:
    pass
print(json.dumps(succeeded))
"""
READS = {
    "list the home", "read the grades", "read the recording", "read the benchmark",
    "read a file of the user's", "read another episode's token", "find the canary in an environment",
    "find the referee's memory", "see the referee's files", "trace the referee", "signal the referee",
    "reach an abstract socket", "import the benchmarks",
}  # fmt: skip


@contextmanager
def greeter() -> Iterator[str]:
    """A socket without a path that greets whoever connects, as a session bus would."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0mcp-bench-test-{os.getpid()}".encode())
        listener.listen()

        def greet() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    with client:
                        client.sendall(b"hello")

        thread = threading.Thread(target=greet)
        thread.start()
        try:
            yield f"@mcp-bench-test-{os.getpid()}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@each_level("none")
def test_nothing_succeeds_above_none(bench, script: Callable[[str], str], tmp_path: Path, level: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    bench.environ["CANARY"] = CANARY
    with EpisodeFolder() as neighbour, greeter() as abstract:
        planted = (bench.home / "planted", tmp_path / "planted", neighbour.workdir / "planted")
        places = {
            "home": str(bench.home),
            "benchmark": str(Path(__file__).parents[2] / "support/fixture_dist/mcp_bench_fixtures.py"),
            "file": str(secret),
            "neighbour": str(neighbour.path),
            "canary": CANARY,
            "abstract": abstract,
            "plant": [str(path) for path in planted],
        }
        option = script(HOSTILE.replace("@PLACES@", json.dumps(places)))
        bench.run(
            "record", "--agent", "script", "--agent-option", option, "--benchmark", "notebook",
            "--task", "numbers", "--isolation", level,
        )  # fmt: skip
        assert [path.exists() for path in planted] == [level == "none"] * 3
    (episode,) = bench.rows("select * from episodes")
    assert (episode["invalid"], episode["termination"]) == (None, "agent_exit")
    assert set(json.loads(episode["answer"])) == (READS if level == "none" else set())
    (call,) = bench.rows("select outcome from calls")
    assert call["outcome"] == "ok", "and its tools work all the same"
