"""What the scripted proposer of `improve_drivers.py` changes in each task. It is no model.

A proposal takes a version and changes one thing at random: a passage into another variant of it, or a
line that is there or not. One of six proposals is broken. Some tasks begin with another program than the
baseline, whose settings are poor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from mcp_bench.servers.improve.benchmark import Improve

BROKEN = 6
TASKS = Improve().folders
CODEC = """import bz2, lzma, zlib
S = {"coder": "zlib", "columns": 0, "times": 0, "tenths": 0, "plain": 0}
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 0, "lp": 0, "pb": 0}]

def pack(data):
    if S["coder"] == "lzma":
        return lzma.compress(data, lzma.FORMAT_RAW, filters=FILTERS) if S["plain"] else lzma.compress(data)
    return (bz2 if S["coder"] == "bz2" else zlib).compress(data, 9)

def unpack(data):
    if S["coder"] == "lzma":
        raw = lzma.FORMAT_RAW
        return lzma.decompress(data, raw, filters=FILTERS) if S["plain"] else lzma.decompress(data)
    return (bz2 if S["coder"] == "bz2" else zlib).decompress(data)

def steps(numbers, sign):
    kept, out = 0, []
    for number in numbers:
        out.append(number - kept if sign < 0 else number + kept)
        kept = number if sign < 0 else out[-1]
    return out

def compress(data):
    head, *lines = data.decode().splitlines()
    columns = [list(column) for column in zip(*(line.split(",") for line in lines))]
    if S["times"]:
        columns[0] = [str(n) for n in steps([int(n) for n in columns[0]], -1)]
    if S["tenths"]:
        for place in (2, 3, 4):
            columns[place] = [word.replace(".", "") for word in columns[place]]
    if S["columns"]:
        return pack("\\n".join([head, *(",".join(column) for column in columns)]).encode())
    return pack("\\n".join([head, *(",".join(row) for row in zip(*columns))]).encode())

def decompress(data):
    head, *lines = unpack(data).decode().split("\\n")
    columns = [line.split(",") for line in lines]
    if not S["columns"]:
        columns = [list(column) for column in zip(*columns)]
    if S["times"]:
        columns[0] = [str(n) for n in steps([int(n) for n in columns[0]], 1)]
    if S["tenths"]:
        for place in (2, 3, 4):
            columns[place] = [f"{word[:-1]}.{word[-1]}" for word in columns[place]]
    return ("\\n".join([head, *(",".join(row) for row in zip(*columns))]) + "\\n").encode()
