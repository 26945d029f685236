"""An agent that uses more of the machine than it may is ended, with a note of the limit."""

import resource
from pathlib import Path

import anyio
import pytest

from mcp_bench.bridge.process import limits
from mcp_bench.bridge.process.agent import agent_process
from mcp_bench.bridge.process.limits import AgentLimits, Watch
from tests.bridge.process.test_supervisor import python

pytestmark = [pytest.mark.anyio, pytest.mark.component]

SECONDS = 30
SMALL = AgentLimits(processes=20, memory=64 << 20, storage=8 << 20, files=50)
GREEDY = {
    "processes": """
import os, signal
for _ in range(30):
    if os.fork() == 0:
        os.setsid(); signal.pause()
signal.pause()
""",
    "processes, in threads": """
import threading
for _ in range(30):
    threading.Thread(target=threading.Event().wait).start()
""",
    "memory": "import signal; held = b'x' * (100 << 20); signal.pause()",
    "memory, in several processes": """
import os, signal
for _ in range(4):
    if os.fork() == 0:
        held = b"x" * (30 << 20); signal.pause()
signal.pause()
""",
    "storage": """
import signal
for number in range(10):
    open(f"part{number}", "wb").write(b"x" * (1 << 20))
signal.pause()
""",
    "storage, deleted": """
import os, signal
held = open("part", "wb"); os.unlink("part"); held.write(b"x" * (10 << 20)); held.flush()
signal.pause()
""",
    "storage, deleted and only mapped": """
import ctypes, os, signal
map = ctypes.CDLL(None).mmap  # without a descriptor of its own
map.restype = ctypes.c_void_p
for _ in range(5):
    part = os.open("part", os.O_RDWR | os.O_CREAT); os.unlink("part")
    os.write(part, b"x" * (2 << 20))
    map(None, ctypes.c_size_t(2 << 20), 3, 1, part, ctypes.c_long(0)); os.close(part)
signal.pause()
""",
    "storage, in memory": """
import os, signal
held = os.memfd_create("part"); os.write(held, b"x" * (10 << 20))
signal.pause()
""",
    "storage, in many files": """
import signal
for number in range(60):
    open(f"part{number}", "wb").close()
signal.pause()
""",
    "storage, nested deeply": """
import os, signal
for _ in range(50):
    os.mkdir("x" * 200); os.chdir("x" * 200)
signal.pause()
""",
}
MODEST = """
import os, threading
started = [threading.Thread(target=threading.Event().wait, daemon=True).start() for _ in range(10)]
held = b"x" * (20 << 20)
import mmap
shared = mmap.mmap(-1, 100 << 20)
memory = os.memfd_create("sparse"); os.ftruncate(memory, 100 << 20); large = mmap.mmap(memory, 100 << 20)
name = open("deleted", "w+b"); os.unlink("deleted"); name.write(b"x" * (3 << 20)); name.flush()
both = mmap.mmap(name.fileno(), 3 << 20)
open("part", "wb").write(b"x" * (4 << 20))
for number in range(30): os.link("part", f"link{number}")
import time; time.sleep(1.5)
print("done")
"""


@pytest.fixture(autouse=True)
def no_quick_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SPACE_MOVED", 0)


async def run(source: str, tmp_path: Path) -> tuple[int, str]:
    folder = tmp_path / "work"
    folder.mkdir()
    async with agent_process(b"", tmp_path / "out", tmp_path / "err") as process:
        await process.launch(python(source), {}, folder, limits=(SMALL, folder))
        with anyio.fail_after(SECONDS):
            code = await process.wait()
    return code, process.over


@pytest.mark.parametrize(
    "kind",
    [
        "processes",
        "processes, in threads",
        "memory",
        "memory, in several processes",
        "storage, deleted",
        "storage, deleted and only mapped",
        "storage, in memory",
    ],
)
async def test_more_than_it_may_ends_the_agent(kind: str, tmp_path: Path) -> None:
    code, over = await run(GREEDY[kind], tmp_path)
    assert (code, over.partition(":")[0]) == (-9, kind.partition(",")[0]), over


@pytest.mark.parametrize("kind", ["storage", "storage, in many files", "storage, nested deeply"])
async def test_a_full_folder_is_over_the_limit(kind: str, tmp_path: Path) -> None:
    source = GREEDY[kind].replace("signal.pause()", "")
    folder = tmp_path / "work"
    folder.mkdir()
    async with agent_process(b"", tmp_path / "out", tmp_path / "err") as process:
        await process.launch(python(source), {}, folder)
        assert await process.wait() == 0
    others = {"memory": 8 << 30}  # it measures what is below this process, and tests have helpers there
    watch = Watch({**SMALL._asdict(), **others, "folder": str(folder)})
    assert next(over for _ in range(1000) if (over := watch.over())).startswith("storage: ")


async def test_a_modest_agent_is_left_alone(tmp_path: Path) -> None:
    assert await run(MODEST, tmp_path) == (0, "")


async def test_the_kernel_limits_open_files_too(tmp_path: Path) -> None:
    source = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[1])"
    code, _ = await run(source, tmp_path)
    most = min(limits.OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    assert (code, int((tmp_path / "out").read_text())) == (0, most)
