"""Starts our own clients in hundredths of a second: it has imported what they need, and forks for each.

Run as `python -I -S fork_server.py FD FOLDER MODULE...`; the modules are found in FOLDER. With a byte on the
socket FD come the stdin, stdout and stderr of an agent, and the control socket of its supervisor, which a
fork of this process becomes (supervisor.py). It first tells there its `{"supervisor": PID}`. A launch whose
`"warm_start"` is `{"module", "arguments"}` is then forked from it in turn: `main()` of that module is called
with these arguments in `sys.argv`, in the environment, the folder and the confinement of the launch. One for
which a sandbox has to be entered by a program is started as by any other supervisor.

No thread and no event loop may be there before a fork, so the modules must start none when they are imported.
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
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any, NoReturn

DESCRIPTORS = 4


def beside(name: str) -> Any:
    """Import a file from the folder of this one: no package of ours can be imported here."""
    path = Path(__file__).parent / f"{name}.py"
    loader = SourceFileLoader(path.stem, str(path))
    spec = spec_from_loader(path.stem, loader)
    assert spec is not None  # noqa: S101 - there is a loader
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    loader.exec_module(module)
    return module


supervisor = beside("supervisor")
confine = beside("../isolation/confine")


def start(spec: dict[str, Any]) -> tuple[int, int]:
    """Start an agent, by a fork of this process where that will do. See `supervisor.start`."""
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
        told = b""
        while chunk := ours.recv(4096):
            told += chunk
    word, _, failure = told.partition(b"\n")
    if word != b"ready" or failure:
        os.waitpid(pid, 0)
        raise supervisor.NotConfinedError(failure.decode(errors="replace").strip() or "it did not start")
    return pid, pid


def become_agent(spec: dict[str, Any], control: socket.socket) -> NoReturn:
    """Be the agent from here on. Nothing above on the stack is ever returned to."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # the numbers that are free now are the agent's; the objects that had them are on the stack for good
        os.closerange(3, control.fileno())
        os.closerange(control.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        try:
            if how := spec["confinement"]:
                confine.confine({**how["rules"], "cwd": spec["cwd"]}, control)
            else:
                os.setsid()
                control.sendall(b"ready\n")
                os.chdir(spec["cwd"])
            # as it would be after exec: without this it could not look at itself in /proc
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
    """Run the module's `main` as if Python had been started for it; return the exit code."""
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
    """Be the supervisor of one agent, and end with it."""
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
    for name in sys.argv[3:]:
        importlib.import_module(name)
    gc.freeze()  # what is here stays; without this, a collection in a fork would copy all of it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the supervisors here
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
