"""A program in a sandbox that answers questions over its standard streams, and the clock of its work.

A question and an answer are 8 bytes with the length (little-endian), then the bytes. The first answer comes
without a question: the program is ready. Standard library only.

The clock is the kernel's, read from outside the program: it counts what all threads of the process used
(clock_getcpuclockid(3)). Between two requests, the program is stopped: it does not work on while another one
is timed. A program that may start other processes is counted with all of them, by perf_event_open(2). Where
the kernel refuses that, it is counted by /proc, in steps of 10 ms: all processes of the sandbox, and those
that were waited for.

A limit is one of this clock, too: how busy the machine is does not matter. A program that sleeps uses no
processor, and ends at a much larger limit of wall-clock time. Time in which it waits for a processor is no
part of that (/proc/PID/schedstat): beside work of higher priority, 0.2 s can take a minute.
"""

import os
import select
import signal
import struct
import time
from collections.abc import Callable
from typing import Any

from mcp_bench.bridge.sandbox import kernel
from mcp_bench.bridge.sandbox.process import arrange, become_command, readable

LENGTH = struct.Struct("<Q")
PIECE = 1 << 20
LOG_BYTES = 4000
"""Kept of what the program wrote to stderr."""
LOOK_SECONDS = 1.0
"""Between two looks at the sandbox's limits while a program works."""
PATIENCE = 10.0
"""Wall-clock seconds for each second of processors that a program may use, against one that sleeps. They are
without those in which it waits for a processor."""
MOST_PIECES = 64
"""Of its stderr, read at once."""
TICKS = os.sysconf("SC_CLK_TCK")
STOPPED = "it was stopped from outside"
LATE = "its time was over"


