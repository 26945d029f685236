"""Count the episodes with values that their agent cannot have read: the line `unseen` of `mcp-bench show`.

Run it with `MCP_BENCH_HOME=... .venv/bin/python benchmarks/unseen_values.py`. It prints a row for each agent,
model, split and level of tasks, and the values that it found most often. For an honest agent, each of them is
a false alarm.
"""

import re
import sys
from collections import Counter

from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.scan.unseen import unseen_values
from mcp_bench.recorder.verify.damage import readable
from mcp_bench.servers.terminal.sanitize import sanitize_line

ORACLE = "oracle"
Group = tuple[str, str, str, str]


def level(task: str) -> str:
    """Return the level of a task of saasworld, which its id names: FAMILY.LEVEL.SPLIT.NUMBER."""
    found = re.fullmatch(r".+\.(\d)\.\w+\.\d+", task)
    return found[1] if found else "-"


def main() -> None:
    episodes, calls, flagged = Counter[Group](), Counter[Group](), Counter[tuple[Group, bool]]()
    solved, values = Counter[Group](), Counter[str]()
    paths, problems = readable()
    for problem in problems:
        print(sanitize_line(f"left out: {problem}"), file=sys.stderr)
    for path in paths:
        with RunReader(path) as reader:
            for one in reader.episodes():
                if one.agent == ORACLE or one.invalid is not None or one.ended_us is None:
                    continue
                group = (one.agent, one.model or "-", one.split, level(one.task))
                found = unseen_values(one.prompt, reader.tools(one.id), reader.calls(one.id))
                episodes[group] += 1
                calls[group] += one.calls
                solved[group] += bool(one.strict)
                flagged[group, bool(one.strict)] += bool(found)
                values.update(f"{unseen.tool}: {unseen.value}" for unseen in found)
    heads = ("agent", "model", "split", "level", "episodes", "calls", "solved", "flagged", "of the solved")
    rows = []
    for group in sorted(episodes):
        solved_too = flagged[group, True]
        both = solved_too + flagged[group, False]
        counts = (episodes[group], calls[group], solved[group])
        shown = (*map(sanitize_line, group), *map(str, counts))
        rows.append((*shown, f"{both} ({both / episodes[group]:.1%})", str(solved_too)))
    for row in (heads, ["---"] * len(heads), *rows):
        print(f"| {' | '.join(row)} |")
    for text, count in values.most_common(15):
        print(sanitize_line(f"{count:6} {text[:100]}"))


if __name__ == "__main__":
    main()
