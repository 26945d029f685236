"""The search agent: which versions a driver shows, and what it takes from a model's answer."""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.clients.chat.provider import Reply, Usage
from mcp_bench.clients.connection import Connection, Outcome
from mcp_bench.clients.events import ClientError
from mcp_bench.clients.search.__main__ import tokens
from mcp_bench.clients.search.attempt import NEEDED, Search, written
from mcp_bench.clients.search.choose import DRIVERS, SHOWN, Version, icl
from mcp_bench.clients.search.openevolve_driver import Islands
from mcp_bench.servers.improve.task_file import read_task
from mcp_bench.servers.improve.world import ImproveWorld
from mcp_bench.servers.sandbox import Sandbox
from tests.support.improvement.small_task import TASK, write_task
from tests.support.requirements import needs

pytestmark = pytest.mark.unit


def tried(*lows: float | None) -> list[Version]:
    """Return a baseline and versions with these gains."""
    return [Version(number, {"a.py": ""}, "", low) for number, low in enumerate((0.0, *lows))]


@given(st.sampled_from(sorted(DRIVERS)), st.lists(st.none() | st.floats(-2, 2), max_size=12), st.randoms())
def test_every_driver_shows_versions_that_work(driver: str, lows: list[float | None], chance: Random) -> None:
    shown = DRIVERS[driver](tried(*lows), chance)
    assert 1 <= len(shown) <= SHOWN
    assert shown[-1].low is not None
    assert len({version.number for version in shown}) == len(shown)


@given(st.sampled_from(sorted(DRIVERS)), st.integers(0, 3), st.randoms())
def test_a_baseline_that_failed_is_shown(driver: str, failures: int, chance: Random) -> None:
    versions = [Version(number, {"a.py": ""}, "", None) for number in range(failures + 1)]
    assert DRIVERS[driver](versions, chance)[-1].number <= failures


def numbers(driver: str, versions: list[Version]) -> list[int]:
    return [version.number for version in DRIVERS[driver](versions, Random(1))]


def test_what_each_driver_is_for() -> None:
    versions = tried(0.5, 0.1, None)
    assert numbers("single", versions) == [1], "the best, since the last one failed"
    assert numbers("single", versions[:-1]) == [2], "the last"
    assert numbers("best-of-n", versions) == [0]
    assert numbers("icl", versions) == [0, 2, 1]
    assert numbers("evolve", tried()) == [0]


def test_tree_search_leaves_a_branch_that_was_tried_often() -> None:
    versions = tried(0.5, 0.1)
    assert numbers("puct", versions) == [1]
    versions[1].children = 40
    assert numbers("puct", versions) == [2]
    versions[2].children = 40
    assert numbers("puct", versions) == [0]


ONE = "Here:\n```python\nx = 1\n```\nor better\n```\nx = 2\n```\n"
TWO = "FILE: b.py\n```\nb = 1\n```\nand\nFILE: a.py\n\n```py\na = 1\n```\nFILE: c.py\n```\nno\n```"


def test_files_are_read_from_an_answer() -> None:
    assert written(ONE, {"a.py": "x = 1\n"}) == {"a.py": "x = 2\n"}
    assert written(TWO, {"a.py": "\n", "b.py": "\n"}) == {"a.py": "a = 1\n", "b.py": "b = 1\n"}
    assert written("I cannot.", {"a.py": ""}) == {}
    assert written("```\nunfinished", {"a.py": ""}) == {}
    assert written(ONE, {"a.txt": "Line:"}) == {"a.txt": "x = 2"}, "an end of line only where there was one"


@pytest.mark.parametrize(
    "answer",
    [
        "First:\n```python title=a.py\nold = 1\n```\nprose between\n```python\nx = 1\n```\n",
        "```python title=a.py\nx = 1\n```\nprose after it\n",
        "```python \nx = 1\n```\n",
        "```python\r\nx = 1\r\n```\r\n",
        "~~~python\nx = 1\n~~~\n",
        "````\nx = 1\n`````\n",
        "```\nx = 1\n```  \nso",
        "FILE: `a.py`\n```\nx = 1\n```",
    ],
)
def test_code_blocks_are_read_as_models_write_them(answer: str) -> None:
    assert written(answer, {"a.py": "\n"}) == {"a.py": "x = 1\n"}


def test_a_longer_fence_holds_shorter_ones() -> None:
    inner = "Say:\n```\nfive\n```\n"
    assert written(f"````md\n{inner}````", {"prompt.md": "\n"}) == {"prompt.md": inner}
    assert written("~~~\n```\n~~~", {"a.py": "\n"}) == {"a.py": "```\n"}


