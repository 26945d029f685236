"""The first process of a container, which acts in it for the referee.

`podman run --interactive` starts it, and its standard streams are the channel (channel.py). It does what
`inside.py` does for other sandboxes, and the work of `keeper.py` that is left. As process 1 it gets no signal
from the container's other processes, and they cannot trace it: they have no capability for that, and it is
not dumpable (prctl(2)). It ends when its stdin does, and then the kernel ends all others. Standard library
only.

The first message describes the sandbox: `limits`, `env`, `workdir`, `network`, `probes`, see `keeper.Spec`;
and `parts`, for each archive of files to begin with: whether it belongs to the base. What an agent left does
not, and its system folders do not count. Each archive follows as messages with `more`.

Further messages, besides those of `inside.py`: `changes`; `halt`; `pack`, whose answer comes in messages with
`piece`; `commit`: the same, and if it is `trusted`, with the system folders, and changes are counted from now
on. The last three end every other process; new ones can start only after a trusted `commit`.
"""

import errno
import json
import os
import resource
import signal
import sys
import time
from typing import Any

ROOT = __file__.rsplit("/", 5)[0]
sys.path.append(ROOT)
from mcp_bench.bridge.process.descendants import children  # noqa: E402
from mcp_bench.bridge.process.limits import (  # noqa: E402
    FILES_MOVED,
    MEASURE_SECONDS,
    SHARE,
    SPACE_MOVED,
    TICK_SECONDS,
    WALK_SECONDS,
    free,
    over_by_processes,
)
from mcp_bench.bridge.sandbox import kernel, probe  # noqa: E402
from mcp_bench.bridge.sandbox.changes import Reading, TooLongError  # noqa: E402
from mcp_bench.bridge.sandbox.channel import Control, Incoming, Message, packed, write_all  # noqa: E402
from mcp_bench.bridge.sandbox.containers.files import Files, unpack  # noqa: E402
from mcp_bench.bridge.sandbox.inside import Inside  # noqa: E402
from mcp_bench.bridge.sandbox.process import become_command  # noqa: E402
from mcp_bench.bridge.sandbox.skeleton import SYSTEM  # noqa: E402

sys.path.remove(ROOT)

PIECE = 1 << 20
ENDED = "the sandbox has ended"


class Streams:
    """The standard streams, with the names of a socket."""

    def __init__(self) -> None:
        self._incoming, self._waiting = Incoming(), list[Message]()

    def fileno(self) -> int:
        return 0

    def recv(self, size: int) -> bytes:
        return os.read(0, size)

    def sendall(self, data: bytes) -> None:
        write_all(1, data)

    def message(self) -> Message:
        """Return the next message; for those that come before `Inside` serves.

        Raises:
            EOFError: the referee has gone.
        """
        while not self._waiting:
            chunk = os.read(0, PIECE)
            if not chunk:
                raise EOFError
            self._waiting += self._incoming.feed(chunk)
        return self._waiting.pop(0)


class Archive:
    """An archive that arrives in messages."""

    def __init__(self, streams: Streams) -> None:
        self._streams, self._rest, self._more = streams, b"", True

    def read(self, size: int) -> bytes:
        while len(self._rest) < size and self._more:
            head, body = self._streams.message()
            self._rest += body
            self._more = head["more"]
        found, self._rest = self._rest[:size], self._rest[size:]
        return found

    def finish(self) -> None:
        """Take what the archive's end has left unread."""
        while self.read(PIECE):
            pass


class Pieces:
    """Sends an archive in messages."""

    def __init__(self, streams: Control, number: int) -> None:
        self._streams, self._number = streams, number

    def write(self, data: bytes) -> int:
        self._streams.sendall(packed({"id": self._number, "piece": True}, data))
        return len(data)


