"""An agent that puts links, pipes, devices and other people's files in place of its own gets nothing read."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mcp_bench.plugins import agent_folder
from mcp_bench.plugins.agent_folder import AgentFolder, hold, walk_beneath
from tests.support.requirements import skip

pytestmark = pytest.mark.unit

PLACE = "a/b/log.jsonl"
LINE = '{"word": "stolen"}\n'


@pytest.fixture(params=["openat2", "one folder at a time"])
def home(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param != "openat2":
        monkeypatch.setattr(agent_folder, "open_beneath", walk_beneath)
    (tmp_path / "home/a/b").mkdir(parents=True)
    (tmp_path / "elsewhere/b").mkdir(parents=True)
    (tmp_path / "elsewhere/b/log.jsonl").write_text(LINE)
    (tmp_path / "elsewhere/log.jsonl").write_text(LINE)
    return tmp_path / "home"


@pytest.fixture
def held(home: Path) -> Iterator[AgentFolder]:
    folder = hold(home)
    yield folder
    folder.close()


def link_at_the_end(home: Path) -> None:
    (home / PLACE).symlink_to("../../../elsewhere/log.jsonl")


def link_in_the_middle(home: Path) -> None:
    (home / "a/b").rmdir()
    (home / "a/b").symlink_to(home.parent / "elsewhere/b")


def link_at_the_beginning(home: Path) -> None:
    (home / "a").rename(home / "away")
    (home / "a").symlink_to("../elsewhere")


def link_inside(home: Path) -> None:
    (home / "real").write_text(LINE)
    (home / PLACE).symlink_to(home / "real")


def magic_link(home: Path) -> None:
    (home / "a/b").rmdir()
    (home / "a/b").symlink_to("/proc/self/cwd")


def hard_link(home: Path) -> None:
    os.link(home.parent / "elsewhere/log.jsonl", home / PLACE)


def pipe(home: Path) -> None:
    os.mkfifo(home / PLACE)


def device(home: Path) -> None:
    (home / PLACE).symlink_to("/dev/zero")


def folder(home: Path) -> None:
    (home / PLACE).mkdir()


def file_as_folder(home: Path) -> None:
    (home / "a/b").rmdir()
    (home / "a/b").write_text(LINE)


def endless(home: Path) -> None:
    with (home / PLACE).open("w") as file:
        file.write(LINE)
        file.truncate(10 << 30)


TRAPS = (
    link_at_the_end, link_in_the_middle, link_at_the_beginning, link_inside, magic_link, hard_link, pipe,
    device, folder, file_as_folder, endless,
)  # fmt: skip


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_counts_as_missing(home: Path, held: AgentFolder, trap: Callable[[Path], None]) -> None:
    trap(home)
    assert list(held.lines(PLACE)) == list(held.lines("*/*/*.jsonl")) == list(held.lines("a/*/*")) == []
    with pytest.raises(OSError):
        held.read(PLACE)


def test_files_of_the_agent_are_read(home: Path, held: AgentFolder) -> None:
    for name in ("2.jsonl", "1.jsonl", ".3.jsonl", "other"):
        (home / "a/b" / name).write_text(f'{{"name": "{name}"}}\nno json\n[1]\n')
    assert [line["name"] for line in held.lines("a/*/*.jsonl")] == [".3.jsonl", "1.jsonl", "2.jsonl"]
    assert [line["name"] for line in held.below("a").below("b").lines("other")] == ["other"]
    assert held.below("none").below("deeper").find("*/x") == []


def test_a_path_cannot_leave_the_folder(home: Path, held: AgentFolder) -> None:
    for name in ("../elsewhere/log.jsonl", "a/../../elsewhere/log.jsonl", str(home.parent), "a/b/\0", ".."):
        with pytest.raises(OSError):
            held.read(name)
    assert list(held.lines("../*/log.jsonl")) == []


def test_a_folder_that_moved_is_still_held(home: Path, held: AgentFolder) -> None:
    (home / PLACE).write_text('{"word": "own"}\n')
    home.rename(home.with_name("away"))
    home.symlink_to(home.parent / "elsewhere")
    assert list(held.lines("*/*/*.jsonl")) == [{"word": "own"}]


def test_a_swap_between_looking_and_opening(home: Path, held: AgentFolder) -> None:
    """A link takes turns with a folder: what is read is the agent's file or nothing."""
    (home / PLACE).write_text('{"word": "own"}\n')
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            (home / "a").rename(home / "away")
            (home / "a").symlink_to("../elsewhere")
            (home / "a").unlink()
            (home / "away").rename(home / "a")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        seen = {line["word"] for _ in range(500) for line in held.lines("*/b/*.jsonl")}
    finally:
        over.set()
        thread.join()
    assert seen <= {"own"}


def test_other_users_files_are_not_read(home: Path, held: AgentFolder) -> None:
    if os.geteuid() != 0:
        skip("root", "only root can give a file away")
    (home / PLACE).write_text(LINE)
    os.chown(home / PLACE, 61_990, 61_990)
    assert list(held.lines(PLACE)) == []
    os.chown(home, 61_990, 61_990)  # as for an agent that is another user
    assert list(held.lines(PLACE)) == [{"word": "stolen"}]


def test_all_files_together_have_a_limit(
    home: Path, held: AgentFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_folder, "FILE_BYTES", 3000)
    for number in range(4):
        with (home / f"a/b/{number}.jsonl").open("w") as file:
            file.write(f'{{"number": {number}}}\n')
            file.truncate(1000)
    assert [line["number"] for line in held.lines("a/b/*")] == [0, 1, 2]


def test_the_users_own_links_are_followed(home: Path) -> None:
    """With `--home native`, the files are the user's own: dot files are often links."""
    link_in_the_middle(home)
    assert list(hold(home, trusted=True).lines("a/*/log.jsonl")) == [{"word": "stolen"}]
    os.mkfifo(home / "pipe")
    assert list(hold(home, trusted=True).lines("pipe")) == []


def test_creating_a_file_never_follows(home: Path, held: AgentFolder) -> None:
    held.create("a/new")
    assert (home / "a/new").read_bytes() == b""
    link_at_the_beginning(home)
    for name in ("a/planted", "away/new"):
        with pytest.raises(OSError):
            held.create(name)
    assert not (home.parent / "elsewhere/planted").exists()
