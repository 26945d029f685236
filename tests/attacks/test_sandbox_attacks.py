"""What a command in a sandbox may try against the referee, the machine and the trusted side's own reading."""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from mcp_bench.servers.sandbox import Sandbox, SandboxError, SandboxLimits, SandboxSpec
from tests.support.machines.sandbox_engines import NAMES, engine

pytestmark = [pytest.mark.anyio, pytest.mark.system]
MIB = 1 << 20
SMALL = SandboxLimits(processes=60, storage=64 * MIB, memory=256 * MIB, files=5000, seconds=30)


@pytest.fixture(params=NAMES)
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    with anyio.fail_after(300):
        async with engine(request.param).sandbox(SandboxSpec(limits=SMALL)) as started:
            yield started


async def fails(sandbox: Sandbox, command: str) -> str:
    """Run a command that must fail, and return its output."""
    result = await sandbox.run(command)
    assert result.code != 0, f"{command}: {result.output}"
    return result.output


OF_THE_MACHINE = (
    "touch /dev/planted",
    "ls /sys/fs/cgroup/memory",
    "mkdir /sys/fs/cgroup/own",
    "echo -1 >/sys/fs/cgroup/memory/memory.limit_in_bytes",
    "echo max >/sys/fs/cgroup/memory.max",
)


async def test_mounts_and_namespaces_are_closed(sandbox: Sandbox) -> None:
    for attempt in (
        "mount -t tmpfs none /mnt",
        "mount --bind /etc /mnt",
        "mount -o remount,rw,bind /usr",
        "mount -o remount,rw /proc",
        "umount -l /usr",
        "umount -l /proc/sys || umount -l /",
        "unshare -Ur true",
        "unshare -m true",
        "unshare -n true",
        "nsenter -t 1 -m true",
        "chroot /tmp true",
        "mknod /tmp/disk b 254 0",
        "echo x >/proc/sys/kernel/core_pattern",
        "echo 9 >/proc/sys/user/max_user_namespaces",
        "echo x >/usr/bin/planted",
    ):
        await fails(sandbox, attempt)
    # elsewhere, /dev and an empty /sys/fs/cgroup are the container's own
    for attempt in OF_THE_MACHINE if sandbox.enforced.engine == "bwrap" else ():
        await fails(sandbox, attempt)


async def test_nothing_of_the_referee_is_there(sandbox: Sandbox, bench_home: Path) -> None:
    bench_home.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(bench_home / "grades.db")) as db, db:
        db.execute("create table grades (word text)")
    for place in (bench_home, Path(__file__), Path("/root/.bashrc")):
        await fails(sandbox, f"cat {place} || ls {place}/")
    listed = (await sandbox.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '; cat /proc/mounts")).output
    assert "pytest" not in listed
    assert str(Path(__file__).parents[2]) not in listed
    assert (await sandbox.run("find / -name grades.db -not -path '/proc/*' 2>/dev/null")).output == ""
    assert (await sandbox.run(f"kill -0 {os.getpid()} || kill -0 {os.getppid()}")).code != 0
    environ = (await sandbox.run("env; cat /proc/1/environ /proc/self/environ | tr '\\0' '\\n'")).output
    assert not [name for name in os.environ if name.startswith("MCP_BENCH") and name in environ]


TRACE = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
child = os.fork()
if not child:
    signal.pause()
for process in (child, *map(int, sys.argv[1:])):
    traced = libc.ptrace(0x4206, process, None, None) == 0  # PTRACE_SEIZE
    calls = [line.split()[1] for line in open(f"/proc/{process}/status") if line.startswith("Seccomp:")]
    print(traced, *calls)
os.kill(child, 9)
"""


async def test_no_process_is_traced_that_nobody_counts(sandbox: Sandbox) -> None:
    await sandbox.write("trace.py", TRACE.encode())
    own = "1 2" if sandbox.enforced.engine == "bwrap" else "1"  # of the sandbox, besides the commands'
    child, *others = (await sandbox.run(f"python3 trace.py {own}")).output.splitlines()
    assert (child, {*others}) == ("True 2", {"False 2"})
    moved = await sandbox.run("mkdir -p a/b c && echo 1 >a/b/f && mv a/b c && ln c/b/f /tmp/f && cat /tmp/f")
    assert moved.output == "1\n"


async def test_the_machines_sockets_are_out_of_reach(sandbox: Sandbox, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract:
        name = f"mcp-bench-sandbox-test-{os.getpid()}"
        abstract.bind(f"\0{name}")
        abstract.listen()
        port = tcp.getsockname()[1]
        await fails(sandbox, f"timeout 5 bash -c 'echo >/dev/tcp/127.0.0.1/{port}'")
        await fails(
            sandbox, f"""python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("\\0{name}")'"""
        )
    await fails(sandbox, "timeout 5 bash -c 'echo >/dev/udp/192.0.2.1/9'")
    await fails(sandbox, "ls /run/docker.sock /run/systemd /run/dbus")


