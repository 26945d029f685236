"""Tools that edit a harness, and with which an agent says what should be tried next.

They are for an agent that read the recordings (`tools.Experience`). A change that would leave a malformed
harness is refused, with the reason. A proposal decides nothing: `mcp-bench improve` measures it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import Field

from mcp_bench.bridge.experience.tools import Experience
from mcp_bench.bridge.harness.folder import KNOWN, Harness, files_of, texts_of
from mcp_bench.bridge.viewer.recordings import Library
from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.servers.errors import WrongUseError, suggestion
from mcp_bench.servers.sdk import RefusedError, tool

Action = Literal["harness", "train", "rl", "stop"]
Share = Annotated[float, Field(ge=0, le=1)]
Reason = Annotated[str, Field(min_length=1, max_length=2000)]


class EditingExperience(Experience):
    """Recordings to read, and a harness to edit."""

    def __init__(self, library: Library, folder: Path, **shown: Any) -> None:
        """Edit the harness in `folder`, which can be empty. `shown` is passed to `Experience`."""
        super().__init__(library, **shown)
        self._folder = folder

    @tool
    def files(self) -> str:
        """List the files of the harness that you edit.

        INSTRUCTIONS.md is always in the agent's context, and so is every lesson, a file memory/NAME.md. A
        skill is a folder skills/NAME/ whose SKILL.md begins with a frontmatter of `name` and `description`;
        the agent reads it when it needs it. tools.yaml has descriptions of tools (`tool: text`), and
        agents.yaml has options of agents (`agent: {option: value}`).
        """
        found = self._texts()
        if not found:
            return f"It has no files yet. It can have {', '.join(KNOWN)}."
        return "\n".join(f"{path} ({len(text.encode())} bytes)" for path, text in found.items())

    @tool
    def read_file(self, path: str) -> str:
        """Return a file of the harness."""
        return self._text(path)

    @tool
    def write_file(self, path: str, text: str) -> str:
        """Write a file of the harness, or replace it."""
        return self._change({**self._texts(), _place(path): text})

    @tool
    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace a part of a file.

        Args:
            path: the file.
            old: the part; it must be in the file exactly once.
            new: what comes in its place.
        """
        text = self._text(path)
        if (count := text.count(old)) != 1 or not old:
            raise RefusedError(f"{path} has that part {count} times; it must be there exactly once.")
        return self._change({**self._texts(), _place(path): text.replace(old, new)})

    @tool
    def delete_file(self, path: str) -> str:
        """Delete a file of the harness, or a folder with all its files."""
        place, found = _place(path), self._texts()
        kept = {
            name: text for name, text in found.items() if name != place and not name.startswith(f"{place}/")
        }
        if len(kept) == len(found):
            raise RefusedError(f"There is no file {path!r}{suggestion(path, found)}.")
        return self._change(kept)

    def _texts(self) -> dict[str, str]:
        try:
            return texts_of(self._folder)
        except WrongUseError as error:  # somebody else changed it
            raise RefusedError(f"The folder has no harness that can be edited: {error}") from error

    def _text(self, path: str) -> str:
        found = self._texts()
        if _place(path) not in found:
            raise RefusedError(f"There is no file {path!r}{suggestion(path, found)}.")
        return found[_place(path)]

    def _change(self, texts: Mapping[str, str]) -> str:
        """Make the folder hold these texts, if they are a harness."""
        texts = {path: text.replace("\r\n", "\n") for path, text in texts.items()}  # as it is read again
        try:
            changed = Harness(self._folder.name, texts)
            version, _, _ = changed.version, changed.skills, changed.tips
            for text in texts.values():
                text.encode()  # no lone surrogates
        except (WrongUseError, UnicodeEncodeError) as error:
            raise RefusedError(f"Nothing was changed: {error}") from error
        try:
            write_texts(self._folder, texts)
        except OSError as error:  # a name that is too long, or both a file and a folder
            raise RefusedError(f"Nothing was changed: {error.strerror}.") from error
        return f"Done. The harness is now version {version}, with {len(texts)} files."


class ProposingExperience(EditingExperience):
    """What `mcp-bench improve` gives to the agent that proposes the next change."""

    def __init__(self, library: Library, folder: Path, proposal: Path, **shown: Any) -> None:
        """Write what the agent proposes to the file `proposal`.

        Until then, the file has `actions`, the allowed ones, and `earlier`, lines about earlier proposals.
        """
        super().__init__(library, folder, **shown)
        self._proposal = proposal
        self._offer: dict[str, Any] = json.loads(proposal.read_text(encoding="utf-8"))

    @tool
    def earlier_proposals(self) -> str:
        """Return what was proposed before, and what became of it."""
        return "\n".join(self._offer["earlier"]) or "Nothing was proposed before."

    @tool
    def propose_harness(self, reason: Reason, expects: str = "") -> str:
        """Propose the harness as you have edited it. It is measured on tasks that you cannot see.

        Args:
            reason: what in the recordings it rests on.
            expects: which tasks should go better.
        """
        return self._propose("harness", reason, expects=expects)

    @tool
    def propose_training(self, reason: Reason, min_partial: Share = 0.5, best: int = 2) -> str:
        """Propose to train the agent's model on its own best episodes of train.

        Args:
            reason: what in the recordings it rests on.
            min_partial: the lowest partial score of an episode to train on.
            best: how many episodes of each task.
        """
        return self._propose("train", reason, min_partial=min_partial, best=max(1, best))

    @tool
    def propose_learning(self, reason: Reason) -> str:
        """Propose to let the agent's model learn from the rewards of new attempts at training tasks.

        Args:
            reason: what in the recordings it rests on: tasks that it solves sometimes.
        """
        return self._propose("rl", reason)

    @tool
    def stop(self, reason: Reason) -> str:
        """Say that nothing is left to improve."""
        return self._propose("stop", reason)

    def _propose(self, action: Action, reason: str, **more: Any) -> str:
        allowed: Sequence[str] = self._offer["actions"]
        if action not in allowed:
            raise RefusedError(f"This cannot be proposed now. Possible: {', '.join(allowed)}.")
        proposed = {"action": action, "reason": reason, **more}
        write_atomic(self._proposal, json.dumps({**self._offer, "proposed": proposed}, indent=1) + "\n")
        return "Thank you. It will be measured. The last proposal counts."


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Replace a harness by these texts, file by file. It may be malformed, as a stopped call leaves it.

    Files that belong to no harness, such as a repository's, stay.
    """
    before = files_of(folder)
    for path in before.keys() - texts.keys():
        if path.partition("/")[0] in KNOWN:
            (folder / path).unlink(missing_ok=True)
    for path, text in texts.items():
        if before.get(path) != text:
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(place, text)
    folder.mkdir(parents=True, exist_ok=True)


def _place(path: str) -> str:
    """Return a path as a harness has it.

    Raises:
        RefusedError: it leads outside the folder, or to a hidden file.
    """
    parts = PurePosixPath(path).parts
    if not parts or any(part.startswith((".", "/")) or "\0" in part for part in parts):
        raise RefusedError(f"{path!r} is no path of a file in the harness.")
    return "/".join(parts)
