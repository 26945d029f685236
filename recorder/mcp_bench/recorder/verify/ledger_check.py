"""Compare the runs of a home with its ledger: what is missing, an earlier copy of itself, or not known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from mcp_bench.recorder.store.ledger import Contents, Entry, Ledger, Position, open_state
from mcp_bench.recorder.utc import utc

Standing = Literal["entered", "older", "accepted", "rolled back", "unknown"]
"""How a run stands in the ledger.

- `entered`: the folder is in the last state that the ledger has.
- `older`: the run is older than the ledger and has not been opened for writing since.
- `accepted`: it was rolled back or unknown, and the operator accepted that; it has not been since.
- `rolled back`: the folder is an earlier copy of itself, or is back after it was deleted.
- `unknown`: no entry names it.
"""

_CLOSED = ("closed", "added")
_REMOVED = ("removing", "removed")


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with the ledger itself."""

    where: str
    change: Literal["edited", "removed"]
    detail: str


class LedgerCheck:
    """What the ledger of a home says of its runs. `refresh` reads what was appended meanwhile."""

    def __init__(self, ledger: Ledger | None, *, own: bool = True) -> None:
        """Read a ledger.

        Args:
            ledger: None without one, for a run outside any home: nothing is checked.
            own: whether the runs are verified with the key of the home. With another, their ledger is in
                another home.
        """
        self._ledger = ledger
        self._own = own
        self._contents: Contents | None = None
        self._version: tuple[int, ...] | None = None
        self._runs: dict[str, list[Entry]] = {}
        self._faults: dict[str, Fault] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read the ledger again. Do so before a run is read: what the run has must not be older."""
        if self._ledger is None or (self._version and self._version == self._ledger.version()):
            return
        self._version = self._ledger.version()
        self._contents = self._ledger.read()
        runs = defaultdict(list)
        for entry in self._contents.entries if self._contents else ():
            runs[entry.run].append(entry)
        self._runs = dict(runs)

    @property
    def is_used(self) -> bool:
        """Whether runs can be compared with the ledger."""
        return self._ledger is not None and (self._contents is not None or self._own)

    def history(self, run: str) -> list[Entry]:
        """Return the entries of a run, oldest first."""
        return self._runs.get(run, [])

    def judge(self, run: str, named: Position | None, state: str, created_us: int) -> tuple[Standing, str]:
        """Return how a run stands, and details.

        Args:
            run: its id.
            named: the ledger's entry that its row names.
            state: the tag of its last seal; empty if it is open.
            created_us: when it began.
        """
        if (
            named
            and self._contents
            and self._contents.entries
            and named[1] > self._contents.entries[-1].number
        ):
            self.refresh()  # it was opened meanwhile
        contents = self._contents
        self._note_position(run, named)
        if contents is None:
            return ("older", "") if named is None else ("unknown", "there is no ledger that has it")
        history = self.history(run)
        if not history:
            if named is None and created_us < contents.began_us:
                return "older", ""
            whose = "another home's ledger" if named and named[0] != contents.id else "the ledger"
            return "unknown", (
                "its folder was put here by hand, or entries of the ledger were removed"
                if whose == "the ledger"
                else f"it was recorded with {whose}, and put here by hand"
            )
        detail = _later(history, self._number(named), state)
        if detail:
            return "rolled back", detail
        if accepted := self.accepted(run):
            return "accepted", f"a later state may be lost: this copy was {_said(accepted)}"
        is_older = history[0].kind == "older" and len(history) == 1
        return ("older" if is_older else "entered"), ""

    def accepted(self, run: str) -> Entry | None:
        """Return the last entry with which the operator accepted a copy of the run, if any."""
        return next((entry for entry in reversed(self.history(run)) if entry.kind == "accepted"), None)

    def state_to_accept(self, named: Position | None, state: str) -> str:
        """Return the state for the entry that accepts a copy. The arguments are those of `judge`."""
        return state or open_state(self._number(named))

    def _number(self, named: Position | None) -> int:
        """Return the number of the entry of this ledger that a run names, or -1."""
        return -1 if named is None or self._contents is None or named[0] != self._contents.id else named[1]

    def judge_empty(self, run: str) -> tuple[Standing, str]:
        """Return how a run without any rows stands: its writer may have been killed at the start."""
        history = self.history(run)
        if any(entry.kind != "began" for entry in history):
            return "rolled back", f"its rows are gone: the ledger has it as {_said(history[-1])}"
        return ("entered" if history else "older"), ""

    def _note_position(self, run: str, named: Position | None) -> None:
        if named is None or self._ledger is None:
            return
        name, number = named
        if self._contents is None or not self._contents.entries:
            self._fault("ledger", "removed", f"there is none, and {run} names the ledger {name}")
        elif name != self._contents.id:
            if run in self._runs and not self.accepted(run):
                self._fault(
                    "entry 0", "edited", f"the ledger was begun anew: {run} names an earlier one, {name}"
                )
        elif number > self._contents.entries[-1].number:
            self._fault(f"entry {number}", "removed", f"the end was cut off: {run} names this entry")
        elif not any(entry.number == number for entry in self._runs.get(run, ())):
            self._fault(
                f"entry {number}", "edited", f"it is not of {run}, which names it: the end was cut off"
            )

    def _fault(self, where: str, change: Literal["edited", "removed"], detail: str) -> None:
        self._faults.setdefault(where, Fault(where, change, detail))

    def is_removed(self, run: str) -> bool:
        """Read the ledger again, and return whether `mcp-bench` has deleted a run or is doing so."""
        self.refresh()
        return any(entry.kind in _REMOVED for entry in self.history(run)[-1:])

    def faults(self) -> list[Fault]:
        """Return what is wrong with the ledger, as its lines and the runs judged so far show."""
        lines = self._contents.faults if self._contents else []
        return [*(Fault(f"line {number}", "edited", what) for number, what in lines), *self._faults.values()]

    def missing(self, present: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield the runs whose folder is gone and that were not deleted by `mcp-bench`, with details."""
        for run, history in self._runs.items():
            last = history[-1]
            if run not in present and last.kind not in ("ledger", "adding", *_REMOVED):
                yield run, f"its folder is gone: the ledger has it as {_said(last)}"


