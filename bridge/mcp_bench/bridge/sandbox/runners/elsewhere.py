"""Runs on another machine: prepare the place of one sandbox there, and start its keeper.

The referee starts it over a connection with standard streams (`remote.py`), which sends this code first. It
answers over stdout in the keeper's form (channel.py): which layers are `missing`, then the `place`. What
follows on stdin is the keeper's. When the connection ends, so does the keeper, and everything is removed.
Standard library only.
"""

import io
import os
import resource
import sys
import tarfile
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = __file__.rsplit("/", 5)[0]
CACHE = "~/.cache/mcp-bench"
"""Of this machine: packages that candidates import, and this code."""


def main() -> None:
    os.environ["MCP_BENCH_HOME"] = str(Path(CACHE).expanduser())
    sys.path.append(ROOT)
    from mcp_bench.bridge.process.descendants import become_subreaper, end_descendants
    from mcp_bench.bridge.sandbox.channel import packed, write_all
    from mcp_bench.bridge.sandbox.leftovers import remove_leftovers
    from mcp_bench.bridge.sandbox.machine import keepers_place
    from mcp_bench.servers.errors import BenchError

    become_subreaper()
    wanted, _ = message()
    missing = [name for name in wanted["layers"] if not layer(name).is_dir()]
    write_all(1, packed({"missing": missing}))
    for name in missing:
        unpack(layer(name), message()[1])
    remove_leftovers()
    limits = SimpleNamespace(cpus=wanted["cpus"], memory=wanted["memory"])
    try:
        with keepers_place(limits, host=True, network=wanted["network"]) as place:
            layers = [str(layer(name)) for name in wanted["layers"]]
            write_all(1, packed({"place": place, "layers": layers}))
            try:
                os.waitpid(keeper(place["folder"], wanted["storage"]), 0)
            finally:
                end_descendants()
    except BenchError as error:
        write_all(1, packed({"refused": str(error)}))


def message() -> "tuple[dict[str, Any], bytes]":
    """Return the next message. Nothing after it is read: the referee waits for the answer."""
    from mcp_bench.bridge.sandbox.channel import Incoming

    incoming = Incoming()
    while chunk := os.read(0, 1 << 20):
        for found in incoming.feed(chunk):
            return found
    sys.exit("the connection ended before the sandbox began")


def layer(name: str) -> Path:
    return Path(CACHE).expanduser() / "layers" / name


def unpack(place: Path, data: bytes) -> None:
    """Unpack a folder that many sandboxes can use."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as made:
        new = Path(made, "new")
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                if member.name.startswith("/") or ".." in member.name.split("/"):
                    raise OSError(0, f"a layer has a file outside of it: {member.name}")
            # links and modes stay as they are: a layer is the operator's own. From Python 3.11.4
            archive.extraction_filter = getattr(tarfile, "fully_trusted_filter", None)
            archive.extractall(new)  # noqa: S202 - checked
        try:
            new.rename(place)
        except OSError:
            if not place.is_dir():  # otherwise, another process was faster
                raise


def keeper(folder: str, storage: int) -> int:
    """Start the keeper with this process's standard streams; return its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            os.chdir(folder)
            most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            size = storage if most == resource.RLIM_INFINITY else min(storage, most)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            program = f"{ROOT}/mcp_bench/bridge/sandbox/keeper.py"
            os.execve(sys.executable, [sys.executable, "-I", "-S", program], {})
        except (OSError, ValueError) as error:
            print(f"the keeper cannot be started: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(127)
    return pid


if __name__ == "__main__":
    main()
