"""Measure the start-up time of `mcp-bench --help` and of the shim.

Run it with `.venv/bin/python benchmarks/speed/startup.py`. Rounds are interleaved, so that machine drift
affects all cases alike. Compare with the bare interpreter of the same rounds.
"""

import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mcp_bench.bridge.process.agent import INTERPRETER
from mcp_bench.bridge.wire import shim

ROUNDS = 20
TARGETS_MS = {"mcp-bench --help": 150.0, "shim, to its first byte": 100.0}


def timed(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def shim_to_first_byte(folder: Path, listener: socket.socket) -> float:
    """Return the seconds from starting the shim to its token on the socket."""
    start = time.perf_counter()
    with subprocess.Popen([INTERPRETER, "-I", "-S", folder / "shim.py"], stdin=subprocess.PIPE) as process:
        peer, _ = listener.accept()
        peer.recv(16)
        elapsed = time.perf_counter() - start
        peer.close()
        process.wait()
    return elapsed


def main() -> None:
    mcp_bench = str(Path(sys.executable).with_name("mcp-bench"))
    with tempfile.TemporaryDirectory() as name, socket.socket(socket.AF_UNIX) as listener:
        folder = Path(name)
        shutil.copyfile(shim.__file__, folder / "shim.py")
        (folder / "token").write_text("token")
        listener.bind(str(folder / "socket"))
        listener.listen()
        cases: dict[str, Callable[[], float]] = {
            "python -c pass": lambda: timed([sys.executable, "-c", "pass"]),
            "python -c 'import click'": lambda: timed([sys.executable, "-c", "import click"]),
            "mcp-bench --help": lambda: timed([mcp_bench, "--help"]),
            "python -I -S -c pass": lambda: timed([INTERPRETER, "-I", "-S", "-c", "pass"]),
            "shim, to its first byte": lambda: shim_to_first_byte(folder, listener),
        }
        for case in cases.values():
            case()  # warm the file cache
        seconds: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(ROUNDS):
            for name, case in cases.items():
                seconds[name].append(case())
    print(f"{'':28} {'median ms':>9} {'min':>7} {'max':>7}  target")
    for name, values in seconds.items():
        median = statistics.median(values) * 1000
        target = f"{TARGETS_MS[name]:.0f}" if name in TARGETS_MS else ""
        print(f"{name:28} {median:9.1f} {min(values) * 1000:7.1f} {max(values) * 1000:7.1f}  {target}")


if __name__ == "__main__":
    main()