async def test_links_do_not_lead_the_trusted_side_out(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("sealed")
    await sandbox.run(
        f"ln -s {secret} to-file; ln -s {tmp_path} to-folder; ln -s /proc/1/root/etc/passwd root; ln -s loop loop"
    )
    await sandbox.run(
        "mkfifo fifo; ln -s /dev/zero zero; ln -s ../../../../../../../../etc up; ln -s /proc/self/fd fds"
    )
    for path in ("to-file", "to-folder/secret", "loop", "fifo", "zero", f"../../..{secret}", "fds/0"):
        with pytest.raises(SandboxError):
            await sandbox.read(path, most=1000)
    with pytest.raises(SandboxError):
        await sandbox.write("to-folder/planted", b"x")
    # this one leads to /etc of the sandbox
    await sandbox.write("up/planted", b"x")
    assert not (tmp_path / "planted").exists()
    assert not Path("/etc/planted").exists()
    with pytest.raises(SandboxError):
        await sandbox.write("fifo", b"x")
    assert b"sealed" not in await sandbox.read("/etc/passwd")
    listed = {change.path: change for change in await sandbox.changes()}
    assert (listed["/work/to-file"].kind, listed["/work/to-folder"].kind) == ("link", "link")
    assert secret.read_text() == "sealed"


async def test_odd_trees_are_listed(sandbox: Sandbox) -> None:
    deep = "import os\nfor _ in range(1500):\n  os.mkdir('d'); os.chdir('d')"
    await sandbox.run(
        f"""python3 -c "{deep}"; mkdir closed; echo x >closed/file; chmod 0 closed closed/file"""
    )
    await sandbox.run(
        "python3 -c \"open(b'\\xff\\x1b[31m', 'w')\"; truncate -s 60M sparse; touch -t 197001010000 old"
    )
    listed = {change.path: change for change in await sandbox.changes()}
    assert listed["/work/closed/file"].size == 2
    assert listed["/work/sparse"].size == 60 * MIB
    assert any("\ufffd" in path for path in listed)


async def test_fork_chains_are_bounded_and_end(sandbox: Sandbox) -> None:
    # bounded by itself, too: 3000 generations of a process that replaces itself, in sessions of their own
    chain = (
        "import os, sys, time\n"
        "for _ in range(3000):\n"
        "  try:\n    if os.fork(): os._exit(0)\n  except OSError: time.sleep(0.01)\n"
        "  os.setsid()\n"
    )
    await sandbox.write("chain.py", chain.encode())
    await sandbox.run("for n in $(seq 20); do python3 chain.py & done; echo started", seconds=2)
    await sandbox.halt()
    await sandbox.renew()
    assert (
        await sandbox.run("cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c '[c]hain.py'")
    ).output == "0\n"


async def test_a_daemon_does_not_see_the_next_start(sandbox: Sandbox) -> None:
    daemon = "while sleep 0.05; do for f in /tests/* /work/*; do echo cheated >$f; done; done 2>/dev/null"
    await sandbox.write("daemon.sh", daemon.encode())
    await sandbox.run("cp daemon.sh /tmp; (setsid nohup sh /tmp/daemon.sh &) ; sleep 0.2")
    await sandbox.run(
        "mkdir -p /tests; ln -s /tmp /tests/link; echo 'exit 0' >/tests/test.sh; chmod +x /tests/test.sh"
    )
    await sandbox.renew({"/tests": {"test.sh": b"ls /tests; sleep 0.3; cat /tests/test.sh | wc -l\n"}})
    assert (await sandbox.run("sh /tests/test.sh")).output == "test.sh\n1\n"
    assert (await sandbox.run("cat /tests/test.sh")).output.startswith("ls /tests")


async def test_limits_cannot_be_raised(sandbox: Sandbox) -> None:
    for attempt in (
        "ulimit -u 100000",
        "ulimit -f unlimited",
        "ulimit -n 1000000",
        "prlimit --pid 1 --nproc=10:10",
        "head -c 100M /dev/zero >/dev/shm/full",
    ):
        await fails(sandbox, attempt)


async def test_storage_is_bounded(sandbox: Sandbox) -> None:
    try:
        await fails(sandbox, "head -c 100M /dev/zero >large")
    except SandboxError:  # the keeper measured the whole before the command's own limit ended it
        assert sandbox.over.startswith("storage")


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
async def test_32_sandboxes_at_once_hold_their_limits(name: str) -> None:
    limits = SandboxLimits(processes=30, storage=32 * MIB, memory=64 * MIB, files=2000, cpus=0.5, seconds=120)
    hungry = "held = bytearray(200 << 20); held[::4096] = bytes(len(held[::4096])); print(6 * 7)"
    outcomes = list[str]()

    async def one(number: int) -> None:
        async with engine(name).sandbox(SandboxSpec(limits=limits)) as sandbox:
            await sandbox.write("mine", str(number).encode())
            forks = await sandbox.run("for n in $(seq 60); do sleep 20 & done; jobs -p | wc -l")
            assert "Resource temporarily unavailable" in forks.output
            await sandbox.renew()
            try:
                result = await sandbox.run(f"python3 -c '{hungry}'")
                # the kernel may choose the shell instead of the program
                killed = result.code == 137 or result.shell_ended
                outcomes.append("memory" if killed else result.output)
            except SandboxError:
                outcomes.append(sandbox.over.partition(":")[0])
                return
            assert await sandbox.read("mine") == str(number).encode()
            try:
                assert (await sandbox.run("head -c 100M /dev/zero >large")).code != 0
            except SandboxError:
                assert sandbox.over.startswith("storage")

    with anyio.fail_after(500):
        async with anyio.create_task_group() as tasks:
            for number in range(32):
                tasks.start_soon(one, number)
    assert outcomes == ["memory"] * 32
