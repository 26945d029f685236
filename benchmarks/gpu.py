"""What training and serving do on one GPU, in stages of at most eight minutes, without a network.

    python benchmarks/gpu.py OUT --base smol.gguf --data rows.jsonl [--stage NAME] [--minutes 24]
    python benchmarks/gpu.py OUT --tiny --device cpu                       # every stage, with tiny sizes
    python benchmarks/gpu.py split smol.gguf        # into smol.gguf.part0, .part1: --base joins them again

Stages (`gpu_stages.py` has the work):

    machine        products of large matrices in 16 and 32 bits: the peak that shares below are of
    base           SmolLM2 from its GGUF file (needs the package gguf)
    before, after  the base, and the trained model, served and graded on dev and test tasks of levels 1 to 3
    train          `train sft smollm2-135m-gpu` on --data; without trl or datasets, by a plain loop
    1b-16k, 1b-64k a model of 1.2 billion parameters from random weights: speed, and memory against the plan
    lora-RECIPE    the LoRA recipes from random weights of their sizes, a few steps
    grpo           `train rl smollm2-135m-grpo`, from what `train` made, on training tasks of level 1
    grpo-after     what that made, graded as `after`, which is the score before it

The last two run only where --stage names them.

--data is an export of the oracle's episodes, made before. A stage that needs a package that is not here is
"not run". OUT/state.json has the results; the same command continues with the stages that have none, and
tries again those that failed or ran out of time. OUT/table.md is the table.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

PART = 60 * 2**20
"""Bytes of a part of a split file."""
STAGE_SECONDS, ALL_MINUTES = 8 * 60, 24.0
LORA = ("smollm2-1.7b-lora-1gpu", "qwen3.5-9b-lora-1gpu", "gpt-oss-20b-lora-1gpu")
STAGES = (
    *("machine", "base", "before", "train", "after", "1b-16k", "1b-64k"),
    *(f"lora-{recipe}" for recipe in LORA),
)
APART = ("grpo", "grpo-after")
"""Stages that run only when they are named."""
NEEDS = {"before": "base", "train": "base", "after": "train", "grpo": "train", "grpo-after": "grpo"}
NOT_HERE = 3
"""Exit code of a stage that needs something that is not here."""


def split(file: Path) -> list[Path]:
    """Write a file as parts of at most `PART` bytes beside it, in place of earlier parts."""
    parts: list[Path] = []
    with file.open("rb") as source:
        for old in parts_of(file):
            old.unlink()
        while block := source.read(PART):
            parts.append(file.with_name(f"{file.name}.part{len(parts)}"))
            parts[-1].write_bytes(block)
    return parts


def parts_of(file: Path) -> list[Path]:
    """Return the parts of a file that are there, in order."""
    return sorted(file.parent.glob(f"{file.name}.part[0-9]*"), key=lambda path: int(path.suffix[5:]))


def join(file: Path) -> Path:
    """Return the file, joined from its parts if it is not there itself.

    Raises:
        FileNotFoundError: neither the file nor its parts are there.
    """
    if file.is_file():
        return file
    if not (parts := parts_of(file)):
        raise FileNotFoundError(f"neither {file} nor {file.name}.part0")
    beside = file.with_name(f"{file.name}.new")
    with beside.open("wb") as out:
        for part in parts:
            out.write(part.read_bytes())
    return beside.rename(file)


class State:
    """The results of the stages, in a file that is replaced as a whole."""

    def __init__(self, out: Path) -> None:
        self.path = out / "state.json"
        self.stages: dict[str, dict[str, Any]] = {}
        if self.path.is_file():
            self.stages = json.loads(self.path.read_text())

    def set(self, stage: str, **result: Any) -> None:
        self.stages[stage] = result
        beside = self.path.with_name("state.json.new")
        beside.write_text(json.dumps(self.stages, indent=1) + "\n")
        beside.replace(self.path)

    def done(self, stage: str) -> bool:
        return self.stages.get(stage, {}).get("status") == "done"


def run_stage(stage: str, state: State, seconds: float, arguments: list[str], out: Path) -> None:
    """Run a stage in a process of its own, and store what it says."""
    if (needed := NEEDS.get(stage)) and not state.done(needed):
        state.set(stage, status="not run", why=f"{needed} has no result")
        return
    result, log = out / f"{stage}.result.json", out / f"{stage}.log"
    result.unlink(missing_ok=True)
    script = Path(__file__).with_name("gpu_stages.py")
    began = time.monotonic()
    with log.open("w") as file:
        command = [sys.executable, str(script), stage, str(result), *arguments]
        code = ended(command, file, seconds)
    if code is None:
        state.set(stage, status="out of time", why=f"{seconds:.0f} s were not enough; see {log.name}")
        return
    taken = round(time.monotonic() - began, 1)
    last = (log.read_text(errors="replace").strip().splitlines() or [""])[-1]
    if code == 0 and result.is_file():
        state.set(stage, status="done", seconds=taken, **json.loads(result.read_text()))
    else:
        status = "not run" if code == NOT_HERE else "failed"
        state.set(stage, status=status, seconds=taken, why=last[-200:])


def ended(command: list[str], log: IO[str], seconds: float) -> int | None:
    """Run a command and return its exit code; None: it ran out of time, and is gone with all it started."""
    process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.returncode is None:  # Ctrl-C does not reach it, either
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def table(stages: Mapping[str, dict[str, Any]]) -> str:
    """Return the results as Markdown, with the machine's name."""
    machine = stages.get("machine", {})
    lines = [f"{machine.get('name', 'machine not measured')}, {machine.get('software', '')}", ""]
    lines += ["| stage | seconds | result |", "|---|---:|---|"]
    for stage in (*STAGES, *(name for name in APART if name in stages)):
        found = stages.get(stage, {"status": "not run", "why": "not yet"})
        words = (
            "; ".join(f"{name} {value}" for name, value in found.get("figures", {}).items())
            if found["status"] == "done"
            else f"{found['status']}: {found.get('why', '')}".replace("|", "/")
        )
        lines.append(f"| {stage} | {found.get('seconds', '')} | {words} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    if sys.argv[1:2] == ["split"]:
        for path in split(Path(sys.argv[2])):
            print(path)
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--base", type=Path, help="SmolLM2's GGUF file, or its parts without .partN")
    parser.add_argument("--data", type=Path, help="rows to train on (mcp-bench export)")
    parser.add_argument(
        "--stage", action="append", choices=(*STAGES, *APART), help="only this stage (repeatable)"
    )
    parser.add_argument("--minutes", type=float, default=ALL_MINUTES, help="for all stages of this call")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--tiny", action="store_true", help="tiny sizes: tests the script")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    state = State(options.out)
    arguments = ["--out", str(options.out), "--device", options.device]
    arguments += [
        word
        for name in ("base", "data")
        if (path := getattr(options, name))
        for word in (f"--{name}", str(path))
    ]
    arguments += ["--tiny"] if options.tiny else []
    ends = time.monotonic() + options.minutes * 60
    for stage in options.stage or STAGES:
        left = min(STAGE_SECONDS, ends - time.monotonic())
        if state.done(stage):
            continue
        if left < 10:
            print("out of time: the same command continues", file=sys.stderr)
            break
        print(f"{stage} ...", file=sys.stderr, flush=True)
        run_stage(stage, state, left, arguments, options.out)
        (options.out / "table.md").write_text(table(state.stages))
    print(table(state.stages))


if __name__ == "__main__":
    main()
