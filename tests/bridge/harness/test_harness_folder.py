"""A harness is read from a folder, and a malformed one is refused with the file's name."""

import os
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.bridge.harness.folder import MOST_BYTES, Harness, read_harness, stored_harness
from mcp_bench.bridge.harness.world import equipped
from mcp_bench.recorder.run_settings import RunSettings
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.worlds.simple import SimpleWorld
from tests.support.harness_folder import FILES, INSTRUCTIONS, write_harness

pytestmark = pytest.mark.unit

TEXTS = st.dictionaries(
    st.sampled_from(["INSTRUCTIONS.md", "memory/a.md", "memory/b.md"]), st.text(max_size=20), min_size=1
)


def test_a_folder_becomes_what_the_agent_gets(tmp_path: Path) -> None:
    found = read_harness(write_harness(tmp_path / "calm"))
    assert found.name == "calm"
    assert found.instructions == (
        f"{INSTRUCTIONS}\n\nLessons from earlier tasks:\n- One press is enough.\n\n"
        "Skills. When one of them fits, read it with the tool `read_skill` before you act:\n"
        "- press-well: How to press a button."
    )
    skill = found.skills["press-well"]
    assert (skill.text, dict(skill.files)) == (
        "Press once, softly.",
        {"references/force.md": "Two newtons.\n"},
    )
    assert found.descriptions == {"press": "Press the button. It counts."}
    assert found.agents == {"chat": {"max_steps": "7"}}
    assert ".notes" not in found.files
    assert stored_harness(RunSettings(harness=found.stored())) == found


@given(one=TEXTS, other=TEXTS)
def test_equal_versions_have_equal_texts(one: dict[str, str], other: dict[str, str]) -> None:
    first, second = (
        Harness("h", {p: t.replace("---", "") for p, t in texts.items()}) for texts in (one, other)
    )
    assert (first.version == second.version) == (first.files == second.files)
    assert Harness("another", first.files).version == first.version


SKILL = FILES["skills/press-well/SKILL.md"]
WRONG = {
    "another file": ({"README.md": "x"}, "README.md is no part of a harness"),
    "a near name": ({"skill/a/SKILL.md": "x"}, "did you mean skills"),
    "a skill without a folder": ({"skills/press.md": "x"}, "skills/press.md: a skill is a folder"),
    "a skill without its file": ({"skills/a/b.md": "x"}, "skills/a/SKILL.md is missing"),
    "a skill's odd name": ({"skills/A b/SKILL.md": SKILL}, "lower-case letters"),
    "another name inside": ({"skills/other/SKILL.md": SKILL}, "must say `name: other`"),
    "another number inside": ({"skills/17/SKILL.md": SKILL}, 'must say `name: "17"`'),
    "a number as a name": ({"skills/1e3/SKILL.md": "---\nname: 1.0e+3\n---\nx"}, "must say `name: 1e3`"),
    "a date as a name": (
        {"skills/2024-01-01/SKILL.md": "---\nname: 2024-01-01\n---\nx"},
        'must say `name: "2024-01-01"`',
    ),
    "no date as a name": ({"skills/2024-99-99/SKILL.md": SKILL}, 'must say `name: "2024-99-99"`'),
    "a truth as a name": ({"skills/no/SKILL.md": "---\nname: no\n---\nx"}, 'must say `name: "no"`'),
    "a number as a task": ({"recall/a.md": "---\ntask: 17\n---\nsolved"}, "needs quotes"),
    "no description": ({"skills/a/SKILL.md": "---\nname: a\n---\nx"}, "needs a description"),
    "broken YAML": ({"tools.yaml": "press: x\n  y: ["}, r"tools.yaml:2: not YAML"),
    "a list": ({"agents.yaml": "- chat"}, "must be a mapping"),
    "a part that is named within itself": ({"tools.yaml": "press: &a {x: *a}"}, "more than 100,000 values"),
    "no options": ({"agents.yaml": "chat: 7"}, "chat needs options"),
    "a choice of the operator": (
        {"agents.yaml": "acp: {command: evil}"},
        "command belongs on the command line",
    ),
    "another provider's key": (
        {"agents.yaml": "chat: {provider: anthropic}"},
        "provider belongs on the command line",
    ),
    "a mode that asks nobody": (
        {"agents.yaml": "acp: {mode: bypassPermissions}"},
        "mode belongs on the command line",
    ),
    "an endless number": ({"agents.yaml": f"chat: {{temperature: 0x{'f' * 5000}}}"}, "a number is too long"),
    "a task that is no word": ({"recall/a.md": "---\ntask: [t]\n---\nsolved"}, "is no word"),
    "an option without a value": (
        {"agents.yaml": "codex: {effort: }"},
        "codex.effort needs a word or a number",
    ),
    "an empty description": ({"tools.yaml": "press: ''"}, "press needs a description"),
    "long instructions": ({"INSTRUCTIONS.md": "x" * 20_000}, "every request carries them"),
    "a large folder": ({"skills/a/b": "x" * (MOST_BYTES + 1)}, f"at most {MOST_BYTES}"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_malformed_harness_is_refused(name: str) -> None:
    files, expected = WRONG[name]
    with pytest.raises(WrongUseError, match=expected):
        Harness("calm", files)


def test_a_folder_with_odd_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongUseError, match="is no folder"):
        read_harness(tmp_path / "none")
    folder = tmp_path / "odd"
    folder.mkdir()
    with pytest.raises(WrongUseError, match="is empty"):
        read_harness(folder)
    (folder / "INSTRUCTIONS.md").symlink_to("/etc/hostname")
    with pytest.raises(WrongUseError, match="is a link"):
        read_harness(folder)
    (folder / "INSTRUCTIONS.md").unlink()
    (folder / "INSTRUCTIONS.md").write_bytes(b"\xff\xfe")
    with pytest.raises(WrongUseError, match="not UTF-8"):
        read_harness(folder)


def test_a_file_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    folder = write_harness(tmp_path / "calm")
    (folder / "memory" / os.fsdecode(b"caf\xe9.md")).write_text("a tip")
    with pytest.raises(WrongUseError, match="is not UTF-8: rename it"):
        read_harness(folder)


def test_a_name_that_reports_cannot_read_is_refused() -> None:
    with pytest.raises(WrongUseError, match="rename it"):
        Harness("my harness", {"INSTRUCTIONS.md": "x"})


def test_a_skill_can_end_after_its_frontmatter() -> None:
    found = Harness("calm", {"skills/a/SKILL.md": "---\nname: a\ndescription: b\n---"})
    assert found.skills["a"].text == ""


@pytest.mark.parametrize("limit", [1, 1.0])
def test_recall_takes_any_whole_number(limit: float) -> None:
    """JSON Schema makes no difference between 1 and 1.0."""
    world = equipped(SimpleWorld(), Harness("h", {f"recall/{name}.md": f"pay {name}" for name in "ab"}))
    found = anyio.run(world.call, "recall", {"words": "pay", "limit": limit})
    assert found.text == "pay a"
