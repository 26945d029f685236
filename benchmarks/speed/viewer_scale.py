"""Time the viewer's pages over a large store, beside a request that reads nothing.

.venv/bin/python benchmarks/speed/viewer_scale.py FOLDER

FOLDER is a home. It is made with 108,000 episodes if it is not there.

CPU seconds do not depend on what else the machine does; wall seconds do. `first` is the first request of a
new server, with nothing in memory; `again` is the second.
"""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

SHARE, ATTEMPTS = 1.25, 9
"""Of the tasks of `synthetic_store`, and at each: 12 runs of 9000 episodes."""


def main(home: Path) -> None:
    if not (home / "runs").is_dir():
        sys.path.insert(0, str(Path(__file__).parent))
        from synthetic_store import main as make

        make(home, SHARE, ATTEMPTS)
    os.environ["MCP_BENCH_HOME"] = str(home)
    names = sorted(path.name for path in (home / "runs").iterdir())
    size = sum(path.stat().st_size for path in (home / "runs").rglob("*") if path.is_file())
    from mcp_bench.recorder.runs.reader import RunReader

    with RunReader(home / "runs" / names[0]) as reader:
        episode = reader.episode_ids()[0]
    pages = {
        "login (nothing is read)": "/static/icon.svg",
        "runs": "/",
        "a run": f"/runs/{names[0]}",
        "an episode": f"/runs/{names[0]}/{episode}",
        "a task in the run": f"/runs/{names[0]}?q=sales",
        "grid": "/grid",
        "tools, one run": f"/tools?run={names[0]}",
        "failures, one run": f"/failures?run={names[0]}",
        "compare two runs": f"/compare?a={names[0]}&b={names[-1]}",
        "search, while it is indexed": "/search?q=invoice7",
    }
    print(f"{len(names)} runs, {size / 2**30:.2f} GiB")
    print(f"{'page':28} {'first: CPU s':>12} {'wall s':>7} {'again: CPU s':>13} {'wall s':>7} {'kB':>7}")
    for name, page in pages.items():
        first, again, length = _in_new_process(_measure, page)
        print(
            f"{name:28} {first[0]:12.3f} {first[1]:7.3f} {again[0]:13.3f} {again[1]:7.3f}"
            f" {length / 1000:7.0f}",
            flush=True,
        )


def _measure(page: str) -> tuple[tuple[float, float], tuple[float, float], int]:
    from starlette.testclient import TestClient

    from mcp_bench.bridge.viewer.app import viewer

    browser = TestClient(viewer(), follow_redirects=False)
    browser.get("/reviews")  # templates are loaded, and threads started
    found: list[tuple[float, float]] = []
    for _ in range(2):
        cpu, wall = time.process_time(), time.perf_counter()
        answer = browser.get(page)
        found.append((time.process_time() - cpu, time.perf_counter() - wall))
        assert answer.status_code == 200, (page, answer.status_code)
    return found[0], found[1], len(answer.content)


def _in_new_process(work: Callable[[str], Any], page: str) -> Any:
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(work, (page,))


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
