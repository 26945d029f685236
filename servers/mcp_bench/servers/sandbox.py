"""What a world may do in a sandbox: a machine of its own that has no right over the referee's.

A world never runs a command itself: a command that an agent wrote would have the referee's rights. It asks
the trusted side for a sandbox (`Host.sandbox`) and gets a `Sandbox`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, Protocol

from pydantic import Field, PositiveFloat, PositiveInt

from mcp_bench.servers.base_model import Model
from mcp_bench.servers.errors import SandboxError

__all__ = [
    "HOST_BASE",
    "IMAGE_BASE",
    "READ_BYTES",
    "Answers",
    "CommandResult",
    "Enforced",
    "FileChange",
    "Sandbox",
    "SandboxError",
    "SandboxLimits",
    "SandboxSpec",
]

MIB = 1 << 20
HOST_BASE = "host"
"""The base that needs no download: the programs of this machine's /usr, read-only."""
IMAGE_BASE = "image:"
"""What a base begins with that is the name of an image, for the engines `podman` and `docker`."""
READ_BYTES = 10 * MIB
OUTPUT_BYTES = 100_000
KEY = r"^([A-Za-z0-9][A-Za-z0-9._-]{0,199})?$"
Path = str
"""A path in the sandbox. A relative one begins at the sandbox's `workdir`."""


class SandboxLimits(Model):
    """What a sandbox may use of the machine. Who exceeds one of the last four is ended; its files stay."""

    cpus: PositiveFloat = 1.0
    seconds: PositiveFloat = 60.0
    """For one command, unless the call says otherwise."""
    memory: PositiveInt = 2048 * MIB
    """Bytes, all processes together."""
    processes: PositiveInt = 256
    """Threads included. A process that would be one too many cannot be started."""
    storage: PositiveInt = 2048 * MIB
    """Bytes of files; also the longest file."""
    files: PositiveInt = 200_000
    shared_memory: PositiveInt = 64 * MIB
    """Bytes in /dev/shm."""

    @property
    def changes_seconds(self) -> float:
        """How long `Sandbox.changes` may read files, by how many they can be."""
        return 60 + self.storage / (32 * MIB)


class SandboxSpec(Model):
    """The sandbox that a world asks for."""

    base: str = HOST_BASE
    """`host`, or the path of a folder with a whole system: made by debootstrap, or exported from an image.
    With the engines `podman` and `docker` also `image:NAME`, an image that is on this machine, or the path of
    an archive of such a folder."""
    layers: tuple[str, ...] = ()
    """Folders above the base, the topmost last. Nothing in them is changed."""
    kept: str = Field(default="", pattern=KEY)
    """Key of files that `Sandbox.commit` kept. If they are there, `Enforced.kept` says so, and they belong to
    the base."""
    workdir: str = Field(default="/work", pattern="^/")
    env: dict[str, str] = Field(default_factory=dict)
    network: Literal["none", "machine"] = "none"
    """`machine`: the machine's own network, its loopback included. Such an episode is never verified."""
    gpus: bool = False
    """Whether it has the machine's GPUs. Only the engine `bwrap` gives any."""
    limits: SandboxLimits = SandboxLimits()


class Enforced(Model):
    """What a started sandbox really enforces. It is stored with the episode."""

    engine: str
    version: str
    user: str
    """Whose rights the processes have on the machine: `uid:60578` for a user that nothing else has,
    `own-namespace` for the referee's user without any of its rights, `machine-root` for root of the machine
    with the capabilities over its own files only (docker, as a rule): it is not sound."""
    network: Literal["none", "machine"]
    memory: Literal["cgroup", "measured"]
    """`measured`: once a second, so that it can be exceeded for that long."""
    cpus: Literal["cgroup", "affinity"]
    base: str
    kept: bool = False
    """It began with the files that the key of its spec names."""
    machine: str = ""
    """The runner that lent another machine. Empty: it is this machine."""
    probes: dict[str, bool] = Field(default_factory=dict)
    """By attempt from inside: whether it was refused, as it must be."""

    @property
    def sound(self) -> bool:
        """Whether an episode in this sandbox can be verified: no network, and every probe was refused."""
        return self.network == "none" and bool(self.probes) and all(self.probes.values())


class CommandResult(Model):
    """The outcome of a command."""

    output: str
    """What it printed on both streams. The middle of a long one is left out."""
    code: int
    """Exit code; negative for a signal."""
    timed_out: bool = False
    left_out: int = 0
    """Bytes of the output that are missing in it."""
    shell_ended: bool = False
    """The command ended its shell. The next one gets a new shell in the same folder."""


