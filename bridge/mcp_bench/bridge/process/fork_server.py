"""Start our own clients in hundredths of a second: import their modules once, and fork for each launch.

Run as `python -I -S fork_server.py FD FOLDER MODULE...`, with the modules in FOLDER. Each byte on the socket
FD carries four descriptors: stdin, stdout and stderr of an agent, and the control socket of its supervisor.
A fork of this process becomes that supervisor (supervisor.py), and first sends `{"supervisor": PID}`. If a
launch has a `"warm_start"` of `{"module", "arguments"}`, the supervisor forks the agent too, and calls
`main()` of that module with these arguments in `sys.argv` and the environment, folder and confinement of the
launch. If a program is needed to enter the sandbox, the supervisor starts the agent normally.

The modules must not start threads or event loops on import, since neither survives a fork.
"""

import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import sys
import time
import traceback
from typing import Any, NoReturn

# this has no packages to import, and the clients have their own
ROOT = __file__.rsplit("/", 4)[0]
sys.path.append(ROOT)
from mcp_bench.bridge.isolation import confine  # noqa: E402
from mcp_bench.bridge.process import supervisor  # noqa: E402

sys.path.remove(ROOT)

DESCRIPTORS = 4


def start(spec: dict[str, Any]) -> tuple[int, int]:
    """Start an agent, by a fork of this process if possible. See `supervisor.start`."""
    how = spec["confinement"]
    if not spec.get("warm_start") or (how and how["wrap"]):
        pid, group = supervisor.start(spec)
        return int(pid), int(group)
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        become_agent(spec, theirs)
    theirs.close()
    with ours:
        reply = b""
        while chunk := ours.recv(4096):
            reply += chunk
    word, _, failure = reply.partition(b"\n")
    if word != b"ready" or failure:
        os.waitpid(pid, 0)
        raise supervisor.NotConfinedError(failure.decode(errors="replace").strip() or "it did not start")
    return pid, pid


def become_agent(spec: dict[str, Any], control: socket.socket) -> NoReturn:
    """Become the agent; the callers on the stack are never returned to."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # the agent reuses these numbers; their former objects stay on the stack and are never closed
        os.closerange(3, control.fileno())
        os.closerange(control.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        try:
            if how := spec["confinement"]:
                confine.confine({**how["rules"], "cwd": spec["cwd"]}, control)
            else:
                os.setsid()
                control.sendall(b"ready\n")
                os.chdir(spec["cwd"])
            # as after exec: without this, the process could not read its own files in /proc
            ctypes.CDLL(None).prctl(supervisor.PR_SET_DUMPABLE, 1, 0, 0, 0)
        except (OSError, ValueError) as error:
            control.sendall(confine.refused(error, spec["argv"]))
            os._exit(1)
        control.close()
        os._exit(run(spec))
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def run(spec: dict[str, Any]) -> int:
    """Run the module's `main` as in a fresh Python process; return the exit code."""
    os.environ.clear()
    os.environ.update(spec["env"])
    time.tzset()
    module = sys.modules[spec["warm_start"]["module"]]
    sys.argv = [str(module.__file__), *spec["warm_start"]["arguments"]]
    code = 0
    try:
        module.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def become_supervisor(descriptors: list[int]) -> NoReturn:
    """Become the supervisor of one agent, and exit with it."""
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        *standard, control_fd = descriptors
        for number, descriptor in enumerate(standard):
            os.dup2(descriptor, number)
            os.close(descriptor)
        control = socket.socket(fileno=control_fd)
        control.sendall(json.dumps({"supervisor": os.getpid()}).encode() + b"\n")
        supervisor.supervise(supervisor.Supervisor(control, start))
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def main() -> None:
    supervisor.harden()
    requests = socket.socket(fileno=int(sys.argv[1]))
    sys.path.insert(0, sys.argv[2])
    gc.disable()  # modules are no garbage: looking for it takes a seventh of the time to import them
    for name in sys.argv[3:]:
        importlib.import_module(name)
    gc.freeze()  # without this, garbage collection in a fork would copy every page
    gc.enable()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # supervisors are not waited for here
    while True:
        word, descriptors, _, _ = socket.recv_fds(requests, 1, DESCRIPTORS)
        if not word:
            return
        if os.fork() == 0:
            requests.close()
            become_supervisor(descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


if __name__ == "__main__":
    main()
