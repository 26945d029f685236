"""What the scripted proposer of `improve_drivers.py` changes in each task. It is no model.

A proposal takes a version and changes one thing at random: a passage into another variant of it, or a
line that is there or not. One of six proposals is broken. Some tasks begin with another program than the
baseline, whose settings are poor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from improve_programs import ALIGNMENT, CODEC, TEMPLATES

from mcp_bench.servers.improve.benchmark import Improve

BROKEN = 6
TASKS = Improve().folders


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
        """Return a version with one change; one of six is broken."""
        version = self.changed(version, rng)
        # half a program can be a whole one; not with a bracket that is open
        return f"{version[: len(version) // 2]}\n(" if rng.randrange(BROKEN) == 0 else version

    def changed(self, version: str, rng: Random) -> str:
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
        return version


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
WARM = "min(1, step / 20) * "
SAID = "Announcement: {}\nAnswer: {}\n\n"
ANNOUNCED = (
    SAID.format("AA512 to Denver Intl (DEN) leaves at 14:20, 25 minutes late.", "AA512|DEN|25"),
    SAID.format(
        "Passengers for Key West Intl (EYW): flight B6204, departure 09:15, delay 47 min.", "B6204|EYW|47"
    ),
    SAID.format(
        "Delay of 18 minutes: DL1907 for SEA (Seattle-Tacoma Intl), scheduled 22:30.", "DL1907|SEA|18"
    ),
    SAID.format("UA88 to Fresno Yosemite Intl (FAT) leaves at 06:05, 62 minutes late.", "UA88|FAT|62"),
    # the same with another time than the delay, another order, and other words
    SAID.format("UA731 to Boston Logan (BOS) leaves at 10:05, 12 minutes late.", "UA731|BOS|10:05"),
    SAID.format("Delay of 33 minutes: AA9 for MIA (Miami Intl), scheduled 07:40.", "33|AA9|MIA"),
    SAID.format(
        "Passengers for Kodiak (ADQ): flight UA645, departure 17:55, delay 8 min.", "UA645 to Kodiak, 8"
    ),
)
[PROMPT] = TASKS["announcements"].baseline.values()


def cached(name: str) -> tuple[str, str]:
    """Return a function's head, without a cache and with one."""
    return f"\ndef {name}(", f"\n@cache\ndef {name}("


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
    "alignment": Changes(
        [
            cached("places"),
            ("[length(", "[rows(", "[ends(", "[bits("),
            ("(one, other) for", "(other, one) for", "(*sorted((one, other), key=len)) for"),
        ],
        start=TASKS["alignment"].baseline["target.py"] + ALIGNMENT,
    ),
    "templates": Changes(
        [
            *(cached(name) for name in ("split", "names", "words", "tree")),
            ("block(split(template), 0, context)[0]", "filled(tree(template), context)"),
            ('[word.strip() for word in part[2:-2].split("|")]', 're.findall(r"\\w+", part)'),
            ("part[2:-2].split()\n", 're.split(" +", part[2:-2].strip())\n'),
            *(
                (f"{{**context, {name}[1]: item}}", f"context | {{{name}[1]: item}}")
                for name in ("tag", "what")
            ),
        ],
        start=TEMPLATES,
    ),
    "announcements": Changes(
        [
            (
                PROMPT.partition("\n")[0],
                "Extract the flight, the airport and the delay.",
                "FLIGHT|CODE|MINUTES",
            )
        ],
        lines=ANNOUNCED,
        before="Announcement: {input}",
    ),
    "speedrun": Changes(
        [
            ("= 3e-4,", "= 1e-3,", "= 3e-3,", "= 1e-2,"),
            (", 32, ", ", 8, ", ", 16, ", ", 64, "),
            (", 50, 0", ", 10, 0", ", 25, 0", ", 100, 0"),
            ("0.1\n\n", "0.05\n\n", "0.03\n\n"),
            ("(0.05 * torch", "(0.02 * torch", "(0.2 * torch"),
            ("RATE * first", f"RATE * {WARM}first"),
        ]
    ),
}
"""By task."""
