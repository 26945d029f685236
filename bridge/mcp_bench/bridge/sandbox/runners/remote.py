"""A sandbox on another machine: `bwrap` at the end of a connection with standard streams.

What connects is a command, such as `ssh HOST` or `docker exec -i BOX`. It starts the other machine's Python,
which gets the part of this project that keeps a sandbox (standard library only) and runs it. From there on,
the messages are those of a sandbox here.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path

import anyio

from mcp_bench.bridge.isolation.support import Support
from mcp_bench.bridge.process.agent import LaunchError, piped_process
from mcp_bench.bridge.sandbox.bwrap import BwrapSandbox, description, layers_of
from mcp_bench.bridge.sandbox.channel import Message, packed
from mcp_bench.bridge.sandbox.runners import elsewhere
from mcp_bench.servers import errors
from mcp_bench.servers.errors import SandboxError, SandboxLostError
from mcp_bench.servers.left_folders import temporary_folder
from mcp_bench.servers.sandbox import HOST_BASE, SandboxSpec

SENT = (
    ("servers", ("errors.py", "home.py", "left_folders.py")),
    ("bridge/isolation", ("alone.py", "checkouts.py", "confine.py", "hidden.py", "landlock.py")),
    ("bridge/isolation", ("level.py", "probe.py", "support.py", "uid.py")),
    ("bridge/process", ("descendants.py", "limits.py")),
    ("bridge/sandbox", ("bubblewrap.py", "cgroups.py", "changes.py", "channel.py", "inside.py")),
    ("bridge/sandbox", ("keeper.py", "kernel.py", "leftovers.py", "machine.py", "probe.py", "process.py")),
    ("bridge/sandbox", ("program.py", "skeleton.py")),
    ("bridge/sandbox/runners", ("elsewhere.py",)),
    ("bridge/wire", ("remove_folder.py",)),
)
"""The files that keep a sandbox. A test imports them without anything else."""
BOOT = """import io,os,shutil,sys,tarfile,tempfile
f=open(0,"rb",0,closefd=False)
n,key=f.readline().decode().split()
n=int(n);s=b""
while len(s)<n:
 c=f.read(n-len(s))
 if not c:sys.exit("the connection ended before the code had come")
 s+=c
p=os.path.expanduser("{cache}/code")
os.makedirs(p,mode=0o700,exist_ok=True)
d=p+"/"+key
if not os.path.isdir(d):
 t=tempfile.mkdtemp(dir=p)
 a=tarfile.open(fileobj=io.BytesIO(s))
 a.extraction_filter=getattr(tarfile,"data_filter",None)
 a.extractall(t)
 os.chmod(t,0o755)
 try:os.rename(t,d)
 except OSError:shutil.rmtree(t)
