"""What a world can do in a sandbox: commands, files, changes, a new start over the files; and its limits."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from mcp_bench.bridge.sandbox.containers.leftovers import owner, remove_leftovers
from mcp_bench.bridge.sandbox.engine import choose
from mcp_bench.servers.errors import SandboxEndedError, UnknownNameError
from mcp_bench.servers.sandbox import Sandbox, SandboxError, SandboxSpec
from tests.support.machines.sandbox_engines import NAMES, PROGRAMS, SMALL, engine, labels

pytestmark = [pytest.mark.anyio, pytest.mark.component]
MIB = 1 << 20


async def said(sandbox: Sandbox, command: str, seconds: float = 30) -> str:
    return (await sandbox.run(command, seconds=seconds)).output


async def test_the_shell_keeps_its_folder_and_variables(sandbox: Sandbox) -> None:
    assert await said(sandbox, "pwd; cd /tmp; word=kept; echo file >one") == "/work\n"
    assert (
        await said(sandbox, 'echo "$word" "$PWD"; cat one; it=\'a "b"\'; echo "$it"')
        == 'kept /tmp\nfile\na "b"\n'
    )
    ended = await sandbox.run("echo last; exit 3")
    assert (ended.output, ended.code, ended.shell_ended) == ("last\n", 3, True)
    assert await said(sandbox, 'echo "[$word]" "$PWD"') == "[] /tmp\n"
    assert (await sandbox.run("if")).code != 0  # a syntax error
    assert (await sandbox.run("false")).code == 1
    assert await said(sandbox, "cat; echo read nothing") == "read nothing\n"
    behind = await sandbox.run("(sleep 600; :) & exit 4", seconds=8)
    assert (behind.code, behind.timed_out) == (4, False)


async def test_a_command_that_is_no_utf_8_runs_with_question_marks(sandbox: Sandbox) -> None:
    with anyio.fail_after(20):  # less than a sandbox waits for an answer
        assert await said(sandbox, "echo first") == "first\n"
        assert await said(sandbox, "echo 'a\ud800b'") == "a?b\n"


async def test_output_streams_and_a_long_one_loses_its_middle(sandbox: Sandbox) -> None:
    pieces = list[str]()

    async def progress(text: str) -> None:
        pieces.append(text)

    result = await sandbox.run("echo one; echo two >&2; echo three", progress=progress)
    assert (result.output, result.code) == ("one\ntwo\nthree\n", 0)
    assert "".join(pieces) == result.output
    pieces.clear()
    with anyio.CancelScope() as endless:

        async def until_the_second(text: str) -> None:
            pieces.append(text)
            if len(pieces) == 2:
                endless.cancel()

        await sandbox.run("while :; do echo more; sleep 0.1; done", progress=until_the_second)
    assert endless.cancelled_caught
    long = await sandbox.run(
        "echo begin; head -c 100000 /dev/zero | tr '\\0' x; echo; echo end", output_bytes=1000
    )
    assert long.output.startswith("begin\nxxx")
    assert long.output.endswith("xxx\nend\n")
    assert long.left_out == 100_011 - 1000
    assert f"... {long.left_out} bytes left out ..." in long.output


async def test_a_command_ends_with_its_time(sandbox: Sandbox) -> None:
    await sandbox.run("true")  # the shell has started
    slow = await sandbox.run("echo before; sleep 60; echo after", seconds=0.2)
    assert (slow.timed_out, slow.shell_ended) == (True, False)
    assert slow.output.startswith("before\n")
    stubborn = await sandbox.run("trap '' INT; while :; do :; done", seconds=0.2)
    assert (stubborn.timed_out, stubborn.shell_ended) == (True, True)
    with anyio.move_on_after(0.3) as cancelled:
        await sandbox.run("sleep 60")
    assert cancelled.cancelled_caught
    assert await said(sandbox, "echo usable") == "usable\n"


async def test_a_command_that_is_cancelled_while_it_is_sent_ends(sandbox: Sandbox) -> None:
    large = "cat >/dev/null <<'X'\n" + "a" * (4 * MIB) + "\nX\nsleep 600"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sandbox.run, large)
        for _ in range(10):  # in each, the pipe takes 64 KiB at most
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    for word in ("second\n", "third\n"):
        assert await said(sandbox, f"echo {word}") == word


async def test_background_processes_live_between_calls(sandbox: Sandbox) -> None:
    await sandbox.run('mkfifo pipe; (read -r word <pipe; echo "$word" >heard) & echo started')
    await sandbox.run("sleep 60", seconds=0.2)  # ends the command, not what runs behind it
    await sandbox.run("echo hello >pipe; wait")
    assert await sandbox.read("heard") == b"hello\n"


async def test_files_are_read_and_written_inside(sandbox: Sandbox) -> None:
    await sandbox.write("deep/er/script.sh", b"echo ran\n", mode=0o755)
    assert await said(sandbox, "deep/er/script.sh; stat -c %U deep/er/script.sh") == "ran\nroot\n"
    with pytest.raises(SandboxError, match="has more than 3 bytes"):
        await sandbox.read("deep/er/script.sh", most=3)
    with pytest.raises(SandboxError, match="it is a folder"):
        await sandbox.read("deep")
    with pytest.raises(SandboxError, match="gone: No such file"):
        await sandbox.read("gone")


async def test_changes_are_what_differs_from_the_base(sandbox: Sandbox) -> None:
    await sandbox.run(
        "echo hi >new; ln -s /etc/passwd link; mkfifo pipe; rm /etc/shells; rm -r /var/log; mkdir /var/log"
    )
    found = {change.path: change for change in await sandbox.changes()}
    assert (found["/work/new"].kind, found["/work/new"].size) == ("file", 3)
    assert found["/work/new"].sha256 == "98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4"
    assert (found["/work/link"].kind, found["/work/link"].target) == ("link", "/etc/passwd")
    assert found["/work/pipe"].kind == "other"
    assert found["/etc/shells"].kind == "deleted"
    assert found["/var/log"].replaced
    assert found.keys() - {"/work", "/etc", "/var"} == {
        "/work/new", "/work/link", "/work/pipe", "/etc/shells", "/var/log"
    }  # fmt: skip


async def test_a_new_start_keeps_files_and_no_process(sandbox: Sandbox) -> None:
    await sandbox.run("word=lost; echo mine >file; ln -s /etc /tests; mkdir -p /logs; ln -s /work /logs/out")
    await sandbox.run(
        "(trap '' HUP; setsid sh -c 'while sleep 0.1; do echo again >>/work/file; done') & sleep 0.3"
    )
    await sandbox.halt()
    with pytest.raises(SandboxError, match="has ended"):
        await sandbox.run("true")
    left = await sandbox.changes()
    await sandbox.renew({"/tests": {"run.sh": b"cat sub/data", "sub/data": b"hidden\n"}, "/logs/out": {}})
    assert (
        await said(sandbox, 'echo "[$word]"; cd /tests; ./run.sh; ls -a /logs/out') == "[]\nhidden\n.\n..\n"
    )
    assert (await sandbox.run("echo x >/tests/new || rm -r /tests || umount /tests")).code != 0
    assert int(await said(sandbox, "ls /proc | grep -c '^[0-9]'")) < 9
    after = {change.path: change for change in await sandbox.changes()}
    assert after["/work/file"] == next(change for change in left if change.path == "/work/file")


async def test_the_system_of_an_untrusted_commit_does_not_count(sandbox: Sandbox) -> None:
    both = "cat /etc/made /opt/made; ls /etc/more 2>/dev/null"
    await sandbox.run("echo built | tee /etc/made >/opt/made")
    await sandbox.commit()
    await sandbox.run("echo agents | tee /etc/made /etc/more >/opt/made")
    await sandbox.commit(trusted=False)
    assert not {"/opt/made", "/etc/made"} & {change.path for change in await sandbox.changes()}
    assert await said(sandbox, both) == "built\nagents\n"
    await sandbox.renew(fresh=True)
    assert await said(sandbox, both) == "built\nagents\n"
    await sandbox.run("echo late >/opt/made; { echo late >/etc/more; } 2>/dev/null")
    await sandbox.commit()  # over an agent's files, it is not trusted either
    assert await said(sandbox, both) == "built\nlate\n"


async def test_a_sandbox_whose_processes_were_killed_goes_on(sandbox: Sandbox) -> None:
    await sandbox.run("echo kept >file")
    if sandbox.enforced.engine == "bwrap":
        with pytest.raises(SandboxError, match="every process in the sandbox was killed"):
            await sandbox.run("kill -9 -1; sleep 5")
            await sandbox.run("sleep 5")
    else:  # a container's first process cannot be killed from inside
        assert (await sandbox.run("kill -INT 1; kill -9 1; kill -9 -1; kill -9 $$")).shell_ended
    assert await said(sandbox, "cat file") == "kept\n"


async def test_the_end_of_all_processes_fails_no_later_call() -> None:
    with anyio.fail_after(120):
        async with engine("bwrap").sandbox(SandboxSpec(limits=SMALL)) as sandbox:
            await sandbox.run(f"sleep {MARK} & (while [ ! -e go ]; do sleep 0.05; done; kill -9 -1) &")
            while not sleepers():
                await anyio.lowlevel.checkpoint()
            await sandbox.write("go", b"")
            while sleepers():
                await anyio.lowlevel.checkpoint()
            for _ in range(20):  # the keeper notices meanwhile
                assert "/work/go" in [change.path for change in await sandbox.changes()]
            await sandbox.halt()


@pytest.mark.parametrize(
    "left", ["mv /root/.local /root/x; ln -s {outside} /root/.local", "rm -rf /bin; mkfifo /bin"]
)
async def test_judged_code_that_kills_everything_ends_the_sandbox(tmp_path: Path, left: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o777)
    outside.chmod(0o777)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)  # the sandbox's user could come here
    with anyio.fail_after(120):
        async with engine("bwrap").sandbox(SandboxSpec(limits=SMALL)) as sandbox:
            await sandbox.renew({"/root/.local/bin": {"env": b""}})
            with pytest.raises(SandboxEndedError, match="every process was killed"):
                await sandbox.run(f"({left.format(outside=outside)}) 2>/dev/null; kill -9 -1; sleep 60")
                await sandbox.run("sleep 60")
            assert list(outside.iterdir()) == []
            assert sandbox.over == "every process was killed"
            await sandbox.renew()
            assert await said(sandbox, "echo usable") == "usable\n"


async def test_a_sandbox_that_cannot_start_again_is_over() -> None:
    with anyio.fail_after(120):
        async with engine("bwrap").sandbox(SandboxSpec(limits=SMALL)) as sandbox:
            with pytest.raises(SandboxEndedError):
                await sandbox.run("rm /bin; mkfifo /bin; kill -9 -1; sleep 60")
                await sandbox.run("sleep 60")
            with pytest.raises(SandboxEndedError, match="does not start again"):
                await sandbox.run("true")
                await sandbox.run("true")
            await sandbox.renew()
            assert await said(sandbox, "echo usable") == "usable\n"


async def test_sparse_files_end_it_instead_of_being_read(sandbox: Sandbox) -> None:
    await sandbox.run("truncate -s 30M one; cp --sparse=always one two")
    assert {"/work/one", "/work/two"} <= {change.path for change in await sandbox.changes()}
    await sandbox.run("for n in $(seq 1000); do ln one one$n; done")
    with pytest.raises(SandboxEndedError, match="storage: its files are too long"):
        await sandbox.changes()


async def test_an_error_of_a_new_start_is_raised_at_once() -> None:
    with anyio.fail_after(30):
        async with engine("bwrap").sandbox(SandboxSpec(limits=SMALL)) as sandbox:
            with pytest.raises(SandboxError, match=r"cannot be started: .*File name too long"):
                await sandbox.renew({"/" + "long" * 100: {}})
            await sandbox.renew()
            assert await said(sandbox, "echo usable") == "usable\n"


async def test_what_is_enforced_is_known(sandbox: Sandbox) -> None:
    enforced = sandbox.enforced
    assert (enforced.network, enforced.base) == ("none", "host")
    assert {
        "namespaces",
        "mount",
        "new_user",
        "network",
        "home",
        "benchmark",
        "state",
    } <= enforced.probes.keys()
    if enforced.user == "machine-root":  # docker without userns-remap: this is known, and never verified
        assert not enforced.probes["machine_user"]
        assert not enforced.sound
        return
    assert [name for name, passed in enforced.probes.items() if not passed] == []
    assert enforced.sound
    assert not enforced.model_copy(update={"probes": {**enforced.probes, "mount": False}}).sound


@pytest.mark.parametrize("name", NAMES)
async def test_the_machines_network_is_never_sound(name: str) -> None:
    found = engine(name)
    with anyio.fail_after(120):
        if name == "docker" and not found.support().advice:  # it maps users, and then lends no network
            with pytest.raises(SandboxError, match="host's network"):
                await found.sandbox(SandboxSpec(network="machine")).__aenter__()
            return
        async with found.sandbox(SandboxSpec(network="machine")) as sandbox:
            assert not sandbox.enforced.sound
            refused = sandbox.enforced.probes | {"machine_user": True, "namespaces": True}  # docker: above
            assert all(refused.values() if name == "docker" else sandbox.enforced.probes.values())


async def test_a_sandbox_that_is_too_large_is_ended(sandbox: Sandbox) -> None:
    # a file has at most the size of all, and the watch looks when the disk has lost 64 MiB
    fill = "for n in $(seq 12); do head -c 30M /dev/zero >big$n; done; sleep 100"
    with pytest.raises(SandboxError, match="was ended: storage"):
        await sandbox.run(fill, seconds=100)
    assert sandbox.over.startswith("storage")
    assert await sandbox.changes()
    with pytest.raises(SandboxError, match="storage"):
        await sandbox.run("true")


@pytest.mark.parametrize("name", NAMES)
async def test_a_layer_is_the_sandboxs_own_and_not_counted(name: str, tmp_path: Path) -> None:
    layer = tmp_path / "layer"
    (layer / "data").mkdir(parents=True)
    (layer / "data" / "large").write_bytes(bytes(50 * MIB))
    (layer / "etc").mkdir()
    (layer / "etc/hostname").touch()  # a container has a mount there
    spec = SandboxSpec(layers=(str(layer),), limits=SMALL)
    with anyio.fail_after(120):
        async with engine(name).sandbox(spec) as sandbox:
            fill = (
                "cd /data && for n in 1 2 3; do head -c 30M /dev/zero >more && rm more; done; rm large; ls -A"
            )
            assert await said(sandbox, fill) == ""
            assert [change.kind for change in await sandbox.changes() if change.path == "/data/large"] == [
                "deleted"
            ]
    assert (layer / "data" / "large").stat().st_size == 50 * MIB


async def test_memory_is_limited(sandbox: Sandbox) -> None:
    hungry = "python3 -c 'held = bytearray(1 << 30); held[::4096] = bytes(len(held[::4096])); print(6 * 7); import time; time.sleep(60)'"
    try:
        result = await sandbox.run(hungry, seconds=100)
    except SandboxError:
        assert sandbox.over.startswith("memory")
    else:
        assert result.code == 137
        assert "42" not in result.output


async def test_processes_are_limited_and_do_not_end_it(sandbox: Sandbox) -> None:
    bomb = "import os, time\nfor _ in range(200):\n  if not os.fork(): time.sleep(60)"
    result = await sandbox.run(f"python3 -c '{bomb}' 2>&1 | tail -1", seconds=0.5)
    assert result.timed_out or "Resource temporarily unavailable" in result.output
    await sandbox.renew()
    assert await said(sandbox, "echo $(( 1 + 1 ))") == "2\n"


def test_an_unknown_engine_gets_suggestions() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown sandbox engine 'bwarp' .did you mean bwrap"):
        choose("bwarp")


@pytest.mark.parametrize("name", NAMES)
async def test_everything_dies_with_a_killed_referee(name: str, tmp_path: Path) -> None:
    engine(name)
    referee = f"""
