"""What the drivers of `search` reach with the same budget, with a scripted proposer in place of a model.

    python benchmarks/improve_drivers.py [--steps 12] [--repeats 2] [--html report.html]

The proposer is no model: it takes the last version of the request and changes one of five settings of a
compressor at random; one of six proposals is a broken program. So drivers differ only by what they show. The
task is codec.train.0 of `improve`, with real sandboxes and held-out data. Prints a table, and with --html
writes the report with the score over runs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

DRIVERS = ("single", "icl", "best-of-n", "puct", "evolve")
TASK = "codec.train.0"
SETTINGS: dict[str, list[Any]] = {
    "coder": ["zlib", "bz2", "lzma"], "columns": [0, 1], "times": [0, 1], "tenths": [0, 1], "plain": [0, 1],
}  # fmt: skip
FIRST = {"coder": "zlib", "columns": 0, "times": 0, "tenths": 0, "plain": 0}
"""The settings that the baseline has."""
BROKEN = 6
PROGRAM = '''"""Settings: {settings}"""
import bz2, lzma, zlib
S = {settings}
FILTERS = [{{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 0, "lp": 0, "pb": 0}}]

def pack(data):
    if S["coder"] == "lzma":
        return lzma.compress(data, lzma.FORMAT_RAW, filters=FILTERS) if S["plain"] else lzma.compress(data)
    return (bz2 if S["coder"] == "bz2" else zlib).compress(data, 9)

def unpack(data):
    if S["coder"] == "lzma":
        raw = lzma.FORMAT_RAW
        return lzma.decompress(data, raw, filters=FILTERS) if S["plain"] else lzma.decompress(data)
    return (bz2 if S["coder"] == "bz2" else zlib).decompress(data)

def steps(numbers, sign):
    kept, out = 0, []
    for number in numbers:
        out.append(number - kept if sign < 0 else number + kept)
        kept = number if sign < 0 else out[-1]
    return out

def compress(data):
    head, *lines = data.decode().splitlines()
    columns = [list(column) for column in zip(*(line.split(",") for line in lines))]
    if S["times"]:
        columns[0] = [str(n) for n in steps([int(n) for n in columns[0]], -1)]
    if S["tenths"]:
        for place in (2, 3, 4):
            columns[place] = [word.replace(".", "") for word in columns[place]]
    if S["columns"]:
        return pack("\\n".join([head, *(",".join(column) for column in columns)]).encode())
    return pack("\\n".join([head, *(",".join(row) for row in zip(*columns))]).encode())

def decompress(data):
    head, *lines = unpack(data).decode().split("\\n")
    columns = [line.split(",") for line in lines]
    if not S["columns"]:
        columns = [list(column) for column in zip(*columns)]
    if S["times"]:
        columns[0] = [str(n) for n in steps([int(n) for n in columns[0]], 1)]
    if S["tenths"]:
        for place in (2, 3, 4):
            columns[place] = [f"{{word[:-1]}}.{{word[-1]}}" for word in columns[place]]
    return ("\\n".join([head, *(",".join(row) for row in zip(*columns))]) + "\\n").encode()
'''


class Proposer(BaseHTTPRequestHandler):
    """An OpenAI-compatible endpoint. Its chance follows from the request alone."""

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        text = json.loads(asked)["messages"][-1]["content"]
        versions = re.findall(r"^Version (\d+):", text, re.MULTILINE)
        with LOCK:
            rng = Random(f"{SEED[0]} {SEED[1]} {versions}")
            SEED[1] += 1
        last = text.rpartition("\nVersion ")[2]
        found = re.findall(r"^S = (\{.*\})$", last, re.MULTILINE)
        settings = {**FIRST, **(json.loads(found[-1]) if found else {})}
        name = rng.choice(list(SETTINGS))
        settings[name] = rng.choice([value for value in SETTINGS[name] if value != settings[name]])
        program = PROGRAM.format(settings=json.dumps(settings))
        if rng.randrange(BROKEN) == 0:
            program = program.replace("def decompress", "def decompress_it")
        answer = {
            "id": "1", "object": "chat.completion", "created": 0, "model": "scripted",
            "choices": [{"index": 0, "finish_reason": "stop",
                         "message": {"role": "assistant", "content": f"```python\n{program}```"}}],
            "usage": {"prompt_tokens": len(text) // 4, "completion_tokens": len(program) // 4,
                      "total_tokens": (len(text) + len(program)) // 4},
        }  # fmt: skip
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


LOCK = threading.Lock()
SEED = [0, 0]
"""Of the repeat, and how many requests it has made."""


def recorded(url: str, driver: str, repeat: int, steps: int, home: Path) -> None:
    SEED[:] = [repeat, 0]
    argv = [
        sys.executable, "-m", "mcp_bench.bridge.cli.root", "record", "--agent", "search", "--benchmark",
        "improve", "--task", TASK, "--model", "scripted", "--base-url", url, "--isolation", "none",
        "--agent-option", f"driver={driver}", "--agent-option", f"max_steps={steps}",
        "--agent-option", f"seed={repeat}", "--run-tag", driver, "--retries", "0",
    ]  # fmt: skip
    env = {**os.environ, "MCP_BENCH_HOME": str(home), "OPENAI_API_KEY": "dummy-key-0123456789"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=12, help="proposals for each attempt")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--html", type=Path)
    options = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Proposer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for repeat in range(options.repeats):
            for driver in DRIVERS:
                recorded(url, driver, repeat, options.steps, home)
        print_table(home, options.steps)
        if options.html:
            argv = [sys.executable, "-m", "mcp_bench.bridge.cli.root", "report", "--html", str(options.html)]
            subprocess.run(argv, env={**os.environ, "MCP_BENCH_HOME": str(home)}, check=True)
    server.shutdown()


def print_table(home: Path, steps: int) -> None:
    """Print the held-out score of each driver: the median of its attempts, and all of them."""
    from mcp_bench.recorder.store.reader import RunReader

    found: dict[str, list[tuple[float, float]]] = {driver: [] for driver in DRIVERS}
    ends = (0.0, 0.0)
    for path in sorted((home / "runs").iterdir()):
        with RunReader(path) as reader:
            driver = reader.info().settings["options"]["driver"]  # type: ignore[index,call-overload]
            for episode in reader.episodes():
                assert episode.score is not None, "the attempt was not graded"
                ends = (episode.score.baseline or 0.0, episode.score.par or 0.0)
                found[str(driver)].append((episode.score.value, episode.partial or 0.0))
    print(
        f"{TASK}, {steps} proposals each, scripted proposer; baseline {ends[0]:.3f}, reference {ends[1]:.3f}"
    )
    print("| driver | bits/byte, held out | partial | each attempt |\n|---|---:|---:|---|")
    for driver, scores in found.items():
        values, parts = zip(*scores, strict=True)
        each = ", ".join(f"{value:.3f}" for value in values)
        median, part = statistics.median(values), statistics.median(parts)
        print(f"| `{driver}` | {median:.3f} | {part:.2f} | {each} |")


if __name__ == "__main__":
    main()
