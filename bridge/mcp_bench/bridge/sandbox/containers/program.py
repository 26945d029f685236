"""The programs `podman` and `docker`: what they have in common, and a small table of their differences."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from mcp_bench.bridge.sandbox import kernel
from mcp_bench.servers.sandbox import SandboxError, SandboxLimits

CLI_SECONDS = 60.0
OPEN_FILES = 8192
KEPT_VARIABLES = ("PATH", "HOME", "USER", "TMPDIR", "XDG_", "DOCKER_", "CONTAINER", "REGISTRY_", "SSH_AUTH")
"""Beginnings of the environment variables that the program gets."""


@dataclass(frozen=True)
class Program:
    """One of the programs."""

    name: str
    package: str
    options: tuple[str, ...] = ()
    """Of `run`, besides those that both have."""
    variants: tuple[tuple[str, ...], ...] = ((),)
    """Further options of `run`; the first that work here are used."""
    maps_users: bool = False
    """As root, it can give each container users of its own. Otherwise, its daemon decides."""


PODMAN = Program(
    "podman",
    "podman",
    options=("--no-hosts", "--image-volume=ignore"),
    # crun of Debian 12 refuses control groups of versions 1 and 2 at once, and runc does not
    variants=((), ("--runtime=runc",), ("--cgroups=disabled",)),
    maps_users=True,
)
DOCKER = Program("docker", "docker.io")


def environment() -> dict[str, str]:
    """Return the environment of the program."""
    return {name: value for name, value in os.environ.items() if name.startswith(KEPT_VARIABLES)}


def found(program: Program) -> str:
    """Return its path.

    Raises:
        SandboxError: it is not installed.
    """
    path = shutil.which(program.name)
    if path is None:
        raise SandboxError(f"{program.name} is not on PATH: install the package {program.package}")
    return path


def call(program: Program, *words: str, feed: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run one of its commands.

    Raises:
        SandboxError: it is not installed, or did not end in time.
    """
    try:
        return subprocess.run(
            [found(program), *words],
            input=feed,
            stdin=subprocess.DEVNULL if feed is None else None,
            capture_output=True,
            timeout=CLI_SECONDS,
            env=environment(),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxError(f"{program.name} {words[0]}: {error}") from error


def last_words(output: bytes) -> str:
    """Return the last line that says something; docker's last one names its own help."""
    lines = output.decode(errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip() and not line.startswith(("See '", "Run '"))]
    return said[-1][:300] if said else ""


@cache
def version(program: Program) -> str:
    return call(program, "--version").stdout.decode(errors="replace").split(",")[0].rpartition(" ")[2].strip()


def run_words(limits: SandboxLimits, *, network: bool, cgroups: bool) -> list[str]:
    """Return the options of `run` that both programs have, for everything that a sandbox enforces."""
    words = [
        "--interactive",
        "--pull=never",
        "--log-driver=none",
        "--no-healthcheck",
        "--user=0:0",
        "--workdir=/",
        "--stop-timeout=0",
        "--hostname=sandbox",
        f"--network={'host' if network else 'none'}",
        "--cap-drop=ALL",
        *(f"--cap-add={name.upper()}" for name in kernel.KEPT),
        "--security-opt=no-new-privileges",
        f"--shm-size={limits.shared_memory}",
        *_limit("nofile", resource.RLIMIT_NOFILE, OPEN_FILES),
        "--ulimit=core=0:0",
    ]
    if cgroups:
        words += [
            f"--memory={limits.memory}",
            f"--cpus={limits.cpus}",
            f"--pids-limit={limits.processes + 8}",
        ]
    return words


def own_processes() -> list[str]:
    """Return a limit that this user may set: podman's own default needs a right that not every root has."""
    return _limit("nproc", resource.RLIMIT_NPROC, 1 << 15)


def _limit(name: str, kind: int, wanted: int) -> list[str]:
    hard = resource.getrlimit(kind)[1]
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    return [f"--ulimit={name}={most}:{most}"]


def mount_words(mounts: Mapping[str, str]) -> list[str]:
    """Return options that mount things read-only, by place.

    Raises:
        SandboxError: a name cannot be written in such an option.
    """
    words = []
    for place, source in mounts.items():
        if any(mark in f"{place}{source}" for mark in ',"'):
            raise SandboxError(
                f"{source} cannot be mounted into a container: its name has a comma or a quote"
            )
        words += ["--mount", f"type=bind,src={source},dst={place},readonly"]
    return words