class Answers(Model):
    """What a program answered to questions. There are fewer answers than questions if it ended before."""

    bodies: tuple[bytes, ...]
    cpu_seconds: tuple[float, ...]
    """For each answer: what the program used of processors since the answer before."""
    clock: Literal["process", "processes", "ticks"]
    """What counted them: the clock of the process, perf_event_open(2) for all processes, or /proc for all of
    them in steps of 10 ms."""
    seconds: float
    """Wall-clock time of all of them."""
    waited: float = 0.0
    """Of it: while the program waited for a processor, as far as the kernel counts that."""
    ended: str = ""
    """Why the program ended, such as `exit code 1`. Empty while it runs."""
    log: str = ""
    """The end of what it wrote to stderr."""


class FileChange(Model):
    """A path that differs from the sandbox's base."""

    path: str
    kind: Literal["file", "folder", "link", "deleted", "other"]
    mode: int = 0
    size: int = 0
    sha256: str = ""
    target: str = ""
    """Of a link."""
    replaced: bool = False
    """A folder that hides everything that the base has in it."""


class Sandbox(Protocol):
    """A running sandbox. Calls on one sandbox never overlap."""

    @property
    def enforced(self) -> Enforced: ...

    @property
    def over(self) -> str:
        """Which limit was exceeded, in words; its processes are gone. Empty while it runs."""
        ...

    async def run(
        self,
        command: str,
        *,
        seconds: float | None = None,
        output_bytes: int = OUTPUT_BYTES,
        progress: Callable[[str], Awaitable[None]] | None = None,
    ) -> CommandResult:
        """Run a command in the sandbox's shell, which keeps its folder and variables between calls.

        Processes that it starts in the background live on until the sandbox ends.

        Args:
            progress: gets each piece of output while the command runs.

        Raises:
            SandboxError: the sandbox has ended, or every process in it was killed.
        """
        ...

    async def read(self, path: Path, *, most: int = READ_BYTES) -> bytes:
        """Return a file. Links are followed inside the sandbox, and never lead out of it.

        Raises:
            SandboxError: there is no such file, or it has more than `most` bytes.
        """
        ...

    async def write(self, path: Path, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file and its parent folders.

        Raises:
            SandboxError: it cannot be written.
        """
        ...

    async def changes(self) -> Sequence[FileChange]:
        """Return what differs from the base, by path.

        Raises:
            SandboxError: it cannot be listed.
        """
        ...

    async def start(self, argv: Sequence[str], *, seconds: float, alone: bool = True) -> Answers:
        """Start a program that answers questions, and wait until it is ready. It replaces the one before.

        It reads questions from stdin and writes answers to stdout, each as 8 bytes with the length
        (little-endian) and then the bytes. Its first answer is for no question: it is ready.

        Args:
            seconds: limit of processor time for getting ready. A program that sleeps is ended after ten times
                as much of wall-clock time.
            alone: it can start no other process and no thread. Otherwise the clock counts all processes.
                Where the kernel refuses perf_event_open(2), it does so in steps of 10 ms, and without
                children for which nobody waited.

        Raises:
            SandboxError: the sandbox has ended.
        """
        ...

    async def ask(self, questions: Sequence[bytes], *, seconds: float, most: int = READ_BYTES) -> Answers:
        """Ask the program, each question after the answer to the one before.

        Args:
            seconds: limit of processor time for all of them together. A program that exceeds it, or ten times
                as much of wall-clock time, is ended.
            most: limit for the length of an answer.

        Raises:
            SandboxError: the sandbox has ended, or no program was started.
        """
        ...

    async def renew(
        self, mounts: Mapping[Path, Mapping[str, bytes]] | None = None, *, fresh: bool = False
    ) -> None:
        """End every process, and start a new sandbox over the files that they left. Grading happens there.

        The folders of the system (/usr, /bin, /lib, /etc and so on) are those of the base, read-only: no
        program, library or setting that was left there takes part.

        Args:
            fresh: forget these files: only those before the last `commit` are there.
            mounts: files to mount read-only: by folder in the sandbox, content by relative path. Those that
                begin with `#!` or end in `.sh` can be executed.

        Raises:
            SandboxError: it could not be started.
        """
        ...

    async def commit(self, *, keep: str = "", trusted: bool = True) -> None:
        """End every process, and let the files belong to the base: `changes` and `renew` begin here.

        Args:
            keep: key by which a later sandbox can begin with these files (`SandboxSpec.kept`), where the
                engine can keep any; at the first `commit`, before any `renew`. The key must follow from all
                that the files follow from.
            trusted: whether no agent has worked on them. Otherwise nothing is kept, and the folders of the
                system stay those of the base before, as with `renew`.

        Raises:
            SandboxError: it could not be started again.
        """
        ...

    async def halt(self) -> None:
        """End every process. The files stay for `changes` and `renew`."""
        ...
