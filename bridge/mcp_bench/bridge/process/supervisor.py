"""Start one agent, and end everything that it started.

Run as `python -I -S supervisor.py CONTROL_FD`, with the agent's stdin, stdout and stderr. The supervisor is a
child subreaper (prctl(2)): every orphaned descendant of the agent becomes its child, even after setsid and
double forks, so nothing outlives `end`. It also ends everything when the control socket closes, so a killed
referee leaves no agent behind.

Control protocol, one JSON document per line. From the referee: the launch `{"argv", "env", "cwd"}` with
`"file_bytes"` (size limit of any file, including the agent's stdout), `"confinement"` for a sandboxed agent
(see mcp_bench.bridge.isolation.level) and `"warm_start"` for one that can be forked (see fork_server.py);
then `{"stop": SECONDS}` (SIGTERM, then SIGKILL after this time) or `{"end": true}`. To the referee:
`{"started": PID}` or `{"failed": TEXT}`, `{"exited": CODE}` (negative for a signal), and `{"ended": true}`.
"""

import ctypes
import json
import os
import resource
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
CONFINE_SECONDS = 120.0


def become_subreaper() -> None:
    """Make this process the parent of every orphan below it.

    Raises:
        OSError: the kernel refused.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def harden() -> None:
    """Forbid tracing of this process, and core files of its descendants. See mcp_bench.servers.hardening.

    Raises:
        OSError: the kernel refused.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE)")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def parents() -> dict[int, int]:
    """Return the parent of every visible process, by process id."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # the command name can contain spaces and brackets: count from its end
                    table[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue  # it has ended
    return table


def descendants(root: int) -> set[int]:
    """Return the ids of all processes below `root`, zombies included."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    frontier = [root]
    while frontier:
        below = children.get(frontier.pop(), [])
        frontier += [pid for pid in below if pid not in found]
        found.update(below)
    return found


def end_descendants() -> None:
    """Kill and reap until no child is left. Orphans become our children, so none escapes."""
    while True:
        for pid in descendants(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


class NotConfinedError(Exception):
    """A sandbox could not be created, or the agent could not be started in it."""


def start_confined(spec: dict[str, Any]) -> "tuple[subprocess.Popen[bytes], int]":
    """Start an agent through confine.py; return the process to wait for and the agent's process group.

    Raises:
        NotConfinedError: the sandbox or the agent could not be started; the text says why.
    """
    how = spec["confinement"]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setsockopt(
            socket.SOL_SOCKET, socket.SO_PASSCRED, 1
        )  # gives the agent's process id outside the sandbox
        ours.settimeout(CONFINE_SECONDS)
        process = subprocess.Popen(
            [*how["wrap"], sys.executable, "-I", "-S", how["launcher"], str(theirs.fileno())],
            env=spec["env"],
            cwd=spec["cwd"],
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        reply, group = b"", process.pid
        try:
            ours.sendall(json.dumps({**how["rules"], "argv": spec["argv"], "cwd": spec["cwd"]}).encode())
            ours.shutdown(socket.SHUT_WR)
            while True:
                chunk, extra, _, _ = ours.recvmsg(4096, socket.CMSG_SPACE(12))
                if not chunk:
                    break
                reply += chunk
                group = struct.unpack("3i", extra[0][2])[0]
        except OSError as error:
            reply = str(error).encode()
    word, _, failure = reply.partition(b"\n")
    if word != b"ready" or failure:
        process.kill()
        process.wait()
        words = failure.decode(errors="replace").strip() or "the sandbox could not be created; see its stderr"
        raise NotConfinedError(words)
    return process, group


def start(spec: dict[str, Any]) -> tuple[int, int]:
    """Start an agent; return the process to wait for and the agent's process group.

    Raises:
        NotConfinedError: its sandbox could not be created.
        OSError, ValueError: it could not be started.
    """
    if spec.get("confinement"):
        process, group = start_confined(spec)
    else:
        process = subprocess.Popen(spec["argv"], env=spec["env"], cwd=spec["cwd"], start_new_session=True)
        group = process.pid
    process.returncode = 0  # the supervisor waits for it, as for all children
    return process.pid, group


class Supervisor:
    def __init__(
        self, control: socket.socket, start: Callable[[dict[str, Any]], tuple[int, int]] = start
    ) -> None:
        self.control = control
        self.start = start
        self.agent = 0
        """The process to wait for: the agent, or the sandbox around it."""
        self.group = 0
        """The agent's process group."""
        self.exited = False
        self.deadline: float | None = None
        self.received = b""

    def send(self, message: dict[str, Any]) -> None:
        try:
            self.control.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # the referee is gone; reading will notice the closed socket

    def launch(self, spec: dict[str, Any]) -> bool:
        try:
            if limit := spec.get("file_bytes"):
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            self.agent, self.group = self.start(spec)
        except NotConfinedError as error:
            self.send({"failed": str(error)})
            return False
        except (OSError, ValueError) as error:  # ValueError: a null byte in an argument
            self.send({"failed": f"{spec['argv'][0]}: {getattr(error, 'strerror', None) or error}"})
            return False
        # only the launched process keeps these open, so readers see the end of file when it exits
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        os.close(nowhere)
        self.send({"started": self.agent})
        return True

    def stop(self, seconds: float) -> None:
        if not self.exited:
            self.deadline = time.monotonic() + seconds
            os.killpg(self.group, signal.SIGTERM)

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.agent:
                self.exited = True
                self.deadline = None
                self.send({"exited": os.waitstatus_to_exitcode(status)})

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield the messages received so far; a closed socket counts as `end`."""
        chunk = self.control.recv(65536)
        self.received += chunk
        *lines, self.received = self.received.split(b"\n")
        yield from map(json.loads, lines)
        if not chunk:
            yield {"end": True}

    def run(self) -> None:
        woken, signalled = socket.socketpair()
        signalled.setblocking(False)
        signal.set_wakeup_fd(signalled.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with selectors.DefaultSelector() as selector:
            selector.register(self.control, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            while True:
                wait = None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
                ready = {key.fileobj for key, _ in selector.select(wait)}
                if woken in ready:
                    woken.recv(4096)
                    self.reap()
                if self.control in ready:
                    for message in self.messages():
                        if "argv" in message and not self.launch(message):
                            return
                        if "stop" in message:
                            self.stop(message["stop"])
                        if "end" in message:
                            return
                if self.deadline is not None and time.monotonic() >= self.deadline:
                    self.deadline = None
                    os.kill(self.agent, signal.SIGKILL)


def supervise(supervisor: Supervisor) -> None:
    """Supervise one agent until the end. On return, no process of the agent is left."""
    harden()
    become_subreaper()
    try:
        supervisor.run()
    finally:
        signal.set_wakeup_fd(-1)  # its socket is closed, and children will exit now
        end_descendants()
        if supervisor.agent and not supervisor.exited:
            supervisor.send({"exited": -signal.SIGKILL})
        supervisor.send({"ended": True})


if __name__ == "__main__":
    supervise(Supervisor(socket.socket(fileno=int(sys.argv[1]))))