class Program:
    """A running program. It ends with the sandbox, or when it exceeds a limit."""

    def __init__(
        self,
        argv: "list[str]",
        folder: str,
        spec: "dict[str, Any]",
        *,
        alone: bool,
        look: "Callable[[], str]" = str,
    ) -> None:
        """Start the program.

        Args:
            look: returns which limit of the sandbox was exceeded, or an empty string.
        """
        questions, answers, log = os.pipe(), os.pipe(), os.pipe()
        self.alone, self.look = alone, look
        self.tree = None if alone else tree_clock()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                arrange({0: questions[0], 1: answers[1], 2: log[1]})
                become_command(folder, spec, alone=alone)
                os.execvpe(argv[0], argv, spec["env"])
            except Exception as error:
                os.write(2, f"{argv[0]}: {getattr(error, 'strerror', None) or error}\n".encode())
            finally:
                os._exit(127)
        for end in (questions[0], answers[1], log[1]):
            os.close(end)
        self.questions, self.answers, self.log = questions[1], answers[0], log[0]
        for end in (self.questions, self.answers, self.log):
            os.set_blocking(end, False)
        self.said = bytearray()
        self.words = bytearray()
        self.ended = ""
        self.counted = self.most_used = self.waited_before = 0.0
        self.ticks: dict[tuple[str, int], int] = {}
        """What each process that was ever seen has used, by its number and start."""

    def ask(
        self, sizes: "list[int] | None", body: bytes, seconds: float, most: int, ends: "list[int]"
    ) -> "tuple[dict[str, Any], bytes]":
        """Send each question after the answer to the one before, and return all answers.

        Args:
            sizes: lengths of the questions in `body`; None: wait for the first answer.
            seconds: limit of processor time for all of it, and `PATIENCE` times as much for wall-clock time.
                A program that exceeds one of them is ended.
            most: limit for an answer's length.
            ends: descriptors; when one of them has something to read, the program is ended.
        """
        began, used, answers = time.monotonic(), [], list[bytes]()
        self.waited_before = waited()
        self.send(signal.SIGCONT)
        self.most_used, deadline, start = self.counted + seconds, began + PATIENCE * seconds, 0
        for size in [None] if sizes is None else sizes:
            question = b"" if size is None else LENGTH.pack(size) + body[start : start + size]
            start += size or 0
            answer = self.exchange(question, deadline, most, ends)
            if answer is None:
                break
            now = self.clock()
            used.append(now - self.counted)
            self.counted = now
            if now > self.most_used:
                self.end(LATE)
                break
            answers.append(answer)
        self.listen()
        late = max(0.0, waited() - self.waited_before)
        self.send(signal.SIGSTOP)
        clock = "process" if self.alone else "ticks" if self.tree is None else "processes"
        head = {
            "sizes": [len(answer) for answer in answers],
            "cpu": used,
            "ended": self.ended,
            "wall": time.monotonic() - began,
            "waited": late,
            "clock": clock,
            "log": self.words.decode(errors="replace"),
        }
        return head, b"".join(answers)

    def exchange(self, question: bytes, deadline: float, most: int, ends: "list[int]") -> "bytes | None":
        """Write a question and read an answer; return None if the program has ended."""
        waiting = memoryview(question)
        while not self.ended:
            if len(self.said) >= LENGTH.size:
                (size,) = LENGTH.unpack_from(self.said)
                if size > most:
                    self.end(f"its answer has {size} bytes, and {most} are allowed")
                    break
                if len(self.said) >= LENGTH.size + size and not waiting:
                    answer = bytes(self.said[LENGTH.size : LENGTH.size + size])
                    del self.said[: LENGTH.size + size]
                    return answer
            left = deadline - time.monotonic()
            if left <= 0 and (left := left + waited() - self.waited_before) <= 0:
                self.end(LATE)
                break
            reads = [self.answers, *([self.log] if self.log >= 0 else []), *ends]
            ready, room, _ = select.select(
                reads, [self.questions] if waiting else [], [], min(left, LOOK_SECONDS)
            )
            if not ready and not room and self.clock() > self.most_used:
                self.end(LATE)
                break
            if over := self.look():
                self.end(over)
                break
            if any(end in ready for end in ends):
                self.end(STOPPED)
                break
            if self.log in ready:
                self.listen()
            if room:
                waiting = self.write(waiting)
            if self.answers in ready:
                self.hear(most)
        return None

    def write(self, waiting: "memoryview") -> "memoryview":
        try:
            return waiting[os.write(self.questions, waiting[:PIECE]) :]
        except BlockingIOError:
            return waiting
        except OSError:  # it reads no more; whether it still answers is seen at the other pipe
            return waiting[:0]

    def hear(self, most: int) -> None:
        chunk = os.read(self.answers, PIECE)
        if chunk:
            self.said += chunk
            if len(self.said) > most + PIECE:
                self.end(f"it wrote more than {most} bytes")
            return
        self.listen()
        self.end()

    def listen(self) -> None:
        """Read what it wrote to stderr, or the last of it."""
        for _ in range(MOST_PIECES):
            if self.log < 0 or not readable(self.log, 0):
                break
            chunk = os.read(self.log, PIECE)
            if not chunk:
                os.close(self.log)
                self.log = -1
            self.words += chunk
            del self.words[:-LOG_BYTES]

    def clock(self) -> float:
        """Return the processor seconds used so far."""
        if self.alone:
            return time.clock_gettime((~self.pid << 3) | 2)
        if self.tree is not None:
            return self.tree.seconds()
        for name in os.listdir("/proc"):
            if name.isdecimal():
                started, ticks = times_of(name)
                self.ticks[name, started] = max(ticks, self.ticks.get((name, started), 0))
        return sum(self.ticks.values()) / TICKS

    def send(self, number: int) -> None:
        """Send a signal to its process group, unless it has ended."""
        if not self.ended:
            try:
                os.killpg(self.pid, number)
            except OSError:  # it has no group of its own before its first answer, and needs none
                pass

    def end(self, reason: str = "") -> None:
        """Kill it and say why. Without a reason, it has closed its streams by itself."""
        if self.ended:
            return
        if not reason:
            self._wait_for_exit()
        for kill in (os.killpg, os.kill):  # it may not have a group of its own yet
            try:
                kill(self.pid, signal.SIGKILL)
            except OSError:
                pass
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.ended = reason or (f"exit code {code}" if code >= 0 else f"signal {-code}")
        for end in (self.questions, self.answers):
            os.close(end)
        if self.tree is not None:
            self.tree.close()

    def _wait_for_exit(self) -> None:
        """Wait a second for the program to exit by itself, without reaping it."""
        pidfd = os.pidfd_open(self.pid)
        readable(pidfd, 1.0)
        os.close(pidfd)


def tree_clock() -> "kernel.TreeClock | None":
    try:
        return kernel.TreeClock()
    except OSError:  # /proc has to do
        return None


def times_of(process: str) -> "tuple[int, int]":
    """Return when a process started, and what it used: own threads, and children for which it waited."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
            return int(fields[19]), sum(map(int, fields[11:15]))
    except (OSError, ValueError, IndexError):
        return 0, 0


def waited() -> float:
    """Return for how many seconds the sandbox's processes have waited for a processor.

    It is that of all that run: /proc has other numbers for them than this process. 0: the kernel counts none.
    """
    total = 0
    for process in filter(str.isdecimal, os.listdir("/proc")):
        try:
            for thread in os.listdir(f"/proc/{process}/task"):
                with open(f"/proc/{process}/task/{thread}/schedstat", "rb") as file:
                    total += int(file.read().split()[1])
        except (OSError, ValueError, IndexError):
            pass
    return total / 1e9
