"""A hostile agent. The number of the attempt selects its part."""

import ends
import shell
import wire
from report import report
from rpc import CONFIG

PARTS = (wire.victim, ends.ENDS[0], shell.shell, wire.wire, *ends.ENDS[1:])
"""The first part runs until the last has finished; the others run one after the other."""

if __name__ == "__main__":
    report(PARTS[CONFIG["repeat"]]())
