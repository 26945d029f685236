"""A client that connects, lists the tools, and ends: the floor of every benchmark.

python -m mcp_bench.clients.noop --mcp-config FILE
"""

from __future__ import annotations

import argparse

from mcp_bench.clients.config import read_config
from mcp_bench.clients.connection import connect
from mcp_bench.clients.process import parser, run


async def listen(options: argparse.Namespace) -> None:
    async with connect(read_config(options.mcp_config, options.server), options.connect_timeout):
        pass


def main() -> None:
    options = parser("noop", "Connect, list the tools, do nothing.").parse_args()
    run(lambda: listen(options))


if __name__ == "__main__":
    main()
