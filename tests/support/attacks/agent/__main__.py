"""A hostile agent: which of its parts it plays depends on which attempt at the task it is."""

import ends
import shell
import wire
from report import report
from rpc import CONFIG

PARTS = (wire.victim, ends.ENDS[0], shell.shell, wire.wire, *ends.ENDS[1:])
"""The first is there until the last has come to its end; they come one after the other."""

if __name__ == "__main__":
    report(PARTS[CONFIG["repeat"]]())
