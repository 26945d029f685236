"""Which ways to isolate an agent this machine offers, found by trying each, harmlessly.

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
"""The same number on every architecture but Alpha."""
LANDLOCK_CREATE_RULESET_VERSION = 1
LANDLOCK_SIGNALS = 6
"""The version from which on it keeps signals in."""
PR_GET_CHILD_SUBREAPER = 37


@dataclass(frozen=True)
class Support:
    """Whether one way works here. `detail` says what was found, or why it does not."""

    works: bool
    detail: str
    advice: str = ""
    """What would make it work."""


def landlock_abi() -> int:
    """Return the version of Landlock that the kernel speaks, 0 where it has none or has it switched off."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(
        SYS_LANDLOCK_CREATE_RULESET,
        None,
        ctypes.c_size_t(0),
        ctypes.c_uint32(LANDLOCK_CREATE_RULESET_VERSION),
    )
    return max(int(version), 0)


def landlock() -> Support:
    """Rules of the kernel for what a process may do with files (and, from ABI 4 on, with TCP)."""
    version = landlock_abi()
    if version >= LANDLOCK_SIGNALS:
        return Support(True, f"Landlock, ABI {version}")
    if version:
        return Support(
            False,
            f"Landlock, ABI {version}, which lets an agent end the referee",
            f"use Linux 6.12 or newer (ABI {LANDLOCK_SIGNALS}), or another level",
        )
    return Support(
        False,
        f"the kernel ({os.uname().release}) has no Landlock, or has it switched off",
        "use Linux 5.13 or newer with landlock among its security modules (boot parameter lsm=)",
    )


def bwrap() -> Support:
    """Namespaces of its own for the agent, by bubblewrap."""
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
        f"{program} cannot make namespaces: {words or f'exit code {done.returncode}'}",
        "allow unprivileged user namespaces (sysctl user.max_user_namespaces, "
        "kernel.unprivileged_userns_clone, an AppArmor profile for bwrap); in a container its host decides",
    )


def uid() -> Support:
    """A user of its own for the agent, which only root can give it."""
    if os.geteuid() == 0 and landlock_abi():
        return Support(True, "other users, since this is root")
    if os.geteuid() == 0:
        return Support(False, "other users can read what anybody may, without Landlock", landlock().advice)
    return Support(False, "only root can start an agent as another user", "run as root, in a container")


def subreaper() -> Support:
    """Whether what an agent leaves behind comes to its supervisor (prctl(2)), which every episode needs."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(ctypes.c_int()), 0, 0, 0) == 0:
        return Support(True, "orphans come to their supervisor")
    error = os.strerror(ctypes.get_errno())
    return Support(
        False,
        f"the kernel knows no child subreaper ({error})",
        "use Linux 3.4 or newer, outside of an emulation",
    )