def _later(history: list[Entry], named: int, state: str) -> str:
    """Return why a folder is older than the last entry of its run; empty if it is not.

    Args:
        history: the entries of the run.
        named: the number of the entry that its row names, or -1.
        state: the tag of its last seal; empty if it is open.
    """
    last = history[-1]
    if last.kind == "removed":
        return f"it was {_said(last)}, and its folder is back"
    # an opening counts when its `opened` follows: a process may be killed while it changes the row
    opened = opening = -1
    for entry in history:
        if entry.kind == "accepted":  # what was before does not count any more
            opened = opening = -1
        if entry.kind == "opening":
            opening = entry.number
        if entry.kind in ("began", "opened"):
            opened = entry.number if entry.kind == "began" else opening
    if opened > named:
        return f"its folder is an earlier copy: the ledger has it as {_said(last)}"
    if last.kind == "accepted":  # nothing has opened it since: an entry would follow
        same = last.state == (state or open_state(named))
        return "" if same else f"its folder is another copy than the one that was {_said(last)}"
    if not state:
        is_closed = last.kind in _CLOSED and last.state
        return (
            f"its seals are gone, or its folder is an earlier copy: it was {_said(last)}" if is_closed else ""
        )
    known = [entry.state for entry in history if entry.state]
    if state in known and last.state != state:
        return f"its folder is an earlier copy: the ledger has it as {_said(last)}"
    return ""


def _said(entry: Entry) -> str:
    word = {"older": "entered", "removed": "deleted", "opening": "opened", "removing": "deleted"}
    return f"{word.get(entry.kind, entry.kind)} on {utc(entry.time_us)} UTC"
