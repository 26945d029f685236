"""A YAML file: its content, and the lines of its keys for error texts.

Another person or an agent may have written it. YAML can name a part again, also within a part that is named
again: ten lines can mean a billion values. What a text means as a whole is therefore limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from mcp_bench.servers.errors import WrongUseError

Place = Sequence[str | int]
"""Keys and positions from the top of a file down to a value."""
MOST_VALUES = 100_000
"""That a text may have, keys included. A part counts wherever it is named."""


@dataclass(frozen=True)
class YamlFile:
    """A parsed file. Keys may have `_` in place of `-`."""

    path: Path
    content: Any
    root: yaml.Node

    def line(self, place: Place) -> int:
        """Return the line of a value, or that of the section that lacks it."""
        return self._nearest(place)[0]

    def key(self, place: Place) -> str:
        """Return a place in words, such as `agents[0].model`."""
        words = ""
        for part in place[: self._nearest(place)[1]]:
            words += f"[{part}]" if isinstance(part, int) else f".{part}" if words else part
        return words

    def _nearest(self, place: Place) -> tuple[int, int]:
        """Return the line of the last part of `place` that the file has, and the number of parts up to it."""
        node, line = self.root, self.root.start_mark.line
        for number, part in enumerate(place):
            if isinstance(node, yaml.MappingNode):
                # a merged mapping (<<) comes first, and the file's own keys override it
                found = next(
                    (pair for pair in reversed(node.value) if dashed(pair[0].value) == dashed(part)), None
                )
                if found is None:
                    return line + 1, number
                line, node = found[0].start_mark.line, found[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                line = node.start_mark.line
            else:
                return line + 1, number
        return line + 1, len(place)


def read_yaml(path: Path, hint: str = "") -> YamlFile:
    """Read a file with one mapping.

    Args:
        path: the file.
        hint: what the mapping is, or where that is described, for the error about a file without keys.

    Raises:
        WrongUseError: it cannot be read, is not YAML, or has a key twice; the text names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise WrongUseError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WrongUseError(f"{path}: not UTF-8: {error}") from error
    try:
        root, content = _parsed(text, lambda found: _refuse_repeated(path, found, set()))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}" if mark else ""
        raise WrongUseError(f"{path}{where}: not YAML: {error.problem or error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise WrongUseError(f"{path}: not YAML: {error}") from error
    if not isinstance(root, yaml.MappingNode):
        raise WrongUseError(f"{path}: the file has no keys: it must be a mapping{hint}")
    return YamlFile(path, content, root)


def load_yaml(text: str | bytes) -> Any:
    """Return what a text means; None if it is empty.

    Raises:
        YAMLError: it is not YAML, or means more than `MOST_VALUES` values.
        ValueError, RecursionError: it has a number or a date that Python cannot have, or is nested too deep.
    """
    return _parsed(text)[1]


def _parsed(
    text: str | bytes, check: Callable[[yaml.Node], object] = lambda _: None
) -> tuple[yaml.Node | None, Any]:
    """Return a text's top and what it means. `check` gets the top before that is made."""
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None, None
        if _size(root, {}) > MOST_VALUES:
            raise yaml.YAMLError(f"it has more than {MOST_VALUES:,} values")
        check(root)
        return root, loader.construct_document(root)
    finally:
        loader.dispose()


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """Return how many values a part means. `known` has those of parts that were met."""
    if (found := known.get(id(node))) is not None:
        return found
    known[id(node)] = MOST_VALUES + 1  # for a part that is named within itself
    inner: Iterable[yaml.Node] = ()
    if isinstance(node, yaml.MappingNode):
        inner = chain.from_iterable(node.value)
    elif isinstance(node, yaml.SequenceNode):
        inner = node.value
    size = 1 + sum(_size(one, known) for one in inner)
    known[id(node)] = size
    return size


def dashed(key: Any) -> Any:
    """Return a key as options are written, with `-`."""
    return key.replace("_", "-") if isinstance(key, str) else key


def _refuse_repeated(path: Path, node: yaml.Node, met: set[int]) -> None:
    """Refuse a key that occurs twice in a mapping. YAML forbids it; the parser would keep the last one."""
    if id(node) in met:  # an alias
        return
    met.add(id(node))
    if isinstance(node, yaml.MappingNode):
        keys: dict[str, int] = {}
        for key, value in node.value:
            name, line = dashed(key.value), key.start_mark.line + 1
            if isinstance(name, str) and name in keys:
                raise WrongUseError(f"{path}:{line}: {name} occurs twice (also in line {keys[name]})")
            if isinstance(name, str):
                keys[name] = line
            _refuse_repeated(path, value, met)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_repeated(path, item, met)
