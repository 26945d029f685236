"""The command of bubblewrap for one sandbox. Standard library only."""

from glob import glob
from typing import Any

from mcp_bench.bridge.sandbox import skeleton

GPUS = ("/dev/nvidia*", "/dev/kfd", "/dev/dri")
"""Devices of NVIDIA's and AMD's drivers."""


def command(
    spec: "dict[str, Any]", merged: str, image: str, system: "list[str]", mounts: "dict[str, str]"
) -> "list[str]":
    """Return the command of bubblewrap.

    Args:
        spec: see `keeper.Spec`.
        merged: the sandbox's root.
        image: where the base alone is mounted; `system` are its folders to mount over the root.
        mounts: folders in `trees` to mount read-only, by place.
    """
    argv = [
        spec["bwrap"],
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--hostname",
        "sandbox",
        "--die-with-parent",
        "--new-session",
        "--clearenv",
        "--cap-drop",
        "ALL",
        "--bind",
        merged,
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
    ]
    if not spec["network"]:
        argv += ["--unshare-net"]
    size = ("--size", str(spec["limits"]["shared_memory"])) if spec["sized"] else ()
    if spec["gpus"]:
        devices = sorted(path for pattern in GPUS for path in glob(pattern))
        argv += [word for device in devices for word in ("--dev-bind", device, device)]
    argv += [*size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    for name in system:
        argv += ["--ro-bind", f"{image}/{name}", f"/{name}"]
    if spec["host"]:
        argv += ["--ro-bind", "/usr", "/usr"]
        argv += [word for folder in spec["masked"] for word in ("--tmpfs", folder, "--remount-ro", folder)]
        for name in skeleton.FROM_MACHINE:
            argv += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for target, tree in sorted(mounts.items()):
        argv += ["--ro-bind", f"trees/{tree}", target]
    return [*argv, "--remount-ro", "/proc"]
