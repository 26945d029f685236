"""Run one command, and end all that it started: when it exits, in time, and when its caller dies.

Run as `python -I -S reaper.py SECONDS PROGRAM ARGUMENT...`, with a pipe as standard input that the caller
never writes to: its end is the end of the caller. The exit code is the command's (128 and more for a signal).
It can be any number, so this process ends by one of the signals below to say something else. The command's
standard input is empty.
"""

import ctypes
import os
import select
import signal
import sys
import time

LATE = -signal.SIGALRM
NOT_STARTED = -signal.SIGUSR1
"""As `subprocess` reports them."""
PR_SET_CHILD_SUBREAPER = 36
END_SECONDS = 5.0
PAUSE_SECONDS = 0.002


def run(seconds: float, command: list[str]) -> int:
    # orphans of the command become children of this process (prctl(2)), so that nothing is lost from sight
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    try:
        # Python ignores SIGPIPE, which a program would inherit
        pid = os.posix_spawn(
            command[0], command, os.environ, file_actions=[nothing], setsigdef=[signal.SIGPIPE]
        )
    except OSError as error:
        sys.stderr.write(f"{error.strerror}\n")
        return NOT_STARTED
    ended = os.pidfd_open(pid)
    waiting = select.poll()
    waiting.register(ended, select.POLLIN)
    waiting.register(0, select.POLLIN)
    found = [descriptor for descriptor, _ in waiting.poll(seconds * 1000)]
    code: int | None = None
    if ended in found:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    end_children()
    if code is None:
        return LATE
    return code if code >= 0 else 128 - code


def end_children() -> None:
    """Kill and reap until no child is left: what a dead one leaves becomes a child."""
    deadline = time.monotonic() + END_SECONDS
    while (found := children()) and time.monotonic() < deadline:
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass  # it may be dead already, and still has to be reaped
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass
        time.sleep(PAUSE_SECONDS)


def children() -> list[int]:
    """Return the children of this process, zombies included."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # the command name can contain spaces and brackets: count from its end
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
            if parent == os.getpid():
                found.append(int(name))
    return found


if __name__ == "__main__":
    result = run(float(sys.argv[1]), sys.argv[2:])
    if result < 0:
        sys.stderr.flush()
        signal.signal(-result, signal.SIG_DFL)
        signal.raise_signal(-result)
    sys.exit(result)