"""


@dataclass(frozen=True)
class Changes:
    """What can be changed in a task's target."""

    passages: Sequence[tuple[str, ...]] = ()
    """For each passage, the variants. A version has one of them."""
    lines: Sequence[str] = ()
    """Each can be in a version, before the text `before`."""
    before: str = ""
    start: str = ""
    """A program in place of the baseline."""

    def proposed(self, version: str, rng: Random) -> str:
        """Return a version with one change."""
        if self.start and not any(variant in version for variant in self.passages[0]):
            version = self.start
        chosen = rng.randrange(len(self.passages) + len(self.lines))
        if chosen < len(self.passages):
            variants = self.passages[chosen]
            now = max((one for one in variants if one in version), key=len)
            version = version.replace(now, rng.choice([one for one in variants if one != now]), 1)
        else:
            line = self.lines[chosen - len(self.passages)]
            version = (
                version.replace(line, "")
                if line in version
                else version.replace(self.before, line + self.before)
            )
        return version[: len(version) // 2] if rng.randrange(BROKEN) == 0 else version


def worse(task: str, *changes: tuple[str, str]) -> str:
    """Return the reference of a task with some of its passages replaced."""
    [text] = TASKS[task].reference.values()
    for good, bad in changes:
        assert text.count(good) == 1, (task, good)
        text = text.replace(good, bad)
    return text


def lines(task: str, first: str) -> tuple[str, ...]:
    """Return the lines of a reference, up to the first empty one, that its baseline lacks."""
    [text], [baseline] = TASKS[task].reference.values(), TASKS[task].baseline.values()
    block = text[text.index(first) :].partition("\n\n")[0]
    return tuple(f"{line}\n" for line in block.splitlines() if line not in baseline)


EINSUM = 'np.einsum("ijc,cd->ijd", normal, {})'
SHRINK = "shrink = math.cos(math.radians(x)) ** 2"
VOTES = "1 / (distance + 0.01)"
SHARES = "0.97 * shares + 0.03"
BEST = "best = min((2, 3, 4, 5, 6, 8, 10), key=surprise)"
ENDS = 'text = f" {name.lower()} "'
CHANGES = {
    "codec": Changes(
        [
            ('"coder": "zlib"', '"coder": "bz2"', '"coder": "lzma"'),
            *((f'"{name}": 0', f'"{name}": 1') for name in ("columns", "times", "tenths", "plain")),
        ],
        start=CODEC,
    ),
    "bytes": Changes(
        [
            ("ORDER = 1", "ORDER = 2", "ORDER = 3", "ORDER = 4", "ORDER = 5"),
            ("0.1 * seconds", "0.4 * seconds", "0.85 * seconds"),
        ],
        start=worse("bytes", ("ORDER = 5", "ORDER = 1"), ("0.85 * seconds", "0.1 * seconds")),
    ),
    "places": Changes(
        [
            ("[:80]", "[:20]", "[:10]", "[:5]", "[:1]"),
            ("shrink = 1", SHRINK),
            ("0.0) + 1\n", f"0.0) + {VOTES}\n"),
        ],
        start=worse("places", ("[:5]", "[:80]"), (SHRINK, "shrink = 1"), (VOTES, "1")),
    ),
    "languages": Changes(
        [
            tuple(f"for size in ({sizes}) for" for sizes in ("1,", "1, 2", "1, 2, 3", "1, 2, 3, 4")),
            ("ALPHA = 5", "ALPHA = 0.5", "ALPHA = 0.05", "ALPHA = 0.005"),
            ("text = name.lower()", ENDS),
        ],
        start=worse(
            "languages",
            ("(1, 2, 3, 4)", "(1,)"),
            ("ALPHA = 0.005", "ALPHA = 5"),
            (ENDS, "text = name.lower()"),
        ),
    ),
    "counts": Changes(
        [
            ("best = 2\n", "best = 3\n", "best = 6\n", "best = 12\n", f"{BEST}\n"),
            ("best, 30)", "best, 5)", "best, 120)"),
            ("0.8 * shares + 0.2", "0.4 * shares + 0.6", SHARES),
        ],
        start=worse(
            "counts", (BEST, "best = 2"), ("best, 120)", "best, 30)"), (SHARES, "0.8 * shares + 0.2")
        ),
    ),
    "intents": Changes(lines=lines("intents", ""), before="\n{input}"),
    "triangles": Changes(
        [
            *((EINSUM.format(name), f"normal @ {name}") for name in ("left", "right", "gate")),
            (
                'np.einsum("ikc,jkc->ijc", a, b)',
                'np.einsum("ikc,jkc->ijc", a, b, optimize=True)',
                "(a.transpose(2, 0, 1) @ b.transpose(2, 1, 0)).transpose(1, 2, 0)",
            ),
        ]
    ),
    "queries": Changes(lines=lines("queries", "CREATE"), before="\n-- query late"),
    "digits": Changes(
        [
            (
                "HIDDEN, ROUNDS, RATE, BATCH = 48",
                "HIDDEN, ROUNDS, RATE, BATCH = 32",
                "HIDDEN, ROUNDS, RATE, BATCH = 24",
            ),
            (", 30, 0.2,", ", 20, 0.2,", ", 12, 0.2,", ", 20, 0.4,", ", 12, 0.4,", ", 8, 0.8,"),
            ("16\n\n", "32\n\n", "64\n\n"),
        ]
    ),
}
"""By task."""
