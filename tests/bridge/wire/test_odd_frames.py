"""Odd lines pass unchanged in both directions, and are recorded unchanged.

The server is `cat`, so every line passes in both directions.
"""

import subprocess
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.support.engines import each_engine, engine_options
from tests.support.odd_frames import ODD_LINES, large

pytestmark = pytest.mark.system

LINES = [line + b"\n" for line in ODD_LINES.values()]
UNFINISHED = b'{"jsonrpc":"2.0","id":"last","method":"ping"}'
SECONDS = 120


def through_the_proxy(bench, chunks: Iterable[bytes]) -> bytes:
    """Send chunks, end the input, and return the output."""
    pipe = subprocess.PIPE
    command = bench.command("proxy", "cat")
    with subprocess.Popen(command, env=bench.environment(), stdin=pipe, stdout=pipe, bufsize=0) as process:
        assert process.stdin is not None and process.stdout is not None

        def write(sink=process.stdin) -> None:
            for chunk in chunks:
                rest = memoryview(chunk)
                while rest:
                    rest = rest[sink.write(rest) :]
            sink.close()

        writer = threading.Thread(target=write)
        writer.start()
        try:
            came = b"".join(iter(lambda: process.stdout.read(1 << 16), b""))
            writer.join(SECONDS)
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()
            writer.join(SECONDS)
    return came


def recorded(bench, direction: str) -> list[bytes]:
    rows = bench.rows("select body from frames where direction = ? order by id", direction)
    return [row["body"].encode() if isinstance(row["body"], str) else row["body"] for row in rows]


def cut(text: bytes, sizes: Iterable[int]) -> Iterable[bytes]:
    """Cut a text into pieces, repeating the given sizes."""
    sizes, at, turn = list(sizes), 0, 0
    while at < len(text):
        yield text[at : at + sizes[turn % len(sizes)]]
        at, turn = at + sizes[turn % len(sizes)], turn + 1


def test_odd_lines_are_many_and_distinct() -> None:
    assert len(set(ODD_LINES.values())) == len(ODD_LINES) >= 30
    assert not [name for name, line in ODD_LINES.items() if b"\n" in line]


@pytest.mark.parametrize(
    "sizes", [(1 << 30,), (7, 1, 50_000), (65_536,)], ids=["joined", "split", "as pipes do"]
)
def test_odd_lines_pass_the_proxy_unchanged(bench, sizes: tuple[int, ...]) -> None:
    sent = b"".join(LINES) + UNFINISHED
    assert through_the_proxy(bench, cut(sent, sizes)) == sent
    for direction in ("client", "server"):
        assert recorded(bench, direction) == [*LINES, UNFINISHED]
    (episode,) = bench.rows("select invalid, termination from episodes")
    assert episode == {"invalid": None, "termination": "agent_exit"}


def test_lines_of_twenty_megabytes_pass_the_proxy(bench) -> None:
    lines = [large(20_000_000) + b"\n", b'"' + b"\xff" * 20_000_000 + b'"\n', b"{}\n"]
    assert through_the_proxy(bench, lines) == b"".join(lines)
    assert recorded(bench, "client") == lines
    assert recorded(bench, "server") == lines
    assert bench.rows("select tool from calls") == [{"tool": "echo"}]


@each_engine(full=("ray",))
def test_odd_lines_pass_an_episodes_wire_unchanged(
    bench, script: Callable[[str], str], tmp_path: Path, engine: str
) -> None:
    lines = [line for line in LINES if b"tools/call" not in line] + LINES + [large(20_000_000) + b"\n"]
    (tmp_path / "sent").write_bytes(b"".join(lines) + UNFINISHED)
    echoes = f"""
sent = open({str(tmp_path / "sent")!r}, "rb").read()
print(subprocess.run(CONFIG["command"], input=sent, capture_output=True).stdout == sent)
"""
    bench.run(
        "record", "--server", "cat", "--agent", "script", "--prompt", "Echo.", "--agent-option", script(echoes),
        *engine_options(bench, engine), code=1,
    )  # fmt: skip
    assert bench.rows("select answer, invalid from episodes") == [
        {"answer": "True", "invalid": "never_connected"}
    ]
    for direction in ("client", "server"):
        assert recorded(bench, direction) == [*lines, UNFINISHED]


@pytest.mark.full
def test_a_line_of_two_hundred_megabytes_passes_in_little_memory(bench) -> None:
    line, end = b"x" * (1 << 20), b"\n"
    total = 200
    pipe = subprocess.PIPE
    command = bench.command("proxy", "cat")
    with subprocess.Popen(command, env=bench.environment(), stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"warm\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"warm\n"
        before = peak(process.pid)

        def write() -> None:
            for _ in range(total):
                process.stdin.write(line)
            process.stdin.write(end)
            process.stdin.flush()

        writer = threading.Thread(target=write)
        writer.start()
        came = sum(len(process.stdout.read(1 << 20)) for _ in range(total)) + len(process.stdout.readline())
        after = peak(process.pid)
        writer.join(SECONDS)
        process.stdin.close()
        process.wait(SECONDS)
    assert came == total << 20 | 1
    assert after - before < 40 << 10, f"{before} KiB, then {after} KiB"
    sizes = [row["size"] for row in bench.rows("select length(cast(body as blob)) as size from frames")]
    assert sorted(sizes) == [5, 5, (total << 20) + 1, (total << 20) + 1]


def peak(pid: int) -> int:
    """Return the peak memory of a process, in KiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise AssertionError("the process has ended")
