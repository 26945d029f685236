"""Programs in a sandbox that answer questions, and the clock of their work."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest

from mcp_bench.bridge.sandbox.engine import engines
from mcp_bench.bridge.sandbox.program import tree_clock
from mcp_bench.servers.sandbox import Answers, Sandbox, SandboxError, SandboxSpec
from tests.support.requirements import needs

BWRAP = engines()["bwrap"]
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.component,
    needs("bwrap", BWRAP.support().works, BWRAP.support().detail),
]
HEAD = """
import os, struct, sys, time
def put(data): sys.stdout.buffer.write(struct.pack("<Q", len(data)) + data); sys.stdout.buffer.flush()
def get(): return sys.stdin.buffer.read(struct.unpack("<Q", sys.stdin.buffer.read(8))[0])
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
put(b"ready")
"""


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    with anyio.fail_after(120):
        async with BWRAP.sandbox(SandboxSpec()) as started:
            yield started


async def started(sandbox: Sandbox, program: str, *, alone: bool = True) -> Answers:
    await sandbox.write("program.py", (HEAD + program).encode())
    return await sandbox.start(["python3", "program.py"], seconds=30, alone=alone)


async def test_questions_are_answered_one_after_the_other(sandbox: Sandbox) -> None:
    ready = await started(sandbox, "while True: put(get()[::-1])")
    assert (ready.bodies, ready.ended) == ((b"ready",), "")
    big = bytes(range(256)) * 20_000
    found = await sandbox.ask([b"abc", b"", big], seconds=30)
    assert found.bodies == (b"cba", b"", big[::-1])
    assert len(found.cpu_seconds) == 3
    assert (await sandbox.ask([b"again"], seconds=30)).bodies == (b"niaga",)


async def test_a_program_can_stop_reading_and_answer(sandbox: Sandbox) -> None:
    await started(sandbox, "os.close(0); put(b'anyway'); time.sleep(600)")
    assert (await sandbox.ask([bytes(1 << 20)], seconds=30)).bodies == (b"anyway",)
    assert (await sandbox.run("echo alive")).output == "alive\n"


async def test_the_clock_counts_processors_not_time(sandbox: Sandbox) -> None:
    await started(sandbox, "while True:\n b = float(get()); burn(b); put(b''); burn(b)")
    slept = await sandbox.ask([b"0"], seconds=30)
    worked = await sandbox.ask([b"0.3", b"0"], seconds=60)
    assert slept.cpu_seconds[0] < 0.1
    assert 0.3 <= worked.cpu_seconds[0] < 0.6
    assert 0.25 <= worked.cpu_seconds[1] < 0.6  # what it did after its answer


async def test_work_in_a_child_is_refused_or_counted(sandbox: Sandbox) -> None:
    child = "while True:\n get()\n pid = os.fork()\n if not pid: burn(0.3); os._exit(0)\n os.waitpid(pid, 0); put(b'')"
    await started(sandbox, child)
    refused = await sandbox.ask([b""], seconds=30)
    assert refused.bodies == ()
    assert refused.ended == "exit code 1"
    assert "PermissionError" in refused.log
    await started(sandbox, child, alone=False)
    assert (await sandbox.ask([b""], seconds=30)).cpu_seconds[0] >= 0.28
    await started(sandbox, "import threading\nget()\nthreading.Thread(target=burn).start()")
    assert "can't start new thread" in (await sandbox.ask([b""], seconds=30)).log


@needs("perf_event_open", tree_clock() is not None, "the kernel refuses it")
@pytest.mark.parametrize("ignored", [True, False])
async def test_children_that_nobody_waits_for_are_counted(sandbox: Sandbox, ignored: bool) -> None:
    """No line of /proc has the times of a child whose end its parent ignores. Orphans are counted, too."""
    child = (
        f"import signal\nif {ignored}: signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "while True:\n get()\n for _ in range(6):\n  r, w = os.pipe()\n  if not os.fork():\n"
        f"   if not {ignored} and os.fork(): os._exit(0)\n   burn(0.1)\n   os._exit(0)\n"
        "  os.close(w)\n  os.read(r, 1)\n  os.close(r)\n put(b'')"
    )
    await started(sandbox, child, alone=False)
    [used] = (await sandbox.ask([b""], seconds=30)).cpu_seconds
    assert used >= 0.55


async def test_a_limit_is_one_of_processors_not_of_time(sandbox: Sandbox) -> None:
    await started(sandbox, "get(); time.sleep(1.5); put(b'slept'); get(); burn(30)")
    assert (await sandbox.ask([b""], seconds=1)).bodies == (b"slept",)
    found = await sandbox.ask([b""], seconds=1)
    assert (found.bodies, found.ended) == ((), "its time was over")


CROWD = """import os, sys
os.sched_setaffinity(0, [int(sys.argv[1])])
for _ in range(24):
    if not os.fork():
        while True: pass
