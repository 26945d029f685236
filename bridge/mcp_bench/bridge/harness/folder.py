"""A harness as a folder of texts, and as what is stored with a run.

    my-harness/
      INSTRUCTIONS.md         always in the model's context
      memory/TIP.md           one tip; its frontmatter can name the `episodes` that it rests on
      skills/NAME/SKILL.md    a skill, by the standard of agentskills.io; the model reads it when it needs it
      skills/NAME/...         other files of the skill
      recall/NAME.md          a solved task, which the tool `recall` finds; its frontmatter can name the task
      tools.yaml              tool: its description
      agents.yaml             agent: {option: value}

Everything is optional. The version is a hash of all paths and texts, so the same folder is the same version
everywhere.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from mcp_bench.bridge.harness.recall import Recalled
from mcp_bench.recorder.run_settings import RunSettings, StoredHarness
from mcp_bench.servers.errors import WrongUseError, suggestion
from mcp_bench.servers.yaml_file import load_yaml

MOST_BYTES = 256 << 10
"""Of all files together: the folder is stored with each run."""
MOST_INSTRUCTION_BYTES = 16 << 10
"""Of what is always in the model's context: instructions, tips, and the list of skills."""
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
"""Of a skill (https://agentskills.io/specification)."""
FOLDER_NAME = re.compile(r"[\w.-]+")
"""Reports name a harness among other words."""
OF_OPERATOR = ("command", "file", "login", "login_method", "mode", "provider")
"""Agent options that choose what is started, lent, sent to an endpoint (a provider's key), or done without
asking (a mode). An agent may have written the harness, so they belong on the command line."""
MOST_NAME, MOST_DESCRIPTION = 64, 1024
INSTRUCTIONS, TOOLS, AGENTS, SKILL = "INSTRUCTIONS.md", "tools.yaml", "agents.yaml", "SKILL.md"
KNOWN = (INSTRUCTIONS, TOOLS, AGENTS, "memory", "skills", "recall")
FRONTMATTER = re.compile(r"---[ \t]*\n(?P<yaml>.*?)^---[ \t]*(?:\n(?P<text>.*)|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Skill:
    """Instructions for one kind of work, and files that belong to them."""

    name: str
    description: str
    text: str
    """SKILL.md without its frontmatter."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The other files, by their path in the skill's folder."""


@dataclass(frozen=True)
class Harness:
    """A checked harness.

    Raises:
        WrongUseError: a file is not part of a harness, or is malformed.
    """

    name: str
    files: Mapping[str, str]
    """Texts by their path in the folder, with `/`."""

    def __post_init__(self) -> None:
        if not FOLDER_NAME.fullmatch(self.name):
            raise WrongUseError(
                f"a harness's folder has a name of letters, digits, dots, hyphens and underscores, and this "
                f"one is {self.name!r}: rename it"
            )
        for path in self.files:
            first = PurePosixPath(path).parts[0]
            if first not in KNOWN or (first in KNOWN[:3]) != (first == path):
                raise WrongUseError(f"{self.name}/{path} is no part of a harness{suggestion(first, KNOWN)}")
        size = sum(len(text.encode()) for text in self.files.values())
        if size > MOST_BYTES:
            raise WrongUseError(f"{self.name} has {size} bytes; a harness has at most {MOST_BYTES}")
        size = len(self.instructions.encode())
        if size > MOST_INSTRUCTION_BYTES:
            raise WrongUseError(
                f"{self.name}: instructions, tips and the list of skills have {size} bytes together. At most "
                f"{MOST_INSTRUCTION_BYTES} are allowed, since every request carries them: make skills of them"
            )
        _ = self.descriptions, self.agents, self.recalled

    @cached_property
    def version(self) -> str:
        """Twelve hexadecimal digits of a SHA-256 over all paths and texts."""
        found = hashlib.sha256()
        for path in sorted(self.files):
            for part in (path.encode(), self.files[path].encode()):
                found.update(len(part).to_bytes(8, "little") + part)
        return found.hexdigest()[:12]

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    @cached_property
    def skills(self) -> Mapping[str, Skill]:
        folders: dict[str, dict[str, str]] = {}
        for path, text in sorted(self.files.items()):
            first, *below = PurePosixPath(path).parts
            if first == "skills":
                if len(below) < 2:
                    raise WrongUseError(f"{self.name}/{path}: a skill is a folder with {SKILL}")
                folders.setdefault(below[0], {})["/".join(below[1:])] = text
        return {name: self._skill(name, texts) for name, texts in folders.items()}

    def _skill(self, name: str, texts: dict[str, str]) -> Skill:
        where = f"{self.name}/skills/{name}/{SKILL}"
        if SKILL not in texts:
            raise WrongUseError(f"{where} is missing")
        if len(name) > MOST_NAME or not NAME.fullmatch(name):
            raise WrongUseError(
                f"{where}: a skill's name has at most {MOST_NAME} characters: lower-case letters, digits and "
                "single hyphens"
            )
        about, text = _frontmatter(where, texts.pop(SKILL))
        if about.get("name") != name:
            written = name if _plain(name) else f'"{name}"'
            raise WrongUseError(f"{where}: its frontmatter must say `name: {written}`, the folder's name")
        description = about.get("description")
        if not isinstance(description, str) or not 0 < len(description) <= MOST_DESCRIPTION:
            raise WrongUseError(
                f"{where}: its frontmatter needs a description of at most {MOST_DESCRIPTION} characters"
            )
        return Skill(name, " ".join(description.split()), text.strip(), texts)

    @cached_property
    def tips(self) -> Mapping[str, str]:
        """Tips without their frontmatter, by their path."""
        return {
            path: _frontmatter(f"{self.name}/{path}", text)[1].strip()
            for path, text in sorted(self.files.items())
            if path.startswith("memory/")
        }

    @cached_property
    def recalled(self) -> Mapping[str, Recalled]:
        """What the tool `recall` finds, by the path."""
        found = {}
        for path, text in sorted(self.files.items()):
            if path.startswith("recall/"):
                about, body = _frontmatter(f"{self.name}/{path}", text)
                task = about.get("task", "")
                if not isinstance(task, str):
                    raise WrongUseError(
                        f"{self.name}/{path}: `task` in its frontmatter is no word. A number needs quotes"
                    )
                found[path] = Recalled(body.strip(), task)
        return found

    @cached_property
    def instructions(self) -> str:
        """What is always in the model's context."""
        parts = [self.files.get(INSTRUCTIONS, "").strip()]
        if tips := [" ".join(tip.split()) for tip in self.tips.values() if tip]:
            parts.append("\n".join(["Lessons from earlier tasks:", *(f"- {tip}" for tip in tips)]))
        if self.skills:
            parts.append(
                "\n".join(
                    [
                        "Skills. When one of them fits, read it with the tool `read_skill` before you act:",
                        *(f"- {skill.name}: {skill.description}" for skill in self.skills.values()),
                    ]
                )
            )
        if self.recalled:
            parts.append("The tool `recall` finds solved tasks that resemble yours.")
        return "\n\n".join(filter(None, parts))

    @cached_property
    def descriptions(self) -> Mapping[str, str]:
        """Descriptions of tools that replace the world's, by the tool's name."""
        found = self._mapping(TOOLS)
        for tool, text in found.items():
            if not isinstance(text, str) or not text.strip():
                raise WrongUseError(f"{self.name}/{TOOLS}: {tool} needs a description")
        return {str(tool): str(text).strip() for tool, text in found.items()}

    @cached_property
    def agents(self) -> Mapping[str, Mapping[str, str]]:
        """Options by the agent's name, as for `--agent-option`."""
        found = self._mapping(AGENTS)
        for agent, options in found.items():
            if not isinstance(options, dict):
                raise WrongUseError(f"{self.name}/{AGENTS}: {agent} needs options, as `option: value`")
            for key, value in options.items():
                if key in OF_OPERATOR:
                    raise WrongUseError(
                        f"{self.name}/{AGENTS}: {key} belongs on the command line: --agent-option"
                    )
                if not isinstance(value, (str, int, float)):
                    raise WrongUseError(f"{self.name}/{AGENTS}: {agent}.{key} needs a word or a number")
        return {
            str(agent): {str(key): _word(value) for key, value in options.items()}
            for agent, options in found.items()
        }

    def _mapping(self, path: str) -> dict[Any, Any]:
        return _parsed(f"{self.name}/{path}", self.files.get(path, ""))

    def stored(self) -> StoredHarness:
        """Return what is stored with a run."""
        return StoredHarness(name=self.name, version=self.version, files=dict(self.files))


def read_harness(folder: Path) -> Harness:
    """Read a harness. Hidden files are left out.

    Raises:
        WrongUseError: it cannot be read, or is malformed.
    """
    if not folder.is_dir():
        raise WrongUseError(
            f"{folder} is no folder: a harness is a folder with {INSTRUCTIONS} and other files"
        )
    files = files_of(folder)
    if not files:
        raise WrongUseError(f"{folder} is empty: a harness has at least one of {', '.join(KNOWN)}")
    return Harness(folder.resolve().name, files)


def texts_of(folder: Path) -> dict[str, str]:
    """Return the texts of a harness by path; none if it is empty, or not there.

    Raises:
        WrongUseError: it cannot be read, or is malformed.
    """
    files = files_of(folder)
    return dict(Harness(folder.resolve().name, files).files) if files else {}


def files_of(folder: Path) -> dict[str, str]:
    """Return all texts in a folder by path, whether they are a harness or not. Hidden files are left out.

    Raises:
        WrongUseError: one cannot be read, or they are too large for a harness.
    """
    files: dict[str, str] = {}
    size = 0
    for path in sorted(folder.rglob("*")):
        below = path.relative_to(folder)
        if any(part.startswith(".") for part in below.parts) or (path.is_dir() and not path.is_symlink()):
            continue
        try:
            str(below).encode()
        except UnicodeEncodeError as error:
            raise WrongUseError(f"the name of {str(path)!a} is not UTF-8: rename it") from error
        if path.is_symlink() or not path.is_file():
            raise WrongUseError(f"{path} is a link or no plain file: a harness holds its texts itself")
        try:
            size += path.stat().st_size
            if size > MOST_BYTES:
                raise WrongUseError(f"{folder} has more than the {MOST_BYTES} bytes of a harness")
            files[below.as_posix()] = path.read_text(encoding="utf-8")
        except OSError as error:
            raise WrongUseError(f"cannot read {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise WrongUseError(f"{path}: not UTF-8: {error}") from error
    return files


def stored_harness(settings: RunSettings) -> Harness | None:
    """Return the harness that a run was started with, from its settings."""
    stored = settings.harness
    return None if stored is None else Harness(stored.name, stored.files)


def _frontmatter(where: str, text: str) -> tuple[dict[Any, Any], str]:
    """Return the YAML between the first two lines of `---`, and the text after it."""
    found = FRONTMATTER.match(text)
    return (_parsed(where, found["yaml"]), found["text"] or "") if found else ({}, text)


def _parsed(where: str, text: str) -> dict[Any, Any]:
    try:
        found = load_yaml(text) or {}
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise WrongUseError(
            f"{where}{f':{mark.line + 1}' if mark else ''}: not YAML: {error.problem}"
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise WrongUseError(f"{where}: not YAML: {error}") from error
    if not isinstance(found, dict):
        raise WrongUseError(f"{where}: it must be a mapping, as `name: value`")
    return found


def _plain(word: str) -> bool:
    """Return whether YAML reads a word without quotes as it stands: not as a number, a date or `false`."""
    try:
        return bool(yaml.safe_load(word) == word)
    except ValueError:  # such as the date 2024-99-99
        return False


def _word(value: Any) -> str:
    try:
        return str(value).lower() if isinstance(value, bool) else str(value)
    except ValueError as error:  # Python writes no number of thousands of digits
        raise WrongUseError(f"{AGENTS}: a number is too long: {error}") from None
