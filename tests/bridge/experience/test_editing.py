"""Tools that edit a harness leave one that can be used, and propose only what is allowed."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.bridge.experience import tools
from mcp_bench.bridge.experience.editing import (
    EditingExperience,
    ProposingExperience,
    write_texts,
)
from mcp_bench.bridge.experience.serve import ManyReaders
from mcp_bench.bridge.harness.folder import texts_of
from mcp_bench.bridge.viewer.recordings import Library
from mcp_bench.recorder.trajectory import Message
from mcp_bench.servers.errors import BenchError
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.component

SKILL = "---\nname: press\ndescription: How to press.\n---\nSoftly.\n"


def called(world: EditingExperience, tool: str, **arguments: Any) -> str:
    result = anyio.run(world.call, tool, arguments)
    return f"refused: {result.text}" if result.is_error else str(result.text)


@pytest.fixture
def world(tmp_path: Path) -> EditingExperience:
    return EditingExperience(Library(), tmp_path / "mine")


def test_files_are_written_edited_and_deleted(world: EditingExperience, tmp_path: Path) -> None:
    assert called(world, "files").startswith("It has no files yet. It can have INSTRUCTIONS.md, ")
    assert called(world, "write_file", path="INSTRUCTIONS.md", text="One, two.").startswith("Done. ")
    assert called(world, "write_file", path="skills/press/SKILL.md", text=SKILL).endswith("with 2 files.")
    assert called(world, "edit_file", path="INSTRUCTIONS.md", old="two", new="three").startswith("Done.")
    assert called(world, "read_file", path="INSTRUCTIONS.md") == "One, three."
    assert called(world, "files") == "INSTRUCTIONS.md (11 bytes)\nskills/press/SKILL.md (55 bytes)"
    assert called(world, "delete_file", path="skills").endswith("with 1 files.")
    assert texts_of(tmp_path / "mine") == {"INSTRUCTIONS.md": "One, three."}
    assert called(world, "delete_file", path="INSTRUCTIONS.md").endswith("with 0 files.")
    assert texts_of(tmp_path / "mine") == {}


def test_hidden_files_are_no_harness(world: EditingExperience, tmp_path: Path) -> None:
    (tmp_path / "mine" / ".git").mkdir(parents=True)
    (tmp_path / "mine" / ".git" / "HEAD").write_text("ref: refs/heads/main")
    assert called(world, "files").startswith("It has no files yet.")
    text = SKILL.replace("\n", "\r\n")
    assert called(world, "write_file", path="skills/press/SKILL.md", text=text).startswith("Done. ")
    assert texts_of(tmp_path / "mine") == {"skills/press/SKILL.md": SKILL}


@pytest.mark.usefixtures("bench_home")
def test_an_episode_whose_agent_looked_for_its_grade_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record([(planned("t"), Episode())])
    whole = Library.all_episodes
    world = EditingExperience(Library(), tmp_path / "mine")
    (shown,) = whole(Library(), Library().paths())
    assert shown.id in called(world, "episodes")
    monkeypatch.setattr(
        Library, "all_episodes", lambda *_: [replace(one, taint="tainted") for one in whole(*_)]
    )
    assert shown.id not in called(world, "episodes")
    assert called(world, "episode", id=shown.id) == f"refused: There is no episode {shown.id!r}."


@pytest.mark.usefixtures("bench_home")
def test_reasoning_that_is_found_is_shown(world: EditingExperience) -> None:
    said = Message(role="assistant", content="Sent.", reasoning="The cheapest courier suffices.")
    _, [episode] = record([(planned("t"), Episode(transcript=[said]))])
    found = called(world, "search", words="courier")
    number = found.partition("message ")[2].partition(" ")[0]
    _, _, message = called(world, "episode", id=episode).partition(f"[{number}] ")
    assert "The cheapest courier suffices." in message.partition("\n\n")[0]


@pytest.mark.anyio
@pytest.mark.usefixtures("bench_home")
async def test_a_replay_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another client reads, and edits, while it goes on."""
    _, [episode] = record([(planned("t"), Episode())])
    begun, over = anyio.Event(), threading.Event()
    token = anyio.lowlevel.current_token()

    def replay(*_: object) -> None:
        anyio.from_thread.run_sync(begun.set, token=token)
        over.wait()
        raise BenchError("no replay")

    monkeypatch.setattr(tools, "replay_of", replay)
    session = ManyReaders(EditingExperience(Library(), tmp_path / "mine"))
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.call, "episode", {"id": episode, "effects": True})
            await begun.wait()
            with anyio.fail_after(60):
                assert episode in (await session.call("episodes", {})).text
                written = await session.call("write_file", {"path": "memory/a.md", "text": "Press."})
                assert written.text.startswith("Done.")
            over.set()
    finally:
        over.set()


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("write_file", {"path": "README.md", "text": "x"}, "README.md is no part of a harness"),
    ("write_file", {"path": "../INSTRUCTIONS.md", "text": "x"}, "is no path of a file in the harness"),
    ("write_file", {"path": "/etc/passwd", "text": "x"}, "is no path of a file in the harness"),
    ("write_file", {"path": "memory/.x", "text": "x"}, "is no path of a file in the harness"),
    ("write_file", {"path": "skills/a/SKILL.md", "text": "x"}, "must say `name: a`"),
    ("write_file", {"path": "memory/a.md", "text": "\ud800"}, "Nothing was changed"),
    (
        "write_file",
        {"path": "agents.yaml", "text": "acp: {command: sh}"},
        "command belongs on the command line",
    ),
    ("write_file", {"path": "INSTRUCTIONS.md", "text": "x" * 20_000}, "every request carries them"),
    ("write_file", {"path": "INSTRUCTIONS.md/x", "text": "x"}, "is no part of a harness"),
    (
        "write_file",
        {"path": f"memory/{'x' * 300}.md", "text": "x"},
        "Nothing was changed: File name too long",
    ),
    ("edit_file", {"path": "INSTRUCTIONS.md", "old": "a", "new": "b"}, "has that part 2 times"),
    ("edit_file", {"path": "INSTRUCTION.md", "old": "a", "new": "b"}, "did you mean INSTRUCTIONS.md"),
    ("read_file", {"path": "none"}, "There is no file 'none'"),
    ("delete_file", {"path": "memory"}, "There is no file 'memory'"),
]


