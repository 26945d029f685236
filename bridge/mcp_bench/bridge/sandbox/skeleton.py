"""Make a sandbox's files: those around the machine's own /usr, if it has no base; what is mounted, and where.

Standard library only.
"""

import os
import re
from contextlib import suppress

from mcp_bench.bridge.sandbox.changes import FOLDER

LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
FOLDERS = {
    "etc": 0o755,
    "home": 0o755,
    "mnt": 0o755,
    "opt": 0o755,
    "root": 0o700,
    "run": 0o755,
    "srv": 0o755,
    "tmp": 0o1777,
    "usr": 0o755,
    "var": 0o755,
    "var/lib": 0o755,
    "var/log": 0o755,
    "var/tmp": 0o1777,
    "proc": 0o555,
    "dev": 0o755,
}
FILES = {
    "passwd": "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost\n",
    "hostname": "sandbox\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "shells": "/bin/sh\n/bin/bash\n",
}
FROM_MACHINE = (
    *("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "timezone", "os-release"),
    *("debian_version", "mime.types", "magic", "protocols", "services", "terminfo", "inputrc", "ssl", "perl"),
    *("ca-certificates", "pki", "java-17-openjdk", "java-21-openjdk", "python3", "fonts", "ocamlfind.conf"),
)
"""Parts of /etc that belong to the programs in /usr."""
SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc")
"""Folders of the programs that every command uses, with what they load. Over an agent's files, they are the
base's: nothing that it left there takes part in its grade (`/bin/sh`, `/etc/ld.so.preload`, Debian's
`/etc/python3.11/sitecustomize.py`)."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LOADED = ("BASH_ENV", "ENV", "GCONV_PATH", "LD_")
"""Variables, or how they begin, that name what the system's own programs load as they start."""


def in_system(path: str) -> bool:
    return os.path.isabs(path) and os.path.normpath(path).split("/")[1] in SYSTEM


def trusted_variables(env: "dict[str, str]") -> "dict[str, str]":
    """Return the variables for commands over files that an agent left, without those that lead to its files.

    A Dockerfile can set them. The system's programs come first, and load nothing from elsewhere.
    """
    kept = {
        name: value
        for name, value in env.items()
        if not name.startswith(LOADED) or all(map(in_system, re.split("[: ]", value)))
    }
    folders = [*PATH.split(":"), *filter(None, env.get("PATH", "").split(":"))]
    return {**kept, "PATH": ":".join(dict.fromkeys(folders))}


def make(place: str, *, network: bool) -> None:
    """Make the files in a new folder. With `network`, names are resolved as on this machine."""
    for name, mode in FOLDERS.items():
        os.makedirs(f"{place}/{name}", exist_ok=True)
        os.chmod(f"{place}/{name}", mode)
    for name in LINKS:
        if os.path.isdir(f"/usr/{name}"):
            os.symlink(f"usr/{name}", f"{place}/{name}")
    for name in FROM_MACHINE:  # where they are mounted
        if os.path.isdir(f"/etc/{name}"):
            os.makedirs(f"{place}/etc/{name}")
        elif os.path.exists(f"/etc/{name}"):
            os.close(os.open(f"{place}/etc/{name}", os.O_CREAT | os.O_WRONLY, 0o644))
    resolv = ""
    if network:
        try:
            with open("/etc/resolv.conf", encoding="utf-8", errors="replace") as file:
                resolv = file.read()
        except OSError:
            pass
    for name, text in {**FILES, "resolv.conf": resolv}.items():
        with open(f"{place}/etc/{name}", "w", encoding="utf-8") as file:
            file.write(text)


def make_tree(tree: str, files: "list[tuple[str, int, int]]", body: bytes) -> None:
    """Make a new folder with `files`: path, mode and size of each; `body` has their contents, in order."""
    start = 0
    os.makedirs(tree)
    for name, mode, size in files:
        path = f"{tree}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(body[start : start + size])
        os.chmod(path, mode)
        start += size


def restore_system(image: str, upper: str) -> "list[str]":
    """Prepare a new upper layer for the system's folders of `image`; return those to mount."""
    folders = []
    for name in SYSTEM:
        ours, left = f"{image}/{name}", f"{upper}/{name}"
        if os.path.islink(ours):
            os.symlink(os.readlink(ours), left)
        elif os.path.isdir(ours):
            os.makedirs(left, exist_ok=True)
            folders.append(name)
    return folders


def make_folders(top: str, path: str) -> None:
    """Make a folder and its parents below `top`. No link is followed.

    Raises:
        OSError: something else is at one of the places.
    """
    held = os.open(top, FOLDER)
    try:
        for name in path.split("/"):
            if name:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=held)
                below = os.open(name, FOLDER, dir_fd=held)
                os.close(held)
                held = below
    finally:
        os.close(held)