os.execv(sys.executable,[sys.executable,"-I","-S",d+"/mcp_bench/bridge/sandbox/runners/elsewhere.py"])
""".replace("{cache}", elsewhere.CACHE)
"""Stays in a command line, so it has no single quote. Python 3.11 or later."""
CONNECT_SECONDS = 120.0
"""From the start of a connection to the place of a sandbox, packages included."""
ENVIRONMENT = ("HOME", "PATH", "SSH_AUTH_SOCK", "USER", "DOCKER_HOST", "KUBECONFIG")
"""What the programs that connect may read."""


class RunnerLostError(SandboxLostError):
    """Another machine could not be reached, or has gone: the fault of no candidate."""

    def __init__(self, machine: str, why: str) -> None:
        super().__init__(f"the runner {machine}: {why}")
        self.machine, self.why = machine, why


class Remote:
    """An engine whose sandboxes are on another machine."""

    name = "remote"
    runs_images = False

    def __init__(self, machine: str, argv: Sequence[str], on_lost: Callable[[str], None]) -> None:
        """Set up without a connection.

        Args:
            machine: what the operator calls it.
            argv: starts `BOOT` there, with our standard streams.
            on_lost: called with the reason when the machine is gone.
        """
        self._machine, self._argv, self._on_lost = machine, tuple(argv), on_lost

    def support(self) -> Support:
        return Support(True, f"on {self._machine}")

    @asynccontextmanager
    async def sandbox(self, spec: SandboxSpec) -> AsyncIterator[RemoteSandbox]:
        """Start a sandbox; on exit, all of its processes and files are gone, unless the machine is.

        Raises:
            RunnerLostError: there is no way to the machine, or it cannot have sandboxes.
            SandboxError: the sandbox cannot be on another machine.
        """
        if spec.base != HOST_BASE:
            raise SandboxError(f"the base {spec.base} is a folder of this machine: a runner cannot have it")
        environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        with temporary_folder("mcp-bench-connection-") as folder:
            log = folder / "connection.log"
            try:
                async with piped_process(log) as (process, requests, replies):
                    await process.launch(self._argv, environment, folder)
                    sandbox = RemoteSandbox(spec, requests, replies, log)
                    sandbox.machine, sandbox.on_lost = self._machine, self._on_lost
                    try:
                        await sandbox.settle(spec)
                        yield sandbox
                    finally:
                        with anyio.CancelScope(shield=True):
                            await sandbox.discard()
                        await requests.aclose()  # the other side ends by itself, and removes what it made
                        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                            await process.wait()
            except LaunchError as error:
                self._on_lost(str(error))
                raise RunnerLostError(self._machine, str(error)) from error


CLOSE_SECONDS = 10.0


class RemoteSandbox(BwrapSandbox):
    """The referee's side of a keeper on another machine."""

    machine: str
    on_lost: Callable[[str], None]

    async def settle(self, spec: SandboxSpec) -> None:
        """Send the code and the layers that the machine lacks, and start the keeper."""
        layers = {layer_name(Path(layer)): Path(layer) for layer in layers_of(spec)}
        limits = spec.limits
        try:
            with anyio.fail_after(CONNECT_SECONDS):
                await self._write(f"{len(code())} {sha256(code()).hexdigest()[:16]}\n".encode() + code())
                await self._write(
                    packed(
                        {
                            "layers": list(layers),
                            "network": spec.network == "machine",
                            "cpus": limits.cpus,
                            "memory": limits.memory,
                            "storage": limits.storage,
                        }
                    )
                )
                for name in (await self._said("missing"))[0]["missing"]:
                    await self._write(packed({}, await anyio.to_thread.run_sync(archive, {"": layers[name]})))
                place, _ = await self._said("place")
                try:
                    await self.begin(description(spec, place["place"], place["layers"]), self.machine)
                except RunnerLostError:
                    raise
                except SandboxError as error:  # nothing of a candidate has run yet
                    raise self._gone(str(error)) from error
        except TimeoutError:
            raise self._gone(f"no sandbox within {CONNECT_SECONDS:.0f} s") from None

    async def _said(self, key: str) -> Message:
        try:
            head, body = await self._message()
        except (ValueError, KeyError, TypeError) as error:  # no message of ours
            said = getattr(error, "doc", "").strip()[:80]  # the line that is no JSON
            raise self._gone(
                f"its shell prints something before the keeper answers: {said!r}. Let its start-up files "
                "print only for a terminal"
            ) from error
        if key not in head:
            raise self._gone(str(head.get("refused", f"an answer without {key}")))
        return head, body

    def _lost(self) -> SandboxError:
        return self._gone(last_line(self._log) or "the connection ended")

    def _gone(self, why: str) -> RunnerLostError:
        self.on_lost(why)
        return RunnerLostError(self.machine, why)


def last_line(log: Path) -> str:
    return log.read_text(errors="replace").strip().rpartition("\n")[2]


@cache
def code() -> bytes:
    """Return an archive of `SENT`."""
    roots = {"bridge": Path(elsewhere.__file__).parents[2], "servers": Path(errors.__file__).parent}
    files = dict[str, Path]()
    for folder, names in SENT:
        top, _, rest = folder.partition("/")
        files |= {f"mcp_bench/{folder}/{name}": roots[top] / rest / name for name in names}
    return archive(files)


def archive(files: dict[str, Path]) -> bytes:
    """Return files and folders as a tar archive. The same files are the same bytes."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, path in files.items():
            tar.add(path, name or ".", filter=_plain)
    return made.getvalue()


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = int(entry.mtime)
    return entry


def layer_name(folder: Path) -> str:
    """Return a name that follows from what is in a folder: paths, modes, sizes and times."""
    listed = sorted(
        (str(path.relative_to(folder)), found.st_mode, found.st_size, found.st_mtime_ns)
        for path in folder.rglob("*")
        if (found := path.lstat())
    )
    return sha256(json.dumps(listed).encode()).hexdigest()[:16]
