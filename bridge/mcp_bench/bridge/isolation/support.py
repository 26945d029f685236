"""Detect what this machine supports for isolation, by harmless tests.

Landlock: https://docs.kernel.org/userspace-api/landlock.html. bubblewrap: https://github.com/containers/bubblewrap
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from dataclasses import dataclass

PROBE_SECONDS = 5.0

SYS_LANDLOCK_CREATE_RULESET = 444
"""The same number on every architecture except Alpha."""
LANDLOCK_CREATE_RULESET_VERSION = 1
LANDLOCK_SIGNALS = 6
"""First version that blocks signals to processes outside the sandbox."""
PR_GET_CHILD_SUBREAPER = 37


@dataclass(frozen=True)
class Support:
    """Whether something works here. `detail` says what was found, or why it does not work."""

    works: bool
    detail: str
    advice: str = ""
    """What would make it work."""


def landlock_abi() -> int:
    """Return the Landlock version of the kernel, or 0 if it has none or it is disabled."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(
        SYS_LANDLOCK_CREATE_RULESET,
        None,
        ctypes.c_size_t(0),
        ctypes.c_uint32(LANDLOCK_CREATE_RULESET_VERSION),
    )
    return max(int(version), 0)


def landlock() -> Support:
    """Check for Landlock: kernel rules for a process's access to files (and TCP, since ABI 4)."""
    version = landlock_abi()
    if version >= LANDLOCK_SIGNALS:
        return Support(True, f"Landlock, ABI {version}")
    if version:
        return Support(
            False,
            f"Landlock, ABI {version}, which does not stop an agent from killing the referee",
            f"use Linux 6.12 or newer (ABI {LANDLOCK_SIGNALS}), or another level",
        )
    return Support(
        False,
        f"the kernel ({os.uname().release}) does not support Landlock, or it is disabled",
        "use Linux 5.13 or newer with landlock among its security modules (boot parameter lsm=)",
    )


def bwrap() -> Support:
    """Check for bubblewrap, which gives the agent private namespaces."""
    path = os.environ.get("PATH", "")
    program = shutil.which("bwrap", path=path)
    if program is None:
        return Support(False, "bwrap is not on PATH", "install the package bubblewrap")
    try:
        done = subprocess.run(
            [program, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "true"],
            env={"PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Support(False, f"{program} does not run: {error}", "install the package bubblewrap again")
    if done.returncode == 0:
        return Support(True, f"bubblewrap, {program}")
    words = done.stderr.decode(errors="replace").strip().rpartition("\n")[2][:200]
    return Support(
        False,
        f"{program} cannot create namespaces: {words or f'exit code {done.returncode}'}",
        "allow unprivileged user namespaces (sysctl user.max_user_namespaces, "
        "kernel.unprivileged_userns_clone, an AppArmor profile for bwrap); "
        "in a container, the host must allow it",
    )


def uid() -> Support:
    """Check for root, which can run the agent as a separate user."""
    if os.geteuid() == 0 and landlock_abi():
        return Support(True, "separate users, since this is root")
    if os.geteuid() == 0:
        return Support(
            False, "without Landlock, other users can read all world-readable files", landlock().advice
        )
    return Support(False, "only root can start an agent as another user", "run as root in a container")


def subreaper() -> Support:
    """Check that orphans are reparented to their supervisor (prctl(2)). Every episode needs it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(ctypes.c_int()), 0, 0, 0) == 0:
        return Support(True, "orphans are reparented to their supervisor")
    error = os.strerror(ctypes.get_errno())
    return Support(
        False,
        f"the kernel does not support child subreapers ({error})",
        "use Linux 3.4 or newer, without emulation",
    )
