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
    key = " ".join((folder / "host.pub").read_text().split()[:2])
    for _ in range(5):  # another program can take the port first
        port = free_port()
        (folder / "config").write_text(CONFIG.format(port=port, folder=folder))
        (folder / "known").write_text(f"[127.0.0.1]:{port} {key}\n")
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "config"], stderr=log)
        try:
            if listens(server, folder / "log"):
                yield port, server
                return
        finally:
            server.kill()
            server.wait()
    raise RuntimeError((folder / "log").read_text())


def listens(server: subprocess.Popen[bytes], log: Path) -> bool:
    """Wait until a server listens; return whether it does."""
    for _ in range(600):
        if server.poll() is not None:
            return False
        if "Server listening" in log.read_text():
            return True
        with suppress(subprocess.TimeoutExpired):
            server.wait(0.1)
    return False
