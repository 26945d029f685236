"""A task family: one file under `families/<domain>/` with one function that builds a task.

    @family(levels=(1, 2))
    def contact_email(b: Builder) -> None: ...

Its id is the domain and the file's name: `families/sales/renewal_quote.py` is `sales-renewal-quote`. So is
`families/sales/practice/new_lead.py` `sales-new-lead`: it is listed in `practice` only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from pkgutil import iter_modules

from mcp_bench.servers.saasworld import families
from mcp_bench.servers.saasworld.authoring.builder import Builder

DOMAINS = ("simple", "sales", "marketing", "operations", "support", "finance", "hr")
LEVELS = (1, 2, 3, 4, 5)
PRACTICE = "practice"
"""The folder, in that of a domain, of families that only the split of this name lists."""


@dataclass(frozen=True)
class Family:
    build: Callable[[Builder], None]
    levels: tuple[int, ...]
    held_out: bool
    """True: the family is in `test` and `private` only. False: in `train` and `dev` only."""
    practice: bool
    """True: `practice` lists its tasks of `train`, in place of `train` and `dev`."""
    domain: str
    name: str

    @property
    def id(self) -> str:
        return f"{self.domain}-{self.name}"


def family(*, levels: Iterable[int], held_out: bool = False) -> Callable[[Callable[[Builder], None]], Family]:
    """Declare a family.

    Args:
        levels: 1 to 5; docs/benchmarks/saasworld.md describes them.
        held_out: put the family in `test` and `private` only.
    """
    chosen = tuple(sorted(set(levels)))
    if not chosen or not set(chosen) <= set(LEVELS):
        raise ValueError(f"levels must be some of {LEVELS}, not {chosen}")

    def declare(build: Callable[[Builder], None]) -> Family:
        domain, *practice, name = build.__module__.removeprefix(f"{families.__name__}.").split(".")
        if held_out and practice:
            raise ValueError("a family for practice is not held out")
        return Family(build, chosen, held_out, bool(practice), domain, name.replace("_", "-"))

    return declare


@cache
def family_places() -> dict[str, str]:
    """Return the module of every family by its id, from the list of files, without importing them."""
    found = {}
    for domain, folder in product(DOMAINS, ("", PRACTICE)):
        place = ".".join(filter(None, (families.__name__, domain, folder)))
        paths = [str(Path(path, domain, folder)) for path in families.__path__]
        for module in sorted(iter_modules(paths), key=lambda module: module.name):
            if not module.ispkg:
                found[f"{domain}-{module.name.replace('_', '-')}"] = f"{place}.{module.name}"
    return found


@cache
def load_family(family_id: str) -> Family:
    """Import one family.

    Raises:
        KeyError: there is no family with that id.
        TypeError: its file does not declare exactly one family.
    """
    module = import_module(family_places()[family_id])
    declared = [value for value in vars(module).values() if isinstance(value, Family)]
    if len(declared) != 1:
        raise TypeError(f"{module.__name__} must declare one family with @family, not {len(declared)}")
    return declared[0]


def all_families() -> list[Family]:
    """Import and return every family, sorted by domain and name."""
    return [load_family(family_id) for family_id in family_places()]
