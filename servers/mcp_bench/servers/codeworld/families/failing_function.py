"""A function with a fault, and a failing example of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcp_bench.servers.codeworld.case import Case, Check, python_check


@dataclass(frozen=True)
class Program:
    """A right module, and ways to break it: each a text of it and what stands in its place."""

    name: str
    task: str
    code: str
    faults: tuple[tuple[str, str], ...]
    arguments: Callable[[random.Random], tuple[Any, ...]]


INTERVALS = '''\
def merge(intervals):
    """Merge intervals (first, last), both ends included, that overlap or touch; sorted by their start."""
    merged = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    return [tuple(one) for one in merged]
'''
WRAP = '''\
def wrap(text, width):
    """Break a text into lines of at most `width` characters, between words; longer words are cut."""
    lines, line = [], ""
    for word in text.split():
        while len(word) > width:
            room = width - len(line) - bool(line)
            if room <= 0:
                lines.append(line)
                line, room = "", width
            line = f"{line} {word[:room]}".strip()
            word = word[room:]
        if len(line) + bool(line) + len(word) <= width:
            line = f"{line} {word}".strip()
        else:
            lines.append(line)
            line = word
    return lines + [line] if line else lines
'''
DURATIONS = '''\
UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def seconds(text):
    """Return the seconds of a duration such as `1d 2h`, `90m` or `-5s`; a minus sign is for all of it."""
    text = text.strip()
    sign = -1 if text.startswith("-") else 1
    total, number = 0, ""
    for letter in text.lstrip("-"):
        if letter.isdigit():
            number += letter
        elif letter in UNITS:
            total += int(number) * UNITS[letter]
            number = ""
    return sign * total
'''
ROMAN = '''\
VALUES = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"),
          (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]


def roman(number):
    """Return a number from 1 to 3999 in Roman numerals."""
    text = ""
    for value, letters in VALUES:
        while number >= value:
            text += letters
            number -= value
    return text
'''
SPREAD = '''\
def spread(amount, weights):
    """Divide whole cents by weights. Parts add up to the amount; cents left over go to the largest
    remainders, and of equal ones to the first."""
    total = sum(weights)
    parts = [amount * weight // total for weight in weights]
    order = sorted(range(len(weights)), key=lambda at: (-(amount * weights[at] % total), at))
    for at in order[: amount - sum(parts)]:
        parts[at] += 1
    return parts
'''


def _intervals(rng: random.Random) -> tuple[Any, ...]:
    starts = [rng.randrange(60) for _ in range(rng.randrange(9))]
    return ([(start, start + rng.randrange(8)) for start in starts],)


def _text(rng: random.Random) -> tuple[Any, ...]:
    words = ["".join(rng.choices("abcdefg", k=rng.randrange(1, 14))) for _ in range(rng.randrange(12))]
    return (" ".join(words), rng.randrange(3, 16))


def _duration(rng: random.Random) -> tuple[Any, ...]:
    units = [unit for unit in "dhms" if rng.random() < 0.6]
    words = " ".join(f"{rng.randrange(100)}{unit}" for unit in units)
    return (("-" if rng.random() < 0.3 else "") + words,)


def _shares(rng: random.Random) -> tuple[Any, ...]:
    return (rng.randrange(1000), [rng.randrange(1, 9) for _ in range(rng.randrange(1, 7))])


PROGRAMS = (
    Program(
        "intervals.merge",
        "merges intervals",
        INTERVALS,
        (
            ("merged[-1][1] + 1:", "merged[-1][1]:"),
            ("max(merged[-1][1], last)", "last"),
            ("sorted(intervals)", "intervals"),
        ),
        _intervals,
    ),
    Program(
        "wrapping.wrap",
        "breaks texts into lines",
        WRAP,
        (
            ("+ len(word) <= width", "+ len(word) < width"),
            ("room = width - len(line) - bool(line)", "room = width - len(line)"),
            ("return lines + [line] if line else lines", "return lines + [line]"),
        ),
        _text,
    ),
    Program(
        "durations.seconds",
        "reads durations",
        DURATIONS,
        (
            ("return sign * total", "return total"),
            ('            number = ""\n', ""),
            ('"d": 86400', '"d": 8640'),
        ),
        _duration,
    ),
    Program(
        "numerals.roman",
        "writes Roman numerals",
        ROMAN,
        (
            ('(900, "CM"), ', ""),
            ("number >= value", "number > value"),
            ('(4, "IV"), ', ""),
        ),
        lambda rng: (rng.randrange(1, 4000),),
    ),
    Program(
        "shares.spread",
        "divides amounts",
        SPREAD,
        (
            ("(-(amount * weights[at] % total), at)", "(amount * weights[at] % total, at)"),
            ("amount - sum(parts)", "amount - sum(parts) - 1"),
            ("amount * weight // total", "round(amount * weight / total)"),
        ),
        _shares,
    ),
)


def make(rng: random.Random, level: int) -> Case:
    """Level 1: one fault and a failing example. Level 2: two faults. Level 3: three, and no example."""
    program = rng.choice(PROGRAMS)
    module, function = program.name.split(".")
    broken = program.code
    for right, wrong in rng.sample(program.faults, level):
        broken = broken.replace(right, wrong, 1)
    right_one, wrong_one = _loaded(program.code, function), _loaded(broken, function)
    inputs = [program.arguments(rng) for _ in range(400)]
    wanted = [(given, right_one(*given)) for given in inputs]
    failing = [(given, out) for given, out in wanted if _said(wrong_one, given) != repr(out)]
    if not failing:  # the faults show in no input
        return make(rng, level)
    given, out = failing[0]
    example = f" For example, {function}{given!r} must return {out!r}, and does not." if level < 3 else ""
    sample = [*failing[:15], *wanted[:25]]
    rng.shuffle(sample)
    code = f"from {module} import {function}\nprint([{function}(*one) for one in {[one for one, _ in sample]!r}])"
    return Case(
        prompt=(
            f"/work/{module}.py {program.task}, but some results are wrong. Its docstring says what is right."
            f"{example} Mend it: hidden examples will be tried."
        ),
        files={f"{module}.py": broken},
        checks=(
            python_check("hidden examples give the right results", code, repr([one for _, one in sample])),
            Check(
                "the docstring is still there",
                f'grep -q \'"""\' /work/{module}.py && echo yes',
                "yes",
                guards=True,
            ),
        ),
        solution=f"cat > /work/{module}.py <<'PY'\n{program.code}PY",
    )


def _loaded(code: str, function: str) -> Callable[..., Any]:
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - the texts above
    found: Callable[..., Any] = names[function]
    return found


def _said(function: Callable[..., Any], given: tuple[Any, ...]) -> str:
    try:
        return repr(function(*given))
    except Exception as error:
        return f"raised {error!r}"
