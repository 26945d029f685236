"""A small improvement task: sums of squares, number by number and sixteen at a time.

The reference takes a tenth of the baseline's time, and about a millisecond: less says little on a busy machine.
"""

from __future__ import annotations

from pathlib import Path

TASK = """name: sums
family: sums
summary: Sums of squares.
splits: {train: 3}
target: [target.py]
experiment: {kind: call, function: solve, seconds: 20, memory_mib: 200}
metric: {name: time, unit: s, scale: log, pairs: [9, 15]}
settings: {size: 150000}
budget: {runs: 4}
"""
BASELINE = """def solve(n):
    total = 0
    for number in range(n):
        total += number * number
    return total
"""
REFERENCE = """def solve(n):
    whole = n // 16 * 16
    total = sum(16 * a * a + 240 * a + 1240 for a in range(0, whole, 16))
    return total + sum(i * i for i in range(whole, n))
"""
SCORER = """def question(rng, part, settings):
    return [settings["size"] + rng.randrange(settings["size"])]
"""


def write_task(place: Path, *, task: str = TASK, scorer: str = SCORER, target: str = BASELINE) -> Path:
    """Write the task's folder and return it."""
    folder = place / "sums"
    for name, text in {
        "task.yaml": task,
        "README.md": "`solve(n)` returns the sum of the squares below n.",
        "scorer.py": scorer,
        "target/target.py": target,
        "reference/target.py": REFERENCE,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
