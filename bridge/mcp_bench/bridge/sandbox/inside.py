"""The process that acts inside a sandbox for the referee: a shell, reading and writing files.

It is forked from the keeper, starts bubblewrap, and joins the namespaces that this made, except that the
sandbox's processes cannot see it: only its children are in their process namespace. A path is resolved inside
the sandbox, so no link leads out. Standard library only.

Messages from the referee:
- `run`: run the body in the shell, for `seconds`; `most` bytes of its output are returned,
- `interrupt`: end the running command,
- `start`: start a program that answers questions (program.py), and wait until it is ready; `ask`: questions,
- `read`: return a file of at most `most` bytes; `write`: write the body to a file with a `mode`,
- `lives`, from the keeper: answer if the sandbox's first process does.
The answers have the message's `id`: `output` while a command runs, then `code`. `error` says what failed.
"""

import json
import os
import select
import signal
import socket
import stat
import time
from typing import Any

from mcp_bench.bridge.isolation import confine
from mcp_bench.bridge.sandbox import kernel, probe
from mcp_bench.bridge.sandbox.channel import Control, Incoming, packed
from mcp_bench.bridge.sandbox.process import arrange, become_command, filter_file, readable
from mcp_bench.bridge.sandbox.program import Program

WAIT = "echo ready >&3; exec <&4; while read -r nothing; do echo ready >&3; done"
"""What the first program of a sandbox does: it answers lines, until the keeper ends."""
START_SECONDS = 30.0
STATUS = 8
"""Descriptor to which the shell reports the end of a command. Commands do not get it."""
GRACE_SECONDS = 1.0
"""From SIGINT to SIGKILL for a command whose time is over."""
PIECE = 1 << 16
LATE_BYTES = 10_000
"""Kept of what background processes print between two commands."""
NAMESPACES = ("pid", "net", "ipc", "uts", "cgroup", "mnt")
OPEN = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def run(
    control: socket.socket, groups: "list[int]", argv: "list[str]", spec: "dict[str, Any]", parent: int
) -> int:
    """Start the sandbox and serve it until one of the two ends. Returns an exit code."""
    confine.libc.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return 1
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a shell or program can end while it is written to
    for group in groups:
        os.write(group, b"0")
    try:
        first = enter_new(argv, filter_file(spec), network=spec["network"])
        probes = probe.outcomes(spec["probes"], lambda: become_command("/", spec))
        inside = Inside(control, first, spec)
    except OSError as error:
        control.sendall(packed({"failed": error.strerror or str(error)}))
        return 1
    control.sendall(packed({"started": True, "probes": probes}))
    inside.serve()
    return 0


