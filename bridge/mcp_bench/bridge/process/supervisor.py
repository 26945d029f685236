"""Start one agent, and end everything that it started.

Run as `python -I -S supervisor.py CONTROL_FD`, with the agent's stdin, stdout and stderr. The supervisor is a
child subreaper (prctl(2)): every orphaned descendant of the agent becomes its child, even after setsid and
double forks, so nothing outlives `end`. It also ends everything when the control socket closes, so a killed
referee leaves no agent behind, and when the agent exceeds a limit (limits.py).

Control protocol, one JSON document per line. From the referee: the launch `{"argv", "env", "cwd"}` with
`"file_bytes"` (size limit of any file, including the agent's stdout), `"limits"` (see limits.Watch),
`"confinement"` for a sandboxed agent (see mcp_bench.bridge.isolation.level) and `"warm_start"` for one that
can be forked (see fork_server.py); then `{"stop": SECONDS}` (SIGTERM, then SIGKILL after this time) or
`{"end": true}`. To the referee: `{"started": PID}` or `{"failed": TEXT}`, `{"exited": CODE}` (negative for a
signal), `{"over": TEXT}` for an exceeded limit, and at last `{"ended": true, "left": COUNT}` with the number
of processes that could not be ended.
"""

import ctypes
import errno
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

# as a program, this has no packages to import
ROOT = __file__.rsplit("/", 4)[0]
sys.path.append(ROOT)
from mcp_bench.bridge.process.descendants import become_subreaper, end_descendants  # noqa: E402
from mcp_bench.bridge.process.limits import TICK_SECONDS, Watch, lower_own  # noqa: E402

sys.path.remove(ROOT)

PR_SET_DUMPABLE = 4
CONFINE_SECONDS = 120.0
ROOM_SECONDS = 8.0
"""For how long a failed fork is tried again; less than the referee waits for the end of a supervisor."""
REAP_AT_ONCE = 1000
"""Dead children reaped before the next look at the control socket: an agent can make them endlessly."""


def harden() -> None:
    """Forbid tracing of this process, and core files of its descendants. See mcp_bench.servers.hardening.

    Raises:
        OSError: the kernel refused.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE)")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


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
        self.uid: int | None = None
        """The user that only this agent runs as, if there is one."""
        self.watch: Watch | None = None
        self.look_at = 0.0
        """When to look at the limits again."""
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
            if limits := spec.get("limits"):
                self.uid = ((spec.get("confinement") or {}).get("rules") or {}).get("uid")
                lower_own({**limits, "own_user": self.uid is not None})
                self.watch, self.look_at = Watch(limits), time.monotonic() + TICK_SECONDS
            self.agent, self.group = self.start_with_room(spec)
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
        come_first()
        self.send({"started": self.agent})
        return True

    def start_with_room(self, spec: dict[str, Any]) -> tuple[int, int]:
        """Start the agent; wait and try again while the machine has no room for a process."""
        deadline, wait = time.monotonic() + ROOM_SECONDS, 0.1
        while True:
            try:
                return self.start(spec)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.ENOMEM) or time.monotonic() + wait > deadline:
                    raise
            time.sleep(wait)
            wait *= 2

    def stop(self, seconds: float) -> None:
        if not self.exited:
            self.deadline = time.monotonic() + seconds
            try:
                os.killpg(self.group, signal.SIGTERM)
            except ProcessLookupError:
                pass  # the agent has ended, and the sandbox around it has not yet

    def reap(self) -> bool:
        """Reap dead children; return whether there may be more."""
        for _ in range(REAP_AT_ONCE):
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return False
            if pid == self.agent:
                self.exited = True
                self.deadline = None
                self.send({"exited": os.waitstatus_to_exitcode(status)})
        return True

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield the messages received so far; a closed socket counts as `end`."""
        chunk = self.control.recv(65536)
        self.received += chunk
        *lines, self.received = self.received.split(b"\n")
        yield from map(json.loads, lines)
        if not chunk:
            yield {"end": True}

    def run(self) -> None:
        """Serve the referee until the end."""
        woken, signalled = socket.socketpair()
        signalled.setblocking(False)
        signal.set_wakeup_fd(signalled.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        try:
            self.serve(woken)
        finally:
            signal.set_wakeup_fd(-1)  # before its socket is closed, since children will exit

    def serve(self, woken: socket.socket) -> None:
        dead = False
        with selectors.DefaultSelector() as selector:
            selector.register(self.control, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select(0 if dead else self.patience())}
                if woken in ready:
                    woken.recv(4096)
                if woken in ready or dead:
                    dead = self.reap()
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
                if self.watch is not None and time.monotonic() >= self.look_at:
                    self.look_at = time.monotonic() + TICK_SECONDS
                    if over := self.watch.over():
                        self.send({"over": over})
                        return

    def patience(self) -> float | None:
        """Return for how many seconds nothing is due; None: for ever."""
        due = [] if self.deadline is None else [self.deadline]
        if self.watch is not None:
            due.append(self.look_at)
        return max(0.0, min(due) - time.monotonic()) if due else None


def come_first() -> None:
    """Run before the agent's processes, however many there are. Only root can, and only this process does."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except OSError:
        try:  # without a share of real time for this cgroup; only its own group of the autogroups counts
            os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, 0, -20)
            with open("/proc/self/autogroup", "w", encoding="ascii") as file:
                file.write("-20")
        except OSError:
            pass


def supervise(supervisor: Supervisor) -> None:
    """Supervise one agent until the end. On return, no process of the agent is left."""
    harden()
    become_subreaper()
    try:
        supervisor.run()
    finally:
        left = end_descendants(supervisor.uid)
        if supervisor.agent and not supervisor.exited:
            supervisor.send({"exited": -signal.SIGKILL})
        supervisor.send({"ended": True, "left": left})


if __name__ == "__main__":
    supervise(Supervisor(socket.socket(fileno=int(sys.argv[1]))))
