"""Starts one agent, and ends everything that came from it.

Run as `python -I -S supervisor.py CONTROL_FD`, with the agent's stdin, stdout and stderr as its
own. It is a child subreaper (prctl(2)): whatever the agent starts, with setsid and double forks
too, becomes its child when orphaned, so that nothing outlives `end`. It ends everything as well
when the control socket closes: a referee that was killed leaves no agent behind.

Control protocol, a JSON document per line. From the referee: the launch `{"argv", "env", "cwd"}` with
`"file_bytes"`, the size to which it may write any one file (its stdout, say), `"confinement"` for an agent
that is confined (see mcp_bench.bridge.isolation.level) and `"warm_start"` for one that may be forked (see
fork_server.py); then `{"stop": SECONDS}` (SIGTERM, and SIGKILL after that long) or `{"end": true}`. To the
referee: `{"started": PID}` or `{"failed": TEXT}`, `{"exited": CODE}` (negative: the signal), and
`{"ended": true}`.
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
    """Close this process to tracing, and all below it to core files. See mcp_bench.servers.hardening.

    Raises:
        OSError: the kernel refused.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE)")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def parents() -> dict[int, int]:
    """Return the parent of every process that can be seen, by process id."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The command name may hold spaces and brackets: count from its end.
                    table[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue  # it ended meanwhile
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
    """Kill and reap until no child is left. Orphans come to us, so none can hide."""
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
    """A sandbox could not be made, or the agent not be started in it."""


def start_confined(spec: dict[str, Any]) -> "tuple[subprocess.Popen[bytes], int]":
    """Start an agent by way of confine.py; return the process to wait for, and the agent's process group.

    Raises:
        NotConfinedError: why it did not come to that.
    """
    how = spec["confinement"]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # its id as it is called outside
        ours.settimeout(CONFINE_SECONDS)
        process = subprocess.Popen(
            [*how["wrap"], sys.executable, "-I", "-S", how["launcher"], str(theirs.fileno())],
            env=spec["env"],
            cwd=spec["cwd"],
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        told, group = b"", process.pid
        try:
            ours.sendall(json.dumps({**how["rules"], "argv": spec["argv"], "cwd": spec["cwd"]}).encode())
            ours.shutdown(socket.SHUT_WR)
            while True:
                chunk, extra, _, _ = ours.recvmsg(4096, socket.CMSG_SPACE(12))
                if not chunk:
                    break
                told += chunk
                group = struct.unpack("3i", extra[0][2])[0]
        except OSError as error:
            told = str(error).encode()
    word, _, failure = told.partition(b"\n")
    if word != b"ready" or failure:
        process.kill()
        process.wait()
        words = failure.decode(errors="replace").strip() or "the sandbox could not be made; see its stderr"
        raise NotConfinedError(words)
    return process, group


def start(spec: dict[str, Any]) -> tuple[int, int]:
    """Start an agent; return the process to wait for, and the agent's process group.

    Raises:
        NotConfinedError: its sandbox could not be made.
        OSError, ValueError: it could not be started.
    """
    if spec.get("confinement"):
        process, group = start_confined(spec)
    else:
        process = subprocess.Popen(spec["argv"], env=spec["env"], cwd=spec["cwd"], start_new_session=True)
        group = process.pid
    process.returncode = 0  # the supervisor waits for it, with all the others
    return process.pid, group


class Supervisor:
    def __init__(
        self, control: socket.socket, start: Callable[[dict[str, Any]], tuple[int, int]] = start
    ) -> None:
        self.control = control
        self.start = start
        self.agent = 0
        """What is waited for: the agent, or the sandbox around it."""
        self.group = 0
        """The agent's process group."""
        self.exited = False
        self.deadline: float | None = None
        self.received = b""

    def tell(self, message: dict[str, Any]) -> None:
        try:
            self.control.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # the referee is gone; the closed socket is noticed where we read

    def launch(self, spec: dict[str, Any]) -> bool:
        try:
            if limit := spec.get("file_bytes"):
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            self.agent, self.group = self.start(spec)
        except NotConfinedError as error:
            self.tell({"failed": str(error)})
            return False
        except (OSError, ValueError) as error:  # ValueError: a zero byte in an argument
            self.tell({"failed": f"{spec['argv'][0]}: {getattr(error, 'strerror', None) or error}"})
            return False
        # the launched process alone is to hold these open: when it ends, whoever reads them is told
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        os.close(nowhere)
        self.tell({"started": self.agent})
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
                self.tell({"exited": os.waitstatus_to_exitcode(status)})

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield what the referee has sent by now; a closed socket counts as `end`."""
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
    """Be the supervisor of one agent until it is to end; nothing that came from the agent is left then."""
    harden()
    become_subreaper()
    try:
        supervisor.run()
    finally:
        signal.set_wakeup_fd(-1)  # its socket is closed, and children are about to end
        end_descendants()
        if supervisor.agent and not supervisor.exited:
            supervisor.tell({"exited": -signal.SIGKILL})
        supervisor.tell({"ended": True})


if __name__ == "__main__":
    supervise(Supervisor(socket.socket(fileno=int(sys.argv[1]))))
