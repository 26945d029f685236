"""Folders as the trainer and `export` leave them in a home, with hostile text wherever a file can have some."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.pages.viewer import EVIL

LOSSES = [(1, 2.0), (2, float("nan")), (3, 0.5), (4, 0.25)]


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")


def data_set(path: Path, run: str, kept: list[str], left_out: dict[str, list[str]]) -> None:
    """Write a data set of one run: a row for each episode that was kept."""
    rows = "".join(
        json.dumps({"id": one, "messages": [{"role": "user", "content": EVIL}]}) + "\n" for one in kept
    )
    write(path, rows)
    dropped = {rule: len(episodes) for rule, episodes in left_out.items()}
    manifest = {
        "tool": "mcp-bench-kit", "command": f"mcp-bench export {EVIL}", "format": "trl", "data": path.name,
        "rows": len(kept), "files": [{"name": path.name, "rows": len(kept)}],
        "selection": {"splits": [EVIL], "strict": True, "best": None},
        "funnel": {"rows_in": len(kept) + sum(dropped.values()), "dropped": dropped, "rows_out": len(kept)},
        "runs": {run: {"agent": EVIL, "benchmark": EVIL}}, "episodes": kept,
        "rules": {rule: f"words of {rule} {EVIL}" for rule in left_out}, "left_out": f"{path.name}.left-out.json",
    }  # fmt: skip
    write(path.with_name(manifest["left_out"]), {run: left_out})
    write(path.with_name(f"{path.name}.manifest.json"), manifest)


def scores(run: str, partial: float) -> dict[str, Any]:
    return {"run": run, "episodes": 2, "invalid": 0, "tasks": 2, "partial": partial, "partial_ci": [0.0, 1.0],
            "strict": partial, "strict_ci": None}  # fmt: skip


def loop(home: Path, before: str, after: str, episodes: list[str]) -> Path:
    """Write a loop whose turn 1 learned from the first episode of the run `after`. Return its folder."""
    folder = home / "loops" / "first"
    write(
        folder / "loop.json",
        {"recipe": EVIL, "benchmark": EVIL, "teacher": "oracle", "turns": 2, "train": ["a"]},
    )
    write(folder / "recipe.yaml", f"summary: {EVIL}\n")
    write(folder / "turn-0" / "measure.json", {"model": "/models/base", "dev": scores(before, 0.25)})
    turn = folder / "turn-1"
    data = turn / "train.jsonl"
    data_set(data, after, episodes[:1], {"tainted": episodes[1:2], "below_threshold": episodes[2:]})
    write(turn / "curate.json", {"data": str(data), "rows": 1, "runs": [after]})
    model = str(turn / "train" / "model")
    write(turn / "train.json", {"model": model, "base": "/models/base", "rows": 1})
    sft(turn / "train", data)
    write(turn / "measure.json", {"model": model, "dev": scores(after, 0.75)})
    change = {"common_tasks": 2, "partial": {"difference": 0.5, "difference_ci": [0.1, 0.9]},
              "fail_to_pass": [f"bench{EVIL}/task-0 {EVIL}"], "pass_to_fail": []}  # fmt: skip
    write(turn / "flips.json", {"dev": change})
    write(turn / "gate.json", {"promoted": True, "why": f"1 task fixed {EVIL}", "against": "/models/base"})
    return folder


def sft(folder: Path, data: Path) -> Path:
    """Write a training run on the data set `data`, of which the first row was too long."""
    too_long = [{"place": f"{data}:1", "tokens": 9000}]
    write(folder / "data.json", {"tokenizer": "/models/base", "files": [{"path": str(data)}], "rows": 1,
                                 "too_long": too_long, "untrainable": []})  # fmt: skip
    write(folder / "recipe.yaml", f"summary: {EVIL}\n")
    lines = [json.dumps({"step": step, "steps": 4, "loss": loss, EVIL: loss}) + "\n" for step, loss in LOSSES]
    write(folder / "metrics.jsonl", "".join(lines) + '{"step": 5, "lo')
    scores = [(0, 3.5, 4, 0), (4, 0.5, 4, 3), (EVIL, EVIL, EVIL, EVIL)]
    names = ("step", "loss", "turns", "exact_turns")
    kept = [json.dumps(dict(zip(names, line, strict=True))) + "\n" for line in scores]
    write(folder / "evaluations.jsonl", "".join(kept))
    return folder


def rl(folder: Path, start: Path, run: str) -> Path:
    """Write a run that learns from reward, and began with the model `start`."""
    write(folder / "settings.json", {"start": str(start), "algorithm": "grpo", "benchmark": EVIL, "tasks": ["a"],
                                     "dev": ["b"], "steps": 9})  # fmt: skip
    write(folder / "recipe.yaml", "")
    lines = [json.dumps({"step": step, "reward": step / 4, "families": {EVIL: 1}}) + "\n" for step in (1, 2)]
    write(folder / "metrics.jsonl", "".join(lines))
    write(folder / "steps" / "2" / "dev.json", scores(run, 0.5))
    return folder


def improvement(folder: Path, before: str, after: str) -> Path:
    """Write an improvement: a refused edit, one that was promoted, training, and one that goes on."""
    settings = {"agent": EVIL, "model": EVIL, "benchmark": EVIL, "policy": EVIL, "feedback_agent": EVIL,
                "generations": 9, "train": ["a"], "dev": ["b"], "confirm": ["c"], "test": ["d"]}  # fmt: skip
    write(folder / "improve.json", settings)
    write(folder / "recipe.yaml", f"summary: {EVIL}\n")
    for generation, text in ((0, f"Be quick.\n{EVIL}\n"), (1, "Leak."), (2, f"Be careful.\n{EVIL}\n")):
        write(folder / f"generation-{generation}" / f"h{generation}" / "INSTRUCTIONS.md", text)
    write(folder / "generation-2" / "h2" / "memory" / "a.md", EVIL)
    first, second, third, fourth = (folder / f"generation-{number}" for number in (1, 2, 3, 4))
    write(first / "proposal.json", {"action": "harness", "reason": EVIL, "run": "run_gone"})
    write(first / "check.json", {"refused": [f"a value of a test task {EVIL}"], "for_agents": []})
    write(first / "decision.json", {"verdict": "refused", "promoted": False, "why": EVIL, "tasks": 0})
    write(second / "proposal.json", {"action": "harness", "reason": f"carelessness {EVIL}", "run": after})
    write(second / "check.json", {"refused": []})
    gain = {"tasks": 7, "difference": 0.25, "interval": [0.125, 0.375], "fixed": 3, "broken": 1}
    write(second / "decision.json", {"verdict": "promoted", "promoted": True, "why": EVIL, **gain})
    write(third / "proposal.json", {"action": "train", "reason": EVIL})
    write(third / "train.json", {"model": str(third / "train" / "model")})
    data_set(third / "train.jsonl", after, [], {})
    sft(third / "train", third / "train.jsonl")
    write(
        third / "decision.json", {"verdict": EVIL, "promoted": False, "why": EVIL, "interval": [EVIL, None]}
    )
    write(fourth / "proposal.json", {"action": "rl", "reason": EVIL})
    for arm, run in (("h0-w0", before), ("h2-w0", after)):
        for what in ("gate", "confirm", "test"):
            write(folder / arm / f"{what}-0.json", {"run": run, "arm": arm, "what": what})
    write(folder / "h2-w3" / "gate-0.json", {"run": EVIL})
    write(
        folder / "history.json",
        {"stopped": "", "spent": {"episodes": 40, "tokens": 7, "usd": 1.5, EVIL: EVIL}},
    )
    return folder


def training_home(home: Path, before: str, after: str, episodes: list[str]) -> dict[str, Path]:
    """Write one of each, and return their folders by name."""
    first = loop(home, before, after, episodes)
    data = first / "turn-1" / "train.jsonl"
    return {
        "loop": first,
        "sft": sft(home / "training" / "tuned", data),
        "rl": rl(home / "learning" / "learned", first / "turn-1" / "train" / "model", after),
        "improve": improvement(home / "loops" / "better", before, after),
        "data": data.with_name("train.jsonl.manifest.json"),
    }