import anyio
from mcp_bench.bridge.sandbox.engine import choose
from mcp_bench.servers.sandbox import SandboxSpec
async def main():
    async with choose("{name}").sandbox(SandboxSpec()) as sandbox:
        await sandbox.run("(setsid sleep {MARK} &) ; nohup sleep {MARK} & echo")
        print("ready", flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""
    process = await anyio.open_process(
        [sys.executable, "-c", referee],
        stderr=None,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert process.stdout is not None
    with anyio.fail_after(60):
        said = b""
        while b"ready" not in said:
            said += await process.stdout.receive()
        while len(sleepers()) < 2:
            await anyio.lowlevel.checkpoint()
        whose = owner(process.pid)
        assert name == "bwrap" or whose in labels(name)
        process.kill()
        await process.wait()
        while sleepers():
            await anyio.lowlevel.checkpoint()
        while name != "bwrap" and whose in labels(name):  # left until a referee starts one, anywhere
            remove_leftovers(PROGRAMS[name])
            await anyio.lowlevel.checkpoint()


MARK = f"86413.{os.getpid()}"


def sleepers() -> list[str]:
    """Return the processes of the machine whose command line has the mark."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", MARK.encode()]:
            found.append(place.parent.name)
    return found


async def test_files_can_be_judged_again_after_code_killed_everything(sandbox: Sandbox) -> None:
    """The end of the sandbox before is not taken for the end of the new one."""
    await sandbox.write("/work/kept", b"1")
    for _ in range(5 if sandbox.enforced.engine == "bwrap" else 1):
        await sandbox.renew()
        with suppress(SandboxEndedError):  # the shell can be quicker to answer
            await sandbox.run("kill -9 -1")
        await sandbox.renew()
        assert not sandbox.over
        assert await sandbox.read("/work/kept") == b"1"