print(flush=True)
os.wait()
"""


@asynccontextmanager
async def crowd() -> AsyncIterator[None]:
    """Keep each processor busy with 24 other programs."""
    async with AsyncExitStack() as stack:
        for number in os.sched_getaffinity(0):
            argv = [sys.executable, "-S", "-c", CROWD, str(number)]
            one = await stack.enter_async_context(await anyio.open_process(argv, start_new_session=True))
            stack.callback(os.killpg, one.pid, signal.SIGKILL)
            assert one.stdout is not None
            await one.stdout.receive()
        yield


async def test_waiting_for_a_processor_is_no_sleep(sandbox: Sandbox) -> None:
    """In a crowd, 60 ms of work take longer than ten times their limit."""
    await started(sandbox, "get(); burn(0.06); put(b'done'); get()")
    async with crowd():
        found = await sandbox.ask([b""], seconds=0.1)
    assert found.bodies == (b"done",), found.ended
    assert found.seconds - found.waited < 1


@pytest.mark.parametrize("alone", [True, False])
async def test_a_program_is_stopped_between_two_questions(sandbox: Sandbox, alone: bool) -> None:
    """It does not work on while another program is timed."""
    spin = "while not select.select([0], [], [], 0)[0]: pass"
    await started(sandbox, f"import select\nwhile True:\n {spin}\n put(get())", alone=alone)
    work = "python3 -c 'import time\nwhile time.process_time() < 0.6: pass'"
    for _ in range(2):  # after the first answer, and after another one
        assert (await sandbox.run(work)).code == 0
        found = await sandbox.ask([b"x"], seconds=60)
        assert found.bodies == (b"x",)
        assert found.cpu_seconds[0] < 0.2 + 0.6 * (
            not alone
        )  # with other processes, the shell's work counts, too
    await sandbox.start(["true"], seconds=30)  # a stopped program can be ended


@pytest.mark.parametrize(
    ("program", "ended"),
    [
        ("get(); sys.exit(3)", "exit code 3"),
        ("get(); os.abort()", "signal 6"),
        ("get(); time.sleep(100)", "its time was over"),
        ("get(); sys.stdout.buffer.write(struct.pack('<Q', 1 << 60)); sys.stdout.flush(); time.sleep(100)",
         "its answer has 1152921504606846976 bytes, and 10485760 are allowed"),
    ],
)  # fmt: skip
async def test_how_a_program_ended(sandbox: Sandbox, program: str, ended: str) -> None:
    await started(sandbox, f"put(get())\nprint('last words', file=sys.stderr, flush=True)\n{program}")
    found = await sandbox.ask([b"one", b"two"], seconds=1)  # one that sleeps has ten
    assert (found.bodies, found.ended, found.log) == ((b"one",), ended, "last words\n")
    assert (await sandbox.ask([b"three"], seconds=3)).ended == ended
    assert (await sandbox.run("echo still here")).output == "still here\n"


async def test_a_program_that_does_not_start(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxError, match="no program was started"):
        await sandbox.ask([b""], seconds=3)
    assert "nothing: No such file" in (await sandbox.start(["nothing"], seconds=3)).log


async def test_a_cancelled_question_ends_the_program(sandbox: Sandbox) -> None:
    await started(sandbox, "get(); time.sleep(100)")
    with anyio.move_on_after(0.2):
        await sandbox.ask([b""], seconds=60)
    assert (await sandbox.ask([b""], seconds=3)).ended == "it was stopped from outside"


async def test_a_fresh_start_forgets_all_files(sandbox: Sandbox) -> None:
    await sandbox.write("mine", b"1")
    await sandbox.renew()
    assert await sandbox.read("mine") == b"1"
    await sandbox.renew({"/given": {"file": b"2"}}, fresh=True)
    assert (await sandbox.run("ls; cat /given/file")).output == "2"
    assert [change.path for change in await sandbox.changes() if change.kind == "file"] == []
