"""One model, three engines, the same tasks: do they give the same greedy answers?

    python benchmarks/learning/three_engines.py MODEL --vllm ENVIRONMENT [--engines torch vllm llama.cpp]
        [--tasks 50] [--dtype float32] [--jobs 4]

Our engine, vLLM, and llama.cpp (on a GGUF file that `export-model` writes) serve the same model, one after
the other, without constraints. The agent chat plays the same tasks of dev on each, greedily. An answer is
compared with that of our engine as long as the conversations before it were the same: text and calls. Prints
a table, and where answers first differ.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from mcp_bench.recorder.paths import runs_dir
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.trainer.serving import serve
from mcp_bench.trainer.trial.recordings import record

OWN = "torch"
ENGINES = (OWN, "vllm", "llama.cpp")
GGUF_TYPES = {"float32": "f32", "bfloat16": "bf16"}


@dataclass(frozen=True)
class Played:
    """What one engine answered, by task, and how it went."""

    answers: dict[str, list[str]]
    partial: dict[str, float]
    seconds: float


def play(engine: str, options: argparse.Namespace, tasks: list[str], home: Path) -> Played:
    """Serve the model by an engine, and play the tasks."""
    model, extra, dtype = options.model, [], options.dtype
    if engine == "llama.cpp":
        model, dtype = home / "model.gguf", None
        words = ["export-model", options.model, "--gguf", model, "--type", GGUF_TYPES[options.dtype]]
        run = [sys.executable, "-m", "mcp_bench.bridge.cli.root", *map(str, words)]
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
        extra = [f"n_parallel={options.jobs}"]
    vllm = options.vllm if engine == "vllm" else None
    with serve(
        model,
        engine=engine,
        vllm=vllm,
        model_name="model",
        dtype=dtype,
        extra=extra,
        max_model_len=options.positions * (options.jobs if engine == "llama.cpp" else 1),
    ) as server:
        os.environ["OPENAI_API_KEY"] = server.key
        begun = time.monotonic()
        arguments = [
            "--agent",
            "chat",
            "--model",
            "model",
            "--base-url",
            server.base_url,
            "--capture-llm",
            "--benchmark",
            "saasworld",
            "--jobs",
            str(options.jobs),
            "--agent-option",
            "temperature=0",
            "--agent-option",
            "max_tokens=300",
            *(word for task in tasks for word in ("--task", task)),
        ]
        run_id = record(home / f"{engine}.begun", arguments)
        seconds = time.monotonic() - begun
    answers: dict[str, list[str]] = {}
    partial: dict[str, float] = {}
    with RunReader(runs_dir() / run_id) as reader:
        for episode in reader.episodes():
            partial[episode.task] = episode.partial or 0.0
            answers[episode.task] = [said(answer) for _, _, answer in reader.model_answers(episode.id)]
    return Played(answers, partial, seconds)


def said(answer: dict[str, object]) -> str:
    """Return an answer's text and calls, in one form for all engines."""
    message = answer["choices"][0]["message"]  # type: ignore[index]
    calls = [
        [call["function"]["name"], _parsed(call["function"]["arguments"])]
        for call in message.get("tool_calls") or ()
    ]
    return json.dumps([(message.get("content") or "").strip(), calls], sort_keys=True)


def _parsed(arguments: str) -> object:
    """Return the arguments of a call as an object; those that a model has not completed as they are."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def compare(own: Played, other: Played) -> tuple[int, int, list[str]]:
    """Return how many answers were the same, how many were compared, and where they differ first."""
    same = compared = 0
    differ = []
    for task, answers in own.answers.items():
        for one, two in zip(answers, other.answers.get(task, ()), strict=False):
            compared += 1
            if one != two:
                differ.append(f"{task}:\n  {one[:300]}\n  {two[:300]}")
                break
            same += 1
    return same, compared, differ


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--vllm", help="vLLM's environment")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--dtype", choices=sorted(GGUF_TYPES), default="float32")
    parser.add_argument("--positions", type=int, default=4096, help="tokens of a conversation")
    parser.add_argument("--jobs", type=int, default=4)
    options = parser.parse_args()
    if OWN not in options.engines:
        parser.error(f"--engines: the others are compared with {OWN}: name it, too")
    if "vllm" in options.engines and not options.vllm:
        parser.error("--vllm: name vLLM's environment, or other engines by --engines")
    asked = ["tasks", "saasworld", "--split", "dev", "--tag", "level-1", "--ids", "--limit", options.tasks]
    run = [sys.executable, "-m", "mcp_bench.bridge.cli.root", *map(str, asked)]
    tasks = re.findall(r"\S+", subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        os.environ["MCP_BENCH_HOME"] = str(home)
        played = {engine: play(engine, options, tasks, home) for engine in options.engines}
    print("| engine | partial | answers as ours | seconds for all |")
    print("|---|---:|---:|---:|")
    differ: list[str] = []
    for engine, one in played.items():
        same, compared, where = compare(played[OWN], one)
        differ += [f"{engine}, {place}" for place in where]
        mean = fmean(one.partial.values())
        print(f"| {engine} | {mean:.3f} | {same} of {compared} | {one.seconds:.0f} |")
    print("\n".join(differ))


if __name__ == "__main__":
    main()
