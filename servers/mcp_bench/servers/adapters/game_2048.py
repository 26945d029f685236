"""2048: slide tiles, equal ones merge. 100 moves from a random position, scored by the game's own points.

The rules are those of G. Cirulli's game (2014): a new tile is 2 with probability 0.9, else 4. Par is what a
small expectimax search reaches with the same chance, the baseline is the mean of twenty random games.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from random import Random

from mcp_bench.servers.contracts import JSON, Score
from mcp_bench.servers.worlds.object_tool import object_tool
from mcp_bench.servers.worlds.step_world import LOOK, IllegalMoveError, Move, StepBenchmark, StepWorld, play

SIDE = 4
MOVES = 100
OPENING = 16
"""Random moves before the game begins. Without them, splits would share first screens."""
DIRECTIONS = ("left", "right", "up", "down")
SLIDE = object_tool(
    "slide",
    "Slide all tiles in a direction. Returns the board after a new tile has appeared.",
    ("direction",),
    direction={"enum": list(DIRECTIONS)},
)
RULES = f"""You play 2048 on a board of {SIDE} by {SIDE}. The tool `slide` moves all tiles in one direction.
Two equal tiles that meet merge into their sum, once per move, and you get the sum in points. After each
move a new tile appears in an empty cell: mostly a 2, sometimes a 4. A slide that changes nothing is
refused and costs no move. The game ends after {MOVES} moves,
or when no slide changes anything. Get as many points as you can."""

Row = tuple[int, ...]
Board = tuple[Row, ...]


@lru_cache(maxsize=65_536)
def merged(row: Row) -> tuple[Row, int]:
    """Return a row after a slide to the left, and the points of its merges."""
    tiles = [tile for tile in row if tile]
    out: list[int] = []
    points = 0
    while tiles:
        tile = tiles.pop(0)
        if tiles and tiles[0] == tile:
            tile += tiles.pop(0)
            points += tile
        out.append(tile)
    return (*out, *[0] * (SIDE - len(out))), points


@lru_cache(maxsize=65_536)
def both_ways(line: Row) -> tuple[tuple[Row, int], tuple[Row, int]]:
    """Return a line after a slide to its beginning and after one to its end, with the points."""
    back, points = merged(line[::-1])
    return merged(line), (back[::-1], points)


def slides(board: Board) -> Iterator[tuple[str, Board, int]]:
    """Yield the four slides, each with the board after it, without a new tile, and the points."""
    rows, columns = map(both_ways, board), map(both_ways, zip(*board, strict=True))
    for names, lines in ((("left", "right"), rows), (("up", "down"), columns)):
        for name, moved in zip(names, zip(*lines, strict=True), strict=True):
            after, points = zip(*moved, strict=True)
            yield name, after if lines is rows else tuple(zip(*after, strict=True)), sum(points)


@lru_cache(maxsize=16)  # one board is asked about several times, one after the other
def legal(board: Board) -> Mapping[str, tuple[Board, int]]:
    """Return the slides that change something, with their outcomes."""
    return {name: (after, points) for name, after, points in slides(board) if after != board}


def empty_cells(board: Board) -> list[tuple[int, int]]:
    return [(y, x) for y, row in enumerate(board) for x, tile in enumerate(row) if not tile]


def with_tile(board: Board, cell: tuple[int, int], tile: int) -> Board:
    y, x = cell
    row = (*board[y][:x], tile, *board[y][x + 1 :])
    return (*board[:y], row, *board[y + 1 :])


@lru_cache(maxsize=65_536)
def row_value(row: Row) -> float:
    """Return what a line is worth to the search: empty cells, and large tiles in order."""
    ranks = [tile.bit_length() for tile in row]
    falls = sum(max(a**2 - b**2, 0) for a, b in pairwise(ranks))
    rises = sum(max(b**2 - a**2, 0) for a, b in pairwise(ranks))
    return 12.0 * row.count(0) - min(falls, rises)


def value(board: Board) -> float:
    return sum(map(row_value, board)) + sum(map(row_value, zip(*board, strict=True)))


@lru_cache(maxsize=MOVES)  # the same game is played for its par and for its reference
def best_slide(board: Board) -> str | None:
    """Return the best slide by expectimax (slide, new tile, slide); None if none is legal."""
    options = legal(board)
    return max(options, key=lambda name: options[name][1] + _expected(options[name][0]), default=None)


def _expected(board: Board) -> float:
    cells = empty_cells(board)[:6]  # a sample: the search stays quick on an empty board
    values = []
    for cell in cells:
        follow = legal(with_tile(board, cell, 2)).values()
        values.append(max((points + value(after) for after, points in follow), default=-1000.0))
    return sum(values) / len(values)


class Game2048(StepWorld):
    """One game. The tiles that appear follow from its number and from the moves."""

    move_tool = SLIDE

    def __init__(self, number: int) -> None:
        self._number = number
        self._chance = Random(f"2048.{number}")
        self._tiles: Board = tuple((0,) * SIDE for _ in range(SIDE))
        self._new_tile()
        for _ in range(OPENING):
            self._new_tile()
            self._tiles, _ = self._chance.choice(list(legal(self._tiles).values()))
        self._new_tile()
        self.points = 0
        self.moves_left = MOVES

    @property
    def board(self) -> Board:
        return self._tiles

    def observe(self) -> str:
        rows = "\n".join("".join(f"{tile or '.':>6}" for tile in row) for row in self._tiles)
        return f"{rows}\nPoints: {self.points}. Moves left: {self.moves_left}."

    def act(self, move: Move) -> float:
        direction = str(move["direction"])
        if direction not in legal(self._tiles):
            raise IllegalMoveError(f"A slide {direction} changes nothing. Choose another direction.")
        after, points = legal(self._tiles)[direction]
        self._tiles = after
        self.points += points
        self.moves_left -= 1
        self._new_tile()
        self.over = not self.moves_left or not legal(self._tiles)
        return points

    def policy(self) -> Move | None:
        direction = best_slide(self._tiles)
        return None if direction is None else {"direction": direction}

    def score(self) -> Score:
        baseline, par = marks(self._number)
        return Score(name="points", value=self.points, unit="points", baseline=baseline, par=par)

    async def snapshot(self) -> JSON:
        return {
            "board": [list(row) for row in self._tiles],
            "points": self.points,
            "moves_left": self.moves_left,
        }

    def _new_tile(self) -> None:
        cell = self._chance.choice(empty_cells(self._tiles))
        self._tiles = with_tile(self._tiles, cell, 4 if self._chance.random() < 0.1 else 2)


@lru_cache(maxsize=4096)
def marks(number: int) -> tuple[float, float]:
    """Return the baseline and the par of a game, in points."""
    totals = []
    for repeat in range(20):
        game, chance = Game2048(number), Random(f"random.{number}.{repeat}")
        while not game.over:
            game.act({"direction": chance.choice(sorted(legal(game.board)))})
        totals.append(game.points)
    good = Game2048(number)
    play(good)
    return sum(totals) / len(totals), float(good.points)


class Benchmark2048(StepBenchmark):
    name = "game-2048"
    summary = f"2048 in {MOVES} moves, scored by points against a small search."
    families = ("2048",)
    toolset = (SLIDE, LOOK)
    rules = RULES

    def make_game(self, family: str, number: int) -> Game2048:
        return Game2048(number)


BENCHMARK = Benchmark2048()
