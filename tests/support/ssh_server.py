"""A real sshd on loopback, with keys and a configuration of its own, as a machine that an operator lends."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") or ""
CONFIG = """ListenAddress 127.0.0.1:{port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
SetEnv HOME={folder}/home
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def runner(name: str, folder: Path, port: int, **more: Any) -> dict[str, Any]:
    """Return the operator's entry for the server."""
    options = [
        "-F",
        "none",
        "-p",
        str(port),
        "-i",
        f"{folder}/user",
        "-o",
        f"UserKnownHostsFile={folder}/known",
    ]
    return {"name": name, "kind": "ssh", "host": f"{getpass.getuser()}@127.0.0.1", "options": options,
            "python": "/usr/bin/python3", **more}  # fmt: skip


@contextmanager
def ssh_server(folder: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Start it; yield its port and process. It listens when this yields."""
    (folder / "home").mkdir(parents=True)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # without it, sshd of root does not start
    port = free_port()
    (folder / "config").write_text(CONFIG.format(port=port, folder=folder))
    key = " ".join((folder / "host.pub").read_text().split()[:2])
    (folder / "known").write_text(f"[127.0.0.1]:{port} {key}\n")
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "config"], stderr=log)
    try:
        for _ in range(600):
            if server.poll() is not None:
                raise RuntimeError((folder / "log").read_text())
            if "Server listening" in (folder / "log").read_text():
                break
            with suppress(subprocess.TimeoutExpired):
                server.wait(0.1)
        yield port, server
    finally:
        server.kill()
        server.wait()