class FirstProcess(Inside):
    def __init__(self, streams: Streams, spec: "dict[str, Any]", files: Files, *, memory: bool) -> None:
        # a pipe that never ends before this process does
        super().__init__(streams, os.pipe(), spec)
        self.files, self.halted, self.handled = files, "", 0
        self.measured = {**spec["limits"], "processes": 2 * spec["limits"]["processes"] + 64}
        if memory:  # the kernel's own limit
            self.measured["memory"] = sys.maxsize
        self.space = free("/")
        self.measure_at = self.walk_at = 0.0
        self.look_at = time.monotonic()

    def handle(self, head: "dict[str, Any]", body: bytes) -> None:
        self.handled = head["id"]
        try:
            match head["op"]:
                case "changes":
                    listed = self.files.listed(Reading(self.spec["limits"], head["seconds"]))
                    self.send({"id": head["id"]}, json.dumps(listed).encode())
                case "halt":
                    self.halt(ENDED)
                    self.send({"id": head["id"]})
                case "pack" | "commit":
                    self.halt(ENDED)
                    trusted = head["op"] == "commit" and head["trusted"]
                    self.files.pack(
                        Pieces(self.control, head["id"]),
                        2 * self.spec["limits"]["storage"],
                        anything if trusted else outside_system,
                    )
                    if trusted:
                        self.files.begin()
                        self.halted = ""
                    self.send({"id": head["id"]})
                case _ if self.halted:
                    self.send({"id": head["id"], "error": self.halted})
                case _:
                    super().handle(head, body)
        except TooLongError as error:
            self.exceeded(str(error))
        except OSError as error:
            if error.errno == errno.EFBIG:
                self.exceeded(str(error.strerror))
            else:
                self.send({"id": head["id"], "error": error.strerror or str(error)})

    def halt(self, words: str) -> None:
        """End every other process. `words` is the answer to commands from now on."""
        self.halted = self.halted or words
        self.running = None
        if self.shell is not None:
            self.shell.end()
            self.shell = None
        if self.program is not None:
            self.program.end(words)
            self.program = None
        try:
            while True:
                os.kill(-1, signal.SIGKILL)
                os.waitpid(-1, 0)
        except (ProcessLookupError, ChildProcessError):
            pass

    def exceeded(self, text: str) -> None:
        self.halted = ""
        self.halt(text)
        self.send({"over": text, "id": self.handled})

    def look_at_time(self) -> None:
        super().look_at_time()
        if time.monotonic() >= self.look_at:
            self.look_at = time.monotonic() + TICK_SECONDS
            self.reap()
            if not self.halted and (text := self.look()):
                self.exceeded(text)

    def reap(self) -> None:
        """Bury the orphans that ended here."""
        own = {one.pid for one in (self.shell, self.program) if one is not None}
        try:
            for pid in children("self"):
                if pid not in own:
                    os.waitpid(pid, os.WNOHANG)
        except OSError:
            pass

    def look(self) -> str:
        now = time.monotonic()
        if now < self.measure_at:
            return ""
        self.measure_at = now + MEASURE_SECONDS
        if found := over_by_processes(self.measured):
            return found
        space, limits = free("/"), self.spec["limits"]
        moved = self.space[0] - space[0] > SPACE_MOVED or self.space[1] - space[1] > FILES_MOVED
        self.space = (max(space[0], self.space[0]), max(space[1], self.space[1]))
        if now < self.walk_at or not (moved or now > self.walk_at + WALK_SECONDS):
            return ""
        self.space = space
        size, count = self.files.used()
        self.walk_at = time.monotonic() + (time.monotonic() - now) / SHARE
        if size > limits["storage"]:
            return f"storage: {size >> 20} MiB of at most {limits['storage'] >> 20} MiB"
        if count > limits["files"]:
            return f"storage: {count} files of at most {limits['files']}"
        return ""


def facts(limits: "dict[str, Any]") -> "dict[str, Any]":
    """Return which limits the kernel holds, and whose rights the container's root has on the machine."""
    with open("/proc/self/uid_map", encoding="ascii") as file:
        outside = int(file.readline().split()[1])
    memory = _lowest("memory.max", "memory/memory.limit_in_bytes") <= limits["memory"]
    cpus = _lowest("cpu.max", "cpu/cpu.cfs_quota_us") < sys.maxsize
    return {"user": outside, "memory": memory, "cpus": cpus}


def _lowest(unified: str, older: str) -> int:
    for name in (unified, older):
        try:
            with open(f"/sys/fs/cgroup/{name}", encoding="ascii") as file:
                word = file.read().split()[0]
        except (OSError, IndexError):
            continue
        return int(word) if word.isdigit() else sys.maxsize
    return sys.maxsize


def anything(_: str) -> bool:
    return True


def outside_system(path: str) -> bool:
    return path.split("/", 2)[1] not in SYSTEM


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)  # a first process gets no signal that it does not handle
    kernel.hide_memory()
    os.umask(0o022)
    os.chdir("/")
    streams = Streams()
    try:
        spec, _ = streams.message()
        files = None
        for base in spec["parts"]:
            if not base:
                files = files or Files()
            archive = Archive(streams)
            unpack(archive, anything if base else outside_system)
            archive.finish()
        files = files or Files()
        longest = spec["limits"]["storage"]
        resource.setrlimit(resource.RLIMIT_FSIZE, (longest, longest))  # of what comes from now on
        known = facts(spec["limits"])
        spec |= {"limit_cpus": not known["cpus"], "namespaces": False}
        probes = probe.outcomes(spec["probes"], lambda: become_command("/", spec))
        first = FirstProcess(streams, spec, files, memory=known["memory"])
    except EOFError:
        return
    except OSError as error:
        streams.sendall(packed({"failed": error.strerror or str(error)}))
        return
    streams.sendall(packed({"started": True, "probes": probes, "facts": known}))
    first.serve()


if __name__ == "__main__":
    main()