def enter_new(argv: "list[str]", calls: int, *, network: bool) -> "tuple[int, int]":
    """Start bubblewrap and join its namespaces; return two pipes of the sandbox's first program (`WAIT`).

    The first has what it answers, and ends when the sandbox does. The second takes the lines that it reads.

    Args:
        calls: a file with the filter of their system calls.

    Raises:
        OSError: it could not be started; the text is bubblewrap's.
    """
    info, ready, hold, words = os.pipe(), os.pipe(), os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            arrange({2: words[1], 3: ready[1], 4: hold[0], 5: info[1], 6: calls})
            os.execv(argv[0], [*argv, "--info-fd", "5", "--seccomp", "6", "--", "/bin/sh", "-c", WAIT])
        finally:
            os._exit(127)
    for end in (info[1], ready[1], hold[0], words[1], calls):
        os.close(end)
    text = gathered(info[0])
    # bubblewrap reports before the new root stands; the first program reports after that
    if not readable(ready[0], START_SECONDS) or os.read(ready[0], 6) != b"ready\n":
        os.kill(pid, signal.SIGKILL)
        reason = gathered(words[0]).decode(errors="replace").strip()
        raise OSError(0, f"the sandbox did not start: {reason or 'no answer'}")
    first = json.loads(text)["child-pid"]
    for name in NAMESPACES:
        if name == "net" and network:
            continue  # the machine's, where it is already
        if name == "mnt":
            root = os.open(f"/proc/{first}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        place = os.open(f"/proc/{first}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        kernel.enter(place)
        os.close(place)
    os.fchdir(root)
    os.chroot(".")
    os.chdir("/")
    os.close(root)
    return ready[0], hold[1]


def gathered(pipe: int) -> bytes:
    """Read a pipe until it ends or stays silent, and close it."""
    found = b""
    while readable(pipe, START_SECONDS) and (chunk := os.read(pipe, PIECE)):
        found += chunk
    os.close(pipe)
    return found


class Shell:
    """A shell that keeps its folder and variables from one command to the next."""

    def __init__(self, folder: str, spec: "dict[str, Any]") -> None:
        commands, output, status = os.pipe(), os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                arrange({0: commands[0], 1: output[1], 2: output[1], STATUS: status[1]})
                become_command(folder, spec)
                program = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
                argv = [program, "--noprofile", "--norc"] if program.endswith("bash") else [program]
                os.execve(program, argv, spec["env"])
            except Exception as error:
                words = getattr(error, "strerror", None) or str(error)
                os.write(2, f"the shell did not start: {words}\n".encode())
            finally:
                os._exit(127)
        for end in (commands[0], output[1], status[1]):
            os.close(end)
        self.commands, self.output, self.status = commands[1], output[0], status[0]
        self.gone = os.pidfd_open(self.pid)
        """Says that the shell has ended: its background processes can keep the pipes open."""
        os.set_blocking(self.output, False)
        os.set_blocking(self.commands, False)
        self.waiting = b"trap : INT\n"
        """What the shell has not read yet."""
        self.said = b""

    def run(self, command: bytes) -> None:
        quoted = b"'" + command.replace(b"\0", b"").replace(b"'", b"'\\''") + b"'"
        self.waiting += b"eval " + quoted + b" </dev/null %d>&-\n" % STATUS
        self.waiting += b'printf "%%s %%s\\0" "$?" "$PWD" >&%d\n' % STATUS

    def feed(self) -> None:
        try:
            self.waiting = self.waiting[os.write(self.commands, self.waiting[:PIECE]) :]
        except BlockingIOError:
            pass
        except OSError:  # it has ended; its status pipe says so
            self.waiting = b""

    def signal(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except OSError:
            pass

    def end(self) -> int:
        """End the shell and its process group; return its exit code."""
        self.signal(signal.SIGKILL)
        for end in (self.commands, self.output, self.status, self.gone):
            os.close(end)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Inside:
    def __init__(self, control: Control, first: "tuple[int, int]", spec: "dict[str, Any]") -> None:
        self.control, self.spec = control, spec
        self.alive, self.asks = first
        self.folder = spec["workdir"]
        os.umask(0o022)
        try:
            os.makedirs(self.folder, exist_ok=True)
            os.chdir(self.folder)
        except OSError:  # something else is in its place
            self.folder = "/"
        self.shell: Shell | None = None
        self.program: Program | None = None
        self.running: int | None = None
        """Id of the message whose command runs."""
        self.deadline = self.kill_at = self.look_at = float("inf")
        self.late = bytearray()
        self.reset(0)

    def reset(self, most: int) -> None:
        self.most, self.sent, self.left_out, self.tail = most, 0, 0, bytearray()
        self.timed_out = False

    def send(self, head: "dict[str, Any]", body: bytes = b"") -> None:
        self.control.sendall(packed(head, body))

    def serve(self) -> None:
        requests = Incoming()
        while True:
            due = min(self.deadline, self.kill_at, self.look_at)
            reads: list[int] = [self.control.fileno(), self.alive]
            writes: list[int] = []
            if self.shell is not None:
                reads += [self.shell.output, self.shell.status, self.shell.gone]
                writes += [self.shell.commands] if self.shell.waiting else []
            seconds = None if due == float("inf") else max(0.0, due - time.monotonic())
            ready, room, _ = select.select(reads, writes, [], seconds)
            if self.alive in ready:
                return  # every process was killed
            if self.shell is not None:
                if room:
                    self.shell.feed()
                if self.shell.output in ready:
                    self.take_output(self.shell)
                if self.shell.status in ready:
                    self.take_status(self.shell)
                elif self.shell.gone in ready:
                    self.finish(self.shell, None)
            if self.control.fileno() in ready:
                chunk = self.control.recv(1 << 20)
                if not chunk:
                    return
                for head, body in requests.feed(chunk):
                    self.handle(head, body)
            self.look_at_time()

    def handle(self, head: "dict[str, Any]", body: bytes) -> None:
        try:
            match head["op"]:
                case "run":
                    self.start(head, body)
                case "interrupt":
                    self.deadline = min(self.deadline, time.monotonic())
                case "start" | "ask":
                    answer, answers = self.asked(head, body)
                    self.send({"id": head["id"], **answer}, answers)
                case "lives":
                    if self.lives():
                        self.send({"lives": True})
                case "read":
                    self.send({"id": head["id"]}, read(head["path"], head["most"]))
                case "write":
                    write(head["path"], body, head["mode"])
                    self.send({"id": head["id"]})
        except (OSError, ValueError) as error:
            words = getattr(error, "strerror", None) or str(error)
            self.send({"id": head["id"], "error": words})

    def lives(self) -> bool:
        """Return whether the first program answers: one that was just killed does not, before it ends."""
        try:
            os.write(self.asks, b"\n")
        except BrokenPipeError:
            return False  # this process ends, which says the same
        return readable(self.alive, START_SECONDS) and bool(os.read(self.alive, PIECE))

    def asked(self, head: "dict[str, Any]", body: bytes) -> "tuple[dict[str, Any], bytes]":
        """Start the program, or ask it. A message from outside ends it meanwhile."""
        if head["op"] == "start":
            if self.program is not None:
                self.program.end("another program was started")
            self.program = Program(head["argv"], self.folder, self.spec, alone=head["alone"], look=self.look)
        if self.program is None:
            raise ValueError("no program was started")
        return self.program.ask(
            head.get("sizes"), body, head["seconds"], head["most"], [self.control.fileno(), self.alive]
        )

    def start(self, head: "dict[str, Any]", command: bytes) -> None:
        if self.shell is None:
            self.shell = Shell(self.folder, self.spec)
        self.reset(head["most"])
        self.running = head["id"]
        self.deadline = time.monotonic() + head["seconds"]
        if self.late:
            self.emit(bytes(self.late))
            self.late.clear()
        self.shell.run(command)
        self.shell.feed()

    def take_output(self, shell: Shell) -> None:
        """Pass on what was printed; between two commands, keep the end of it."""
        try:
            chunk = os.read(shell.output, PIECE)
        except BlockingIOError:
            return
        if not chunk:
            return
        if self.running is None:
            self.late += chunk
            del self.late[:-LATE_BYTES]
        else:
            self.emit(chunk)

    def emit(self, chunk: bytes) -> None:
        """Send the first half of what is allowed at once, and keep the last half for the end."""
        now = chunk[: max(0, self.most // 2 - self.sent)]
        if now:
            self.sent += len(now)
            self.send({"id": self.running, "output": True}, now)
        self.tail += chunk[len(now) :]
        if (extra := len(self.tail) - self.most // 2) > 0:
            del self.tail[:extra]
            self.left_out += extra

    def take_status(self, shell: Shell) -> None:
        chunk = os.read(shell.status, PIECE)
        if not chunk:
            self.finish(shell, None)
            return
        shell.said += chunk
        if self.running is not None and b"\0" in shell.said:
            text, _, shell.said = shell.said.partition(b"\0")
            code, _, folder = text.partition(b" ")
            self.folder = os.fsdecode(folder) or self.folder
            self.finish(shell, int(code) if code.isdigit() else 1)

    def finish(self, shell: Shell, code: "int | None") -> None:
        """Answer the running command. Without a code, the shell has ended."""
        for _ in range(64):  # what was printed before the end
            if not readable(shell.output, 0):
                break
            self.take_output(shell)
        ended = code is None
        if ended:
            code, self.shell = shell.end(), None
        self.deadline = self.kill_at = float("inf")
        if self.running is not None:
            head = {
                "id": self.running,
                "code": code,
                "timed_out": self.timed_out,
                "left_out": self.left_out,
                "shell_ended": ended,
            }
            self.send(head, bytes(self.tail))
        self.running = None

    def look(self) -> str:
        """Return which limit of the whole sandbox is exceeded. Here, the keeper looks at them."""
        return ""

    def look_at_time(self) -> None:
        now = time.monotonic()
        if self.shell is None or self.running is None:
            self.deadline = self.kill_at = float("inf")
        elif now >= self.kill_at:
            self.finish(self.shell, None)
        elif now >= self.deadline:
            self.timed_out = True
            self.deadline, self.kill_at = float("inf"), now + GRACE_SECONDS
            self.shell.signal(signal.SIGINT)


def read(path: str, most: int) -> bytes:
    """Return a plain file's content.

    Raises:
        OSError: it cannot be read, or is longer than `most` bytes.
    """
    place = os.open(path, os.O_RDONLY | OPEN)
    try:
        found = os.fstat(place)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "it is no file" if not stat.S_ISDIR(found.st_mode) else "it is a folder")
        parts, left = [], most + 1
        while left and (chunk := os.read(place, min(left, 1 << 20))):
            parts.append(chunk)
            left -= len(chunk)
        if not left:
            raise OSError(0, f"it has more than {most} bytes")
        return b"".join(parts)
    finally:
        os.close(place)


def write(path: str, data: bytes, mode: int) -> None:
    """Write a file and its parent folders.

    Raises:
        OSError: it cannot be written.
    """
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    place = os.open(path, os.O_WRONLY | os.O_CREAT | OPEN, mode)
    try:
        if not stat.S_ISREG(os.fstat(place).st_mode):
            raise OSError(0, "it is no file")
        os.ftruncate(place, 0)
        view = memoryview(data)
        while view:
            view = view[os.write(place, view) :]
        os.fchmod(place, mode)
    finally:
        os.close(place)
