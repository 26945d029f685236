"""Tetris: place 30 pieces on a board of 10 by 20 over three rows with holes, scored by cleared lines.

Pieces come from shuffled bags of all seven. A move is a placement: a rotation and a column, from which the
piece falls straight down. Par is what a player with fixed weights for heights, holes and bumps reaches with
the same pieces (features and weights of Y. Lee, "Tetris AI - The (Near) Perfect Bot", 2013).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from random import Random

from mcp_bench.servers.contracts import JSON, Score
from mcp_bench.servers.worlds.object_tool import object_tool
from mcp_bench.servers.worlds.step_world import LOOK, IllegalMoveError, Move, StepBenchmark, StepWorld, play

WIDTH, HEIGHT, PIECES = 10, 20, 30
GARBAGE = 3
"""Rows with one hole at the start. They make each first screen its own, so that splits share none."""
SHOWN = 3
"""How many of the next pieces the player sees."""

Shape = tuple[tuple[int, int], ...]
"""Cells as (row from the bottom, column from the left)."""
FORMS = {
    "I": ("####",),
    "O": ("##", "##"),
    "T": (".#.", "###"),
    "S": (".##", "##."),
    "Z": ("##.", ".##"),
    "J": ("#..", "###"),
    "L": ("..#", "###"),
}


def turned(rows: tuple[str, ...]) -> tuple[str, ...]:
    """Return a form after a quarter turn clockwise."""
    return tuple("".join(column) for column in zip(*rows[::-1], strict=True))


def rotations(rows: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the distinct rotations of a form, the first as it is drawn."""
    found = [rows]
    while (rows := turned(rows)) not in found:
        found.append(rows)
    return found


def cells(rows: tuple[str, ...]) -> Shape:
    return tuple((y, x) for y, row in enumerate(rows[::-1]) for x, cell in enumerate(row) if cell == "#")


SHAPES = {name: [cells(rows) for rows in rotations(form)] for name, form in FORMS.items()}
PLACE = object_tool(
    "place",
    "Let the current piece fall: turned clockwise `rotation` times, its left edge in `column`.",
    ("rotation", "column"),
    rotation={"type": "integer", "minimum": 0, "maximum": 3},
    column={"type": "integer", "minimum": 0, "maximum": WIDTH - 1},
)
PICTURES = "\n\n".join(f"{name}:\n" + "\n".join(form) for name, form in FORMS.items())
RULES = f"""You play Tetris on {WIDTH} columns and {HEIGHT} rows. The tool `place` turns the current
piece clockwise by quarter turns and lets it fall straight down, with its leftmost cell in a column from 0
to {WIDTH - 1}. Full rows are cleared, and what is above them moves down. The game ends after {PIECES}
pieces, or when a piece would stand out at the top.
Clear as many lines as you can. The pieces, before they are turned:

{PICTURES}"""

Board = tuple[int, ...]
"""Rows from the bottom up, as bit sets of columns."""
FULL = (1 << WIDTH) - 1


def dropped(board: Board, shape: Shape, column: int) -> tuple[Board, int] | None:
    """Return the board after a piece has fallen, and the cleared lines; None if it stands out at the top."""
    rows = [0] * (1 + max(y for y, _ in shape))
    for y, x in shape:
        rows[y] |= 1 << (x + column)
    level = next(row for row in range(len(board), -1, -1) if row == 0 or _meets(board, rows, row - 1))
    if level + len(rows) > HEIGHT:
        return None
    filled = list(board) + [0] * (level + len(rows) - len(board))
    for offset, bits in enumerate(rows):
        filled[level + offset] |= bits
    kept = tuple(bits for bits in filled if bits != FULL)
    return kept, len(filled) - len(kept)


def _meets(board: Board, rows: list[int], level: int) -> bool:
    return any(bits & held for bits, held in zip(rows, board[level:], strict=False))


def value(board: Board, lines: int) -> float:
    """Return what a board is worth to the player with fixed weights."""
    heights = [max((y + 1 for y, bits in enumerate(board) if bits >> x & 1), default=0) for x in range(WIDTH)]
    holes = sum(heights) - sum(bits.bit_count() for bits in board)
    bumps = sum(abs(left - right) for left, right in pairwise(heights))
    return 0.760666 * lines - 0.510066 * sum(heights) - 0.35663 * holes - 0.184483 * bumps


class Tetris(StepWorld):
    """One game. Its pieces follow from its number."""

    move_tool = PLACE

    def __init__(self, number: int) -> None:
        self._number = number
        chance = Random(f"tetris.{number}")
        bags = (chance.sample(sorted(SHAPES), len(SHAPES)) for _ in range(-(-PIECES // len(SHAPES))))
        self.pieces = [piece for bag in bags for piece in bag][:PIECES]
        self.rows: Board = tuple(FULL ^ 1 << chance.randrange(WIDTH) for _ in range(GARBAGE))
        self.lines = 0

    def observe(self) -> str:
        rows = [*self.rows, *[0] * (HEIGHT - len(self.rows))]
        drawn = "\n".join(
            "|" + "".join("#" if bits >> x & 1 else "." for x in range(WIDTH)) + "|"
            for bits in reversed(rows)
        )
        axis = " " + "".join(str(x % 10) for x in range(WIDTH))
        piece = self.pieces[0] if self.pieces else "none"
        following = " ".join(self.pieces[1 : 1 + SHOWN]) or "none"
        left = len(self.pieces)
        return (
            f"{drawn}\n{axis}\nPiece: {piece}. Next: {following}. Pieces left: {left}. Lines: {self.lines}."
        )

    def act(self, move: Move) -> float:
        piece, column = self.pieces[0], int(str(move["column"]))
        turns = int(str(move["rotation"]))
        shape = SHAPES[piece][turns % len(SHAPES[piece])]
        if column + max(x for _, x in shape) >= WIDTH:
            raise IllegalMoveError(
                f"{piece} does not fit there: it would stand out on the right. Choose a smaller column."
            )
        outcome = dropped(self.rows, shape, column)
        if outcome is None:
            self.over = True
            return 0.0
        self.rows, lines = outcome
        self.lines += lines
        self.pieces.pop(0)
        self.over = not self.pieces
        return lines

    def policy(self) -> Move | None:
        best: tuple[float, int, int] | None = None
        for turns, shape in enumerate(SHAPES[self.pieces[0]]):
            for column in range(WIDTH - max(x for _, x in shape)):
                outcome = dropped(self.rows, shape, column)
                if outcome is not None:
                    best = max(best or (-1e9, 0, 0), (value(*outcome), -turns, -column))
        return None if best is None else {"rotation": -best[1], "column": -best[2]}

    def score(self) -> Score:
        return Score(name="lines", value=self.lines, unit="lines", baseline=0, par=par(self._number))

    async def snapshot(self) -> JSON:
        return {"board": self.observe(), "lines": self.lines, "pieces_left": len(self.pieces)}


@lru_cache(maxsize=256)
def par(number: int) -> float:
    """Return the lines that the player with fixed weights clears in a game."""
    game = Tetris(number)
    play(game)
    return float(game.lines)


class TetrisBenchmark(StepBenchmark):
    name = "tetris"
    summary = f"Tetris with {PIECES} pieces, scored by lines against a player with fixed weights."
    families = ("tetris",)
    toolset = (PLACE, LOOK)
    rules = RULES

    def make_game(self, family: str, number: int) -> Tetris:
        return Tetris(number)


BENCHMARK = TetrisBenchmark()
