"""Players of TextArena's games: they read what the game shows, as an agent does, and say the next move."""

from __future__ import annotations

import re
from collections import Counter, deque
from itertools import permutations
from typing import Any

LIST = re.compile(r"(?:Valid|Available) moves:(.*)", re.IGNORECASE)
MOVE = re.compile(r"\[[^\[\]]+\]")


def listed(env: Any, text: str) -> list[str]:
    """Return the moves that the last list in a text names."""
    lists = LIST.findall(text)
    return MOVE.findall(lists[-1]) if lists else []


def columns(env: Any, text: str) -> list[str]:
    """Return the columns of Connect Four that have room."""
    return [f"[col {column}]" for column, cell in enumerate(env.state.game_state["board"][0]) if cell == "."]


def removals(env: Any, text: str) -> list[str]:
    """Return what can be removed from the piles of Nim."""
    piles = env.state.game_state["piles"]
    return [f"[{pile} {count}]" for pile, size in enumerate(piles) for count in range(1, size + 1)]


class LightsOut:
    """Presses what turns all lights off: the presses of the first row decide all others."""

    def __init__(self) -> None:
        self._left: list[tuple[int, int]] | None = None

    def __call__(self, text: str) -> str | None:
        if self._left is None:
            rows = [re.findall(r"[O.]", line) for line in re.findall(r"^\d+: (.*)$", text, re.MULTILINE)]
            self._left = self._presses([[cell == "O" for cell in row] for row in rows])
        return "[{} {}]".format(*self._left.pop()) if self._left else None

    @staticmethod
    def _presses(lights: list[list[bool]]) -> list[tuple[int, int]]:
        size, found = len(lights), []
        for first in range(1 << size):
            grid, presses = [list(row) for row in lights], []
            for y in range(size):
                for x in range(size):
                    if grid[y - 1][x] if y else first >> x & 1:
                        presses.append((y, x))
                        for v, u in ((y, x), (y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                            if 0 <= v < size and 0 <= u < size:
                                grid[v][u] = not grid[v][u]
            if not any(grid[-1]):
                found.append(presses)
        return min(found, key=len, default=[])


class FrozenLake:
    """Walks the shortest way around the holes."""

    def __call__(self, text: str) -> str | None:
        board = text[text.rfind("Current Board:") :]
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in re.findall(r"^\|.*\|$", board, re.MULTILINE)
        ]
        cells = {(y, x): cell for y, row in enumerate(rows) for x, cell in enumerate(row)}
        start = next((at for at, cell in cells.items() if cell == "P"), None)
        if start is None:
            return None
        ways: deque[tuple[tuple[int, int], str]] = deque([(start, "")])
        seen = {start}
        while ways:
            (y, x), first = ways.popleft()
            if cells[y, x] == "G":
                return f"[{first}]"
            for name, at in (
                ("up", (y - 1, x)),
                ("down", (y + 1, x)),
                ("left", (y, x - 1)),
                ("right", (y, x + 1)),
            ):
                if at in cells and at not in seen and cells[at] != "H":
                    seen.add(at)
                    ways.append((at, first or name))
        return None


class Sudoku:
    """Solves the first grid by search, and fills in what is missing."""

    def __init__(self) -> None:
        self._left: list[str] | None = None

    def __call__(self, text: str) -> str | None:
        if self._left is None:
            lines = re.findall(r"^R\d(.*)$", text, re.MULTILINE)[-9:]
            grid = [
                [int(cell) if cell != "." else 0 for cell in re.findall(r"[\d.]", line)] for line in lines
            ]
            empty = [(y, x) for y in range(9) for x in range(9) if not grid[y][x]]
            solved = self._fill(grid)
            self._left = [f"[{y + 1} {x + 1} {grid[y][x]}]" for y, x in empty] if solved else []
        return self._left.pop() if self._left else None

    def _fill(self, grid: list[list[int]]) -> bool:
        options = {
            (y, x): set(range(1, 10))
            - {*grid[y], *(row[x] for row in grid)}
            - {
                grid[v][u]
                for v in range(y // 3 * 3, y // 3 * 3 + 3)
                for u in range(x // 3 * 3, x // 3 * 3 + 3)
            }
            for y in range(9)
            for x in range(9)
            if not grid[y][x]
        }
        if not options:
            return True
        y, x = min(options, key=lambda at: len(options[at]))
        for digit in sorted(options[y, x]):
            grid[y][x] = digit
            if self._fill(grid):
                return True
        grid[y][x] = 0
        return False


class GuessTheNumber:
    """Halves what is left."""

    def __init__(self) -> None:
        self._low, self._high, self._guess = 1, 20, 0

    def __call__(self, text: str) -> str:
        if "is lower" in text:
            self._high = self._guess - 1
        elif "is higher" in text:
            self._low = self._guess + 1
        self._guess = (self._low + self._high) // 2
        return f"[{self._guess}]"


class Mastermind:
    """Says the first code that fits all answers."""

    def __init__(self) -> None:
        self._codes = list(permutations(range(1, 7), 4))

    def __call__(self, text: str) -> str:
        if answer := re.search(r"(\d+) black peg\(s\), (\d+) white", text):
            heard, guess = (int(answer[1]), int(answer[2])), self._codes[0]
            self._codes = [code for code in self._codes[1:] if self._pegs(code, guess) == heard]
        return f"[{' '.join(map(str, self._codes[0]))}]"

    @staticmethod
    def _pegs(code: tuple[int, ...], guess: tuple[int, ...]) -> tuple[int, int]:
        black = sum(left == right for left, right in zip(code, guess, strict=True))
        return black, (Counter(code) & Counter(guess)).total() - black


class Nim:
    """Leaves piles whose exclusive or is 0, if it can (Bouton, 1901)."""

    def __call__(self, text: str) -> str | None:
        piles = [int(size) for size in re.findall(r"pile \d+: (\d+)", text[text.rfind("Current Pile:") :])]
        total = 0
        for size in piles:
            total ^= size
        wins = [f"[{pile} {size - (size ^ total)}]" for pile, size in enumerate(piles) if size ^ total < size]
        waits = [f"[{pile} 1]" for pile, size in enumerate(piles) if size]
        return next(iter(wins or waits), None)
