"""A right function that is too slow."""

from __future__ import annotations

import random

from mcp_bench.servers.codeworld.case import Case, python_check

PAIRS = '''\
def pairs(numbers, total):
    """Return how many pairs of positions (i < j) have numbers that add up to `total`."""
    found = 0
    for i in range(len(numbers)):
        for j in range(i + 1, len(numbers)):
            if numbers[i] + numbers[j] == total:
                found += 1
    return found
'''
FAST_PAIRS = '''\
def pairs(numbers, total):
    """Return how many pairs of positions (i < j) have numbers that add up to `total`."""
    found, seen = 0, {}
    for number in numbers:
        found += seen.get(total - number, 0)
        seen[number] = seen.get(number, 0) + 1
    return found
'''
WINDOW = '''\
def best(numbers, width):
    """Return the largest sum of `width` numbers in a row."""
    sums = []
    for start in range(len(numbers) - width + 1):
        sums.append(sum(numbers[start:start + width]))
    return max(sums)
'''
FAST_WINDOW = '''\
def best(numbers, width):
    """Return the largest sum of `width` numbers in a row."""
    now = most = sum(numbers[:width])
    for old, new in zip(numbers, numbers[width:]):
        now += new - old
        most = max(most, now)
    return most
'''
STAIRS = '''\
def ways(steps, jumps):
    """Return in how many ways jumps of the given lengths, in any order, add up to `steps`, modulo 10**9 + 7."""
    if steps == 0:
        return 1
    return sum(ways(steps - jump, jumps) for jump in jumps if jump <= steps) % (10**9 + 7)
'''
FAST_STAIRS = '''\
def ways(steps, jumps):
    """Return in how many ways jumps of the given lengths, in any order, add up to `steps`, modulo 10**9 + 7."""
    known = [1] + [0] * steps
    for at in range(1, steps + 1):
        known[at] = sum(known[at - jump] for jump in jumps if jump <= at) % (10**9 + 7)
    return known[steps]
'''
SECONDS = 6
"""Of a processor, for a large input. The fast ones take far below a second, the slow ones minutes."""


def make(rng: random.Random, level: int) -> Case:
    """Level 1: a sliding window. Level 2: pairs. Level 3: dynamic programming."""
    seed = rng.randrange(10**6)
    draw = f"import random\nr = random.Random({seed})\n"
    local = random.Random(seed)  # noqa: S311 - the same numbers as in the check
    if level == 1:
        module, slow, fast = "window", WINDOW, FAST_WINDOW
        size, width = 240_000, 120_000
        found = _best(local.choices(range(-100, 100), k=size), width)
        large = f"{draw}from window import best\nprint(best(r.choices(range(-100, 100), k={size}), {width}))"
        given = [rng.randrange(-9, 9) for _ in range(12)]
        small, right = f"from window import best\nprint(best({given}, 4))", _best(given, 4)
    elif level == 2:
        module, slow, fast = "sums", PAIRS, FAST_PAIRS
        size, total = 60_000, rng.randrange(900, 1100)
        found = _pairs([local.randrange(1000) for _ in range(size)], total)
        large = (
            f"{draw}from sums import pairs\nprint(pairs([r.randrange(1000) for _ in range({size})], {total}))"
        )
        given = [rng.randrange(9) for _ in range(12)]
        small, right = f"from sums import pairs\nprint(pairs({given}, 8))", _pairs(given, 8)
    else:
        module, slow, fast = "stairs", STAIRS, FAST_STAIRS
        jumps, steps = sorted(rng.sample(range(1, 12), 4)), rng.randrange(20_000, 40_000)
        found = _ways(steps, jumps)
        large = f"from stairs import ways\nprint(ways({steps}, {jumps}))"
        small, right = f"from stairs import ways\nprint(ways(9, {jumps}))", _ways(9, jumps)
    return Case(
        prompt=(
            f"The function in /work/{module}.py is right, but far too slow for large inputs. Make it fast enough for inputs that "
            "are a thousand times as large; its name, arguments and results stay. Only Python's standard library is there."
        ),
        files={f"{module}.py": slow},
        checks=(
            python_check("a large input is fast", large, found, processor_seconds=SECONDS),
            python_check("a small input gives the same", small, right, guards=True),
        ),
        solution=f"cat > /work/{module}.py <<'PY'\n{fast}PY",
    )


def _best(numbers: list[int], width: int) -> int:
    now = most = sum(numbers[:width])
    for old, new in zip(numbers, numbers[width:], strict=False):
        now += new - old
        most = max(most, now)
    return most


def _pairs(numbers: list[int], total: int) -> int:
    found, seen = 0, dict[int, int]()
    for number in numbers:
        found += seen.get(total - number, 0)
        seen[number] = seen.get(number, 0) + 1
    return found


def _ways(steps: int, jumps: list[int]) -> int:
    known = [1] + [0] * steps
    for at in range(1, steps + 1):
        known[at] = sum(known[at - jump] for jump in jumps if jump <= at) % (10**9 + 7)
    return known[steps]
