"""Attacks by commands."""

import subprocess

from report import PLACES, account, results
from rpc import Server

SECONDS = 60


def shell():
    server = Server()
    server.connect()
    server.call("write", key="one", value="uno-sentinel")
    for name, command in PLACES["commands"].items():
        done = subprocess.run(
            ["sh", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS
        )
        output = done.stdout.decode(errors="replace")
        account(command, (output + done.stderr.decode(errors="replace"))[:2000])
        results[name] = bool(output.strip())
