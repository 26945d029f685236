"""Step worlds: results without rewards in their text, refusals, the end, and grades against par."""

import re
from typing import Any

import pytest

from mcp_bench.servers import sdk
from mcp_bench.servers.adapters import game_2048, tetris
from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.servers.mcp_server.world_session import WorldSession
from mcp_bench.servers.worlds import step_world
from mcp_bench.servers.worlds.step_world import Move, StepBenchmark, StepWorld, play
from tests.support import ROOT
from tests.support.pages.console_blocks import blocks

pytestmark = [pytest.mark.unit, pytest.mark.anyio]

GAMES = [game_2048.BENCHMARK, tetris.BENCHMARK]
PAGE = ROOT / "docs" / "benchmarks" / "step-worlds.md"


def of_the_page() -> StepBenchmark:
    """Return the benchmark of docs/benchmarks/step-worlds.md."""
    names = dict[str, Any]()
    exec(compile("\n".join(blocks(PAGE, "python")), "step-worlds.md", "exec"), names)  # our own page
    benchmark: StepBenchmark = names["BENCHMARK"]
    return benchmark


def countdown(number: int) -> StepWorld:
    return of_the_page().make_game("countdown", number)


async def test_example_of_the_page_refuses_ends_and_grades() -> None:
    session = WorldSession(countdown(4))
    first = await session.call("subtract", {"amount": 3})
    assert (first.text, first.reward, first.done) == ("1 are left.", 3, False)
    refused = await session.call("subtract", {"amount": 2})
    assert (refused.is_error, refused.text, refused.reward) == (True, "Only 1 are left.", None)
    assert (await session.world.grade("")).partial == 0.75
    last = await session.call("subtract", {"amount": 1})
    assert (last.done, last.text) == (True, "0 are left.\nThe game is over.")
    after = await session.call("subtract", {"amount": 1})
    assert (after.is_error, after.reward) == (True, None)
    assert (await session.world.grade("")).strict


async def test_a_whole_number_may_have_a_point() -> None:
    """Models write 3.0, and JSON Schema counts it as an integer."""
    first = await WorldSession(countdown(4)).call("subtract", {"amount": 3.0})
    assert (first.text, first.is_error) == ("1 are left.", False)
    placed = await WorldSession(tetris.Tetris(1)).call("place", {"rotation": 1.0, "column": 0.0})
    assert not placed.is_error


@pytest.mark.parametrize("benchmark", [*GAMES, of_the_page()], ids=lambda one: one.name)
async def test_reference_reaches_par_and_nothing_earns_nothing(benchmark: StepBenchmark) -> None:
    task = next(benchmark.tasks())
    session = WorldSession(await benchmark.open(task.id))
    assert (await session.call("look", {})).text == task.prompt
    assert (await session.world.grade("")).partial == 0
    reference = benchmark.reference(task.id)
    assert reference is not None
    for call in reference.calls:
        result = await session.call(call.name, call.arguments)
        assert not result.is_error and result.reward is not None
        assert not re.search(r"reward|par\b|baseline", result.text)
    assert result.done
    grade = await session.world.grade("")
    assert grade.strict and grade.score is not None and grade.score.value == grade.score.par


@pytest.mark.parametrize("benchmark", GAMES, ids=lambda one: one.name)
def test_splits_share_no_first_screen(benchmark: StepBenchmark) -> None:
    prompts = [task.prompt for split in ("train", "dev", "test") for task in benchmark.tasks(split, 100)]
    assert len(set(prompts)) == 300
    assert [task.split for task in benchmark.tasks("all", 1)] == ["train"]


@pytest.mark.parametrize("wrong", ["tetris.-1", "tetris.01", "tetris", "tetris.x", "tetriss.1"])
def test_unknown_ids_are_refused(wrong: str) -> None:
    with pytest.raises(UnknownNameError, match="did you mean tetris"):
        tetris.BENCHMARK.task(wrong)
    assert tetris.BENCHMARK.task("tetris.123456").split == "train"
    with pytest.raises(UnknownNameError, match="known: all, dev, private, test, train"):
        tetris.BENCHMARK.tasks("exam")


async def test_suggestions_solve_a_game() -> None:
    world = tetris.BENCHMARK.make_game("tetris", 3)
    assert isinstance(world, sdk.Suggests)
    while isinstance(call := await world.suggest(), sdk.ToolCall):
        await world.call(call.name, call.arguments)
    assert (await world.grade("")).strict


def test_a_reference_is_played_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run asks for it twice, and a policy can take seconds."""
    benchmark, played = tetris.TetrisBenchmark(), list[StepWorld]()

    def counted(world: StepWorld) -> list[Move]:
        played.append(world)
        return play(world)

    monkeypatch.setattr(step_world, "play", counted)
    first = benchmark.reference("tetris.5")
    assert first is not None and benchmark.reference("tetris.5") == first
    assert len(played) == 1
    assert benchmark.reference("tetris.6") != first


def test_tiles_merge_once_and_rows_clear() -> None:
    assert game_2048.merged((2, 2, 2, 2)) == ((4, 4, 0, 0), 8)
    assert game_2048.merged((4, 2, 2, 0)) == ((4, 4, 0, 0), 4)
    column = tuple((tile, 0, 0, 0) for tile in (2, 0, 2, 4))
    assert game_2048.legal(column)["down"] == (((0,) * 4, (0,) * 4, (4, 0, 0, 0), (4, 0, 0, 0)), 4)
    board: tetris.Board = (0b1111110000, 0b0000000001)
    assert tetris.dropped(board, tetris.SHAPES["I"][0], 0) == ((0b1111110000, 0b0000000001, 0b1111), 0)
    assert tetris.dropped(board[:1], tetris.SHAPES["I"][0], 0) == ((), 1)


def test_a_game_is_the_same_every_time() -> None:
    assert play(tetris.Tetris(7)) == play(tetris.Tetris(7))
    assert play(game_2048.Game2048(7))[:20] == play(game_2048.Game2048(7))[:20]
