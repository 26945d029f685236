"""A lock file to write: versions of packages that agree with each other."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator

from mcp_bench.servers.codeworld.case import Case, Check

NAMES = ("amber", "birch", "cedar", "delta", "ember", "flint", "grove", "heron", "islet", "jetty")
Index = dict[str, dict[str, dict[str, list[str]]]]
"""By package and version: what it needs, as package and allowed versions."""
SOLVE = """\
import json
index = json.load(open("index.json"))
wanted = json.load(open("wanted.json"))
def solve(chosen, open_):
    open_ = [(name, allowed) for name, allowed in open_]
    for name, allowed in open_:
        if name in chosen and chosen[name] not in allowed:
            return None
    rest = sorted({name for name, _ in open_} - set(chosen))
    if not rest:
        return chosen
    name = rest[0]
    for version in sorted(index[name], key=lambda v: tuple(map(int, v.split("."))), reverse=True):
        found = solve({**chosen, name: version}, open_ + list(index[name][version].items()))
        if found:
            return found
found = solve({}, list(wanted.items()))
open("lock.txt", "w").write("".join(f"{name}=={found[name]}\\n" for name in sorted(found)))
"""


def make(rng: random.Random, level: int) -> Case:
    """Level 1: three direct packages. Level 2: a chain, whose newest versions do not agree. Level 3: eight packages, of
    which the newest versions of several do not agree, and forbidden versions."""
    while True:
        index, wanted, forbidden = _drawn(rng, level)
        newest = {name: _newest(index, name) for name in index}
        if list(_faults(newest, index, wanted, forbidden)) and _solvable(index, wanted, forbidden):
            break
    rules = [
        "it has each package of wanted.json, and each that one of its packages needs, once, as `name==version`, sorted by name, "
        "and no other package",
        "each version is in index.json, and is allowed by wanted.json and by every package of the lock",
    ]
    if forbidden:
        rules.append("versions in forbidden.txt are not used")
    files = {
        "index.json": json.dumps(index, indent=1) + "\n",
        "wanted.json": json.dumps(wanted, indent=1) + "\n",
    }
    solve = SOLVE
    if forbidden:
        files["forbidden.txt"] = "".join(f"{name}=={version}\n" for name, version in sorted(forbidden))
        solve = SOLVE.replace(
            "wanted = json",
            'for line in open("forbidden.txt"):\n    name, version = line.strip().split("==")\n'
            "    index[name].pop(version)\nwanted = json",
            1,
        )
    return Case(
        prompt=(
            "/work/index.json has the versions of some packages, and for each version the versions of others that it allows. "
            "/work/wanted.json has what a program needs directly. The newest versions do not agree with each other. Write "
            "/work/lock.txt so that:\n- "
            + "\n- ".join(rules)
            + "\nAny lock that keeps these rules is right. Leave the other files as they are."
        ),
        files=files,
        checks=(
            Check(
                "the lock keeps the rules",
                "head -c 5000 /work/lock.txt",
                "",
                judge=lambda printed: _wrong(printed, index, wanted, forbidden),
            ),
            Check(
                "the other files are unchanged",
                f"cat {' '.join(f'/work/{name}' for name in sorted(files))}",
                "".join(files[name] for name in sorted(files)),
                guards=True,
            ),
        ),
        solution=f"cd /work && python3 - <<'PY'\n{solve}PY",
    )


def _drawn(rng: random.Random, level: int) -> tuple[Index, dict[str, list[str]], frozenset[tuple[str, str]]]:
    names = rng.sample(NAMES, (4, 6, 8)[level - 1])
    versions = {name: [f"{big}.{small}" for big in (1, 2) for small in range(level + 1)] for name in names}
    index: Index = {name: {} for name in names}
    for at, name in enumerate(names):
        for version in versions[name]:
            later = names[at + 1 :]
            needed = sorted(rng.sample(later, min(len(later), rng.choice((1, 2)))))
            index[name][version] = {other: _some(rng, versions[other]) for other in needed}
    wanted = {name: _some(rng, versions[name], least=2) for name in sorted(names[: level + 1])}
    forbidden = (
        frozenset((name, rng.choice(versions[name])) for name in rng.sample(names, 3))
        if level == 3
        else frozenset()
    )
    return index, wanted, forbidden


def _some(rng: random.Random, versions: list[str], least: int = 1) -> list[str]:
    count = rng.randrange(least, max(least, len(versions) - 1) + 1)
    chosen = set(rng.sample(versions, count))
    return [one for one in versions if one in chosen]


def _newest(index: Index, name: str) -> str:
    return max(index[name], key=lambda version: tuple(map(int, version.split("."))))


def _faults(
    lock: dict[str, str], index: Index, wanted: dict[str, list[str]], forbidden: frozenset[tuple[str, str]]
) -> Iterator[str]:
    """Yield what is wrong with a lock; packages that nothing needs are looked for by `_wrong`."""
    needs = [("the program", wanted)]
    needs += [(name, index[name][version]) for name, version in lock.items()]
    for who, needed in needs:
        for name, allowed in needed.items():
            if lock.get(name) not in allowed:
                yield f"{who} does not allow {name}=={lock.get(name)}"
    yield from (
        f"{name}=={version} is forbidden" for name, version in lock.items() if (name, version) in forbidden
    )


def _solvable(index: Index, wanted: dict[str, list[str]], forbidden: frozenset[tuple[str, str]]) -> bool:
    """Return whether some choice of versions keeps the rules: tried one after the other, package by package."""

    def search(chosen: dict[str, str], open_: list[tuple[str, list[str]]]) -> bool:
        if any(name in chosen and chosen[name] not in allowed for name, allowed in open_):
            return False
        rest = sorted({name for name, _ in open_} - chosen.keys())
        if not rest:
            return True
        name = rest[0]
        return any(
            search({**chosen, name: version}, [*open_, *index[name][version].items()])
            for version in index[name]
            if (name, version) not in forbidden
        )

    return search({}, list(wanted.items()))


def _wrong(
    printed: str, index: Index, wanted: dict[str, list[str]], forbidden: frozenset[tuple[str, str]]
) -> str:
    pairs = [line.strip().partition("==")[::2] for line in printed.splitlines() if line.strip()]
    names = [name for name, _ in pairs]
    if names != sorted(set(names)):
        return "the packages are not sorted, or one is there twice"
    for name, version in pairs:
        if version not in index.get(name, {}):
            return f"there is no {name}=={version}"[:100]
    lock = dict(pairs)
    reached = set(wanted) | set(
        itertools.chain.from_iterable(index[name][version] for name, version in pairs)
    )
    if surplus := lock.keys() - _reached(lock, index, wanted):
        return f"nothing needs {sorted(surplus)[0]}"
    if lacking := reached - lock.keys():
        return f"{sorted(lacking)[0]} is missing"
    return next(_faults(lock, index, wanted, forbidden), "")


def _reached(lock: dict[str, str], index: Index, wanted: dict[str, list[str]]) -> set[str]:
    """Return what the program needs, directly and through the packages of the lock."""
    found: set[str] = set()
    waiting = list(wanted)
    while waiting:
        name = waiting.pop()
        if name not in found and name in lock:
            found.add(name)
            waiting += index[name][lock[name]]
    return found