@pytest.mark.parametrize(("tool", "arguments", "reason"), REFUSED)
def test_what_would_break_it_is_refused(
    world: EditingExperience, tmp_path: Path, tool: str, arguments: dict[str, Any], reason: str
) -> None:
    write_texts(tmp_path / "mine", {"INSTRUCTIONS.md": "a a"})
    said = called(world, tool, **arguments)
    assert said.startswith("refused: ") and reason in said
    assert texts_of(tmp_path / "mine") == {"INSTRUCTIONS.md": "a a"}


@pytest.mark.parametrize("tool", ["files", "read_file", "write_file", "edit_file", "delete_file"])
def test_a_folder_that_is_no_harness_is_named(world: EditingExperience, tmp_path: Path, tool: str) -> None:
    write_texts(tmp_path / "mine", {"INSTRUCTIONS.md": "a"})
    (tmp_path / "mine" / "README.md").write_text("mine")
    arguments = {"write_file": {"text": "b"}, "edit_file": {"old": "a", "new": "b"}}.get(tool, {})
    place = {} if tool == "files" else {"path": "INSTRUCTIONS.md"}
    said = called(world, tool, **place, **arguments)
    assert said.startswith("refused: The folder has no harness that can be edited: mine/README.md is no part")


def test_what_a_stopped_call_left_is_replaced(tmp_path: Path) -> None:
    """It can be malformed: here a skill without its SKILL.md. Files of no harness stay."""
    (tmp_path / "skills" / "b").mkdir(parents=True)
    (tmp_path / "skills" / "b" / "more.md").write_text("x")
    (tmp_path / "README.md").write_text("mine")
    write_texts(tmp_path, {"INSTRUCTIONS.md": "a"})
    assert {one.name for one in tmp_path.rglob("*") if one.is_file()} == {"INSTRUCTIONS.md", "README.md"}


@given(path=st.text(max_size=30), text=st.text(max_size=30))
def test_any_path_and_text_leave_a_harness(tmp_path_factory: Any, path: str, text: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "any" / "mine"
    write_texts(folder, {"INSTRUCTIONS.md": "x"})
    called(EditingExperience(Library(), folder), "write_file", path=path, text=text)
    assert texts_of(folder)
    assert {one.name for one in folder.parent.iterdir()} == {"mine"}


def test_a_proposal_is_stored_and_the_last_one_counts(tmp_path: Path) -> None:
    offer = tmp_path / "offer.json"
    offer.write_text(json.dumps({"actions": ["harness", "stop"], "earlier": ["generation 1: refused"]}))
    world = ProposingExperience(Library(), tmp_path / "mine", offer)
    assert called(world, "earlier_proposals") == "generation 1: refused"
    assert called(world, "propose_training", reason="x").startswith("refused: This cannot be proposed now. ")
    assert called(world, "propose_harness", reason="y", expects="z").startswith("Thank you.")
    assert called(world, "stop", reason="enough").startswith("Thank you.")
    assert json.loads(offer.read_text())["proposed"] == {"action": "stop", "reason": "enough"}


def test_hidden_files_of_the_operator_stay(tmp_path: Path) -> None:
    """A harness may lie in a repository."""
    folder = tmp_path / "harness"
    write_texts(folder, {"INSTRUCTIONS.md": "one", "memory/a.md": "a"})
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref")
    write_texts(folder, {"INSTRUCTIONS.md": "two"})
    assert texts_of(folder) == {"INSTRUCTIONS.md": "two"}
    assert (folder / ".git" / "HEAD").read_text() == "ref"