@pytest.mark.parametrize(
    "line", ["FILE: `{}`", "**FILE: {}**", "**FILE:** `{}`", "### FILE: {} ", "FILE: {}\r"]
)
def test_names_of_files_are_read_as_models_write_them(line: str) -> None:
    files = {"a b.py": "\n", "c.py": "\n"}
    answer = "\n".join(f"{line.format(name)}\n```\nx = {number}\n```" for number, name in enumerate(files))
    assert written(answer, files) == {"a b.py": "x = 0\n", "c.py": "x = 1\n"}


def test_tokens_are_a_budget_where_the_endpoint_reports_them() -> None:
    used = Usage(input_tokens=70, output_tokens=5, cached_tokens=60)
    assert tokens(used + used, 100) == 150
    assert tokens(Usage(model_calls=0), 100) == 0
    assert tokens(Usage(), math.inf) == 0
    with pytest.raises(ClientError, match="reports no tokens: leave out the option token_budget"):
        tokens(Usage(input_tokens=70), 100)


class Served:
    """A stand-in for a connection: it reads as the benchmark does, and runs nothing."""

    tools = tuple(SimpleNamespace(name=name) for name in NEEDED)

    def __init__(self, folder: Path) -> None:
        unused = dict.fromkeys(("baseline", "candidate"), cast("Sandbox", None))
        self.world = ImproveWorld(read_task(folder), "sums.train.0", 0, unused)

    async def call(self, name: str, arguments: dict[str, Any]) -> Outcome:
        if name == "run":
            return Outcome("4 of 4 runs are left.", is_error=False)
        found = await self.world.call(name, arguments)
        return Outcome(found.text, is_error=found.is_error)


def test_a_long_target_is_read_whole(tmp_path: Path) -> None:
    """The tool cuts a long text: without its end, the model would be asked to rewrite half a program."""

    def begun(text: str) -> str:
        task = TASK.replace("{runs: 4}", "{runs: 4}\nmax_bytes: 200000")
        search = Search(
            cast("Connection", Served(write_task(tmp_path, task=task, target=text))), "", icl, Random(1)
        )
        anyio.run(search.begin)
        return search.versions[0].files["target.py"]

    for text in ("x = 1\n" * 12_000, f"{'# ' + 'long ' * 5000}\n" * 3, "x = 1", ""):
        assert begun(text) == text
    with pytest.raises(ClientError, match=r"line 2 of target.py is too long"):
        begun(f"x = 1\n{'#' * 31_000}\n")


LONG, SHORT = "# long\n" * 12, "\n"


@pytest.mark.parametrize(
    ("proposed", "fits"),
    [((LONG, SHORT, SHORT), True), ((SHORT, LONG, LONG), False), ((SHORT, "#\ud800\n", SHORT), False)],
)
def test_text_can_move_from_one_file_to_another(
    tmp_path: Path, proposed: tuple[str, ...], fits: bool
) -> None:
    """The tool counts the bytes after each write: what gets longer is written last, and undone first."""
    task = TASK.replace("[target.py]", "['a file.py', b.py, c.py]")
    folder = write_task(tmp_path, task=task.replace("{runs: 4}", "{runs: 4}\nmax_bytes: 100"))
    names = ("a file.py", "b.py", "c.py")
    for place in ("target", "reference"):
        for name, text in zip(names, (SHORT, SHORT, LONG), strict=True):
            (folder / place / name).write_text(text)
    served = Served(folder)
    search = Search(cast("Connection", served), "", icl, Random(1))
    texts = dict(zip(names, proposed, strict=True))
    blocks = "\n".join(f"FILE: {name}\n```\n{text}```" for name, text in texts.items())

    async def moved() -> bool:
        await search.begin()
        assert tuple(search.versions[0].files) == names
        return await search.propose(Reply(blocks, None, (), Usage()), (0,))

    assert anyio.run(moved) == fits
    assert served.world.files == search.versions[-1].files


@needs("package", find_spec("openevolve") is not None, "the package openevolve is not installed")
def test_openevolve_chooses_by_its_own_database() -> None:
    """It shows what works, and the same for the same seed. The baseline alone is shown if nothing works."""

    def chosen(seed: int) -> list[list[int]]:
        choose, shown = Islands(seed), list[list[int]]()
        versions = tried()
        for number in range(1, 40):
            shown.append([version.number for version in choose(versions, Random(1))])
            assert shown[-1][-1] < number
            assert all(versions[one].low is not None for one in shown[-1])
            assert len(set(shown[-1])) == len(shown[-1]) <= 3
            low = None if number % 4 == 0 else number / 100
            texts = {"a.py": "x = 1\n" * number, "b.py": ""}
            versions.append(Version(number, texts, "", low, (shown[-1][-1],)))
        return shown

    assert chosen(1) == chosen(1) != chosen(2)
    assert max(one[-1] for one in chosen(1)) > 20, "it goes on from good versions"
    failed = [Version(0, {"a.py": ""}, "", None)]
    assert Islands(0)(failed, Random(1)) == failed
