"""A small harness, and a model that reads its skill."""

from __future__ import annotations

from pathlib import Path

from tests.support.model_endpoint.script import Script, ScriptedCall, Step

INSTRUCTIONS = 'Say "yes & no" \\ before — anything: §harness-seven. Mail @alice.'
FILES = {
    "INSTRUCTIONS.md": INSTRUCTIONS + "\n",
    "memory/once.md": "---\nepisodes: [ep_1]\n---\nOne press\nis enough.\n",
    "skills/press-well/SKILL.md": (
        "---\nname: press-well\ndescription: How to press a button.\n---\nPress once, softly.\n"
    ),
    "skills/press-well/references/force.md": "Two newtons.\n",
    "tools.yaml": "press: Press the button. It counts.\n",
    "agents.yaml": "chat: {max_steps: 7}\n",
    ".notes": "not a part of it",
}
PRESSED = Script(
    "press the button.",
    (
        Step((ScriptedCall("read_skill", {"name": "press-well"}),)),
        Step((ScriptedCall("press"),)),
        Step(text="Pressed once."),
    ),
)


def write_harness(folder: Path, **changed: str | None) -> Path:
    """Write the harness, with other files by path (`/` as `__`, without the ending); None leaves one out."""
    others = {
        path: changed.get(path.partition(".")[0].replace("/", "__"), text) for path, text in FILES.items()
    }
    for path, text in others.items():
        if text is not None:
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
    return folder
