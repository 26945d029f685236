"""Find the folders of loops, improvements and training runs, and the data sets that exports wrote.

The trainer is another distribution, and need not be installed here. Its folders are read by their files, as
`docs/training/` and `docs/data/` describe them. Every file can be missing or cut off: a loop that goes on is
shown as far as it came.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mcp_bench.bridge.viewer.training.facts import Facts, as_object, objects, read_object, scores_in
from mcp_bench.recorder.files.layout import common_name
from mcp_bench.recorder.paths import is_there
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.home import home

Kind = Literal["loop", "improve", "sft", "rl", "data"]
HOME_FOLDERS = ("loops", "training", "learning", "ablations")
MANIFEST = ".manifest.json"
DEPTH = 6
"""Folders below a given one that are looked through."""
MOST_FOLDERS = 5_000
_OF_TRAINING = {"runs", "cache", "model", "checkpoints", "steps", "serving"}
"""Folders of a loop or a training run that hold weights or recordings. Others can have such names, too."""
_PARTS = ("turn-", "generation-", "seed-")
"""What folders in a loop, in an improvement and in an arm of an ablation are called."""
_OF_THE_HOME = ("runs", "cache")


@dataclass(frozen=True, slots=True)
class Found:
    """A loop, an improvement, a training run or a data set.

    `path` is its folder, or the manifest of a data set.
    """

    kind: Kind
    path: Path
    changed: float
    """Seconds since the epoch."""

    @property
    def key(self) -> str:
        """What its address has for it: the same as long as it stays where it is."""
        return hashlib.sha256(os.fsencode(self.path)).hexdigest()[:12]

    @property
    def name(self) -> str:
        """The last parts of its path, which usually say what it is."""
        above = self.path.parent
        parts = [self.path.name.removesuffix(MANIFEST), above.name]
        parts += [above.parent.name] if above.name.startswith(_PARTS) else []
        return "/".join(part for part in reversed(parts) if part)


class TrainingFiles:
    """Looks through the home and the folders that a user named."""

    def __init__(self, given: Sequence[Path] = ()) -> None:
        self._given = [_plain(path) for path in given]

    def all(self) -> list[Found]:
        """Return what is there now, newest first."""
        roots = [*self._given, *(home().absolute() / name for name in HOME_FOLDERS)]
        found = {one.path: one for root in roots for one in _below(root)}
        for one in list(found.values()):
            for path in data_files(one) if one.kind in ("sft", "loop") else ():
                manifest = manifest_of(path)
                if manifest not in found and is_file(manifest):
                    found[manifest] = Found("data", manifest, _changed(manifest))
        return sorted(found.values(), key=lambda one: (-one.changed, one.path))

    def find(self, key: str) -> Found:
        """Return the one with this key.

        Raises:
            KeyError: there is none.
        """
        for one in self.all():
            if one.key == key:
                return one
        raise KeyError(key)

    def maker(self, model: Path) -> Found | None:
        """Return the loop, improvement or training run in whose folder a model lies."""
        owners = [one for one in self.all() if one.kind != "data" and model.is_relative_to(one.path)]
        return max(owners, key=lambda one: len(one.path.parts), default=None)


def place_of(what: str | None) -> tuple[str, Path] | None:
    """Return the page of a path that a user named, and where to look for it; None if it is no path.

    Raises:
        WrongUseError: there is something else, or it cannot be seen.
    """
    if what is None or not is_there(path := _plain(Path(what))):
        return None
    place = manifest_of(path) if path.is_file() and not path.name.endswith(MANIFEST) else path
    if (kind := kind_of(place)) is not None:
        return f"/{'data' if kind == 'data' else 'training'}/{Found(kind, place, 0.0).key}", place
    if path.is_dir():
        return "/training", path
    raise WrongUseError(f"{what} has no manifest beside it ({place.name}): name a data set that export wrote")


def kind_of(path: Path) -> Kind | None:
    """Return what a folder or a file is, if it is something of training."""
    if path.name.endswith(MANIFEST):
        return "data" if is_file(path) else None
    if is_file(path / "loop.json"):
        return "loop"
    if is_file(path / "improve.json"):
        return "improve"
    if is_file(path / "data.json") and is_file(path / "recipe.yaml"):
        return "sft"
    if is_file(path / "settings.json") and is_file(path / "recipe.yaml"):
        return "rl"
    return None


def _below(root: Path) -> Iterator[Found]:
    if (kind := kind_of(root)) == "data":
        yield Found(kind, root, _changed(root))
        return
    queue, seen = [(root, 0, False, False)], 0
    of_the_home = {home().absolute() / name for name in _OF_THE_HOME}
    while queue and seen < MOST_FOLDERS:
        folder, depth, in_training, in_loop = queue.pop(0)
        seen += 1
        kind = kind_of(folder)
        if kind is not None and not (in_loop and kind == "sft"):  # a turn's training is a part of its loop
            yield Found(kind, folder, _changed(folder))
        in_training, in_loop = in_training or kind is not None, in_loop or kind == "loop"
        with suppress(OSError):
            for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
                path = Path(entry.path)
                if entry.name.endswith(MANIFEST) and entry.is_file():
                    yield Found("data", path, _changed(path))
                    continue
                passed_by = entry.name.startswith(".") or entry.name == "node_modules" or path in of_the_home
                if passed_by or (in_training and entry.name in _OF_TRAINING) or depth >= DEPTH:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    queue.append((path, depth + 1, in_training, in_loop))


def files_of(path: Path) -> list[tuple[str, int, int]]:
    """Return the files that a folder's page is made from, with their sizes and times."""
    found = []
    for pattern in (
        "*.json*",
        "*/*.json*",
        "*/train/metrics.jsonl",
        "*/learn/metrics.jsonl",
        "steps/*/dev.json",
    ):
        for one in path.glob(pattern):
            with suppress(OSError):
                stat = one.stat()
                found.append((str(one), stat.st_size, stat.st_mtime_ns))
    return sorted(found)


def _changed(path: Path) -> float:
    """Return when something happened there; 0 if that cannot be read."""
    times = [0.0]
    for one in (path, path / "metrics.jsonl", path / "history.json"):
        with suppress(OSError):
            times.append(one.stat().st_mtime)
    return max(times)


# Files ---------------------------------------------------------------------------------------------


def data_files(found: Found) -> list[Path]:
    """Return the data sets that a training run, or each turn of a loop, learned from."""
    if found.kind == "loop":
        return [located(path, found.path) for turn in turns(found.path) if (path := turn.curate.get("data"))]
    files = objects(read_object(found.path / "data.json")["files"])
    return [located(one["path"], found.path) for one in files if one["path"]]


def manifest_of(data: Path) -> Path:
    """Return where the manifest of a data set or of one of its shards is, if it has one."""
    own = data.parent / (data.name + MANIFEST)
    return own if is_file(own) else data.parent / (common_name(data.name) + MANIFEST)


def located(place: object, folder: Path) -> Path:
    """Return the path that a file in a folder of training names.

    A relative one is of the directory in which training was started: most often the folder is below it.
    """
    path = Path(str(place))
    if path.is_absolute():
        return _plain(path)
    with suppress(OSError):  # the name is too long
        places = (above / path for above in (folder, *folder.parents))
        return next((_plain(found) for found in places if found.exists()), path)
    return path


def _plain(path: Path) -> Path:
    """Return an absolute path, without `..` if it leads to the same: training may be started on `../data`."""
    plain = os.path.abspath(path)  # noqa: PTH100 - `absolute` keeps `..`
    with suppress(ValueError):  # no path can be like this
        if os.path.realpath(plain) == os.path.realpath(path):
            return Path(plain)
    return path.absolute()


def is_file(path: Path) -> bool:
    """Return whether there is such a file; also of a path that cannot be, or may not be seen."""
    try:
        return path.is_file()
    except OSError:
        return False


# Loops ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turn:
    """The results of a turn's steps, each an empty object until it is done. Turn 0 is the base model."""

    number: int
    folder: Path
    attempt: Facts
    teach: Facts
    curate: Facts
    train: Facts
    measure: Facts
    flips: Facts
    gate: Facts

    @property
    def name(self) -> str:
        return f"turn {self.number}" if self.number else "base"

    @property
    def model(self) -> str:
        return str(self.measure.get("model") or self.train.get("model") or "")

    @property
    def promoted(self) -> bool:
        return not self.number or bool(self.gate.get("promoted"))

    @property
    def training(self) -> Path:
        """The folder of its training run."""
        online = self.folder / "learn"  # from reward
        return online if online.is_dir() else self.folder / "train"

    @property
    def doing(self) -> str:
        """What a turn does that has not ended."""
        if self.gate or (not self.number and self.measure):
            return ""
        steps = [
            ("measuring", self.train or not self.number),
            ("training", self.curate or self.training.is_dir()),
            ("collecting data", True),
        ]
        return next(words for words, begun in steps if begun)

    def scores(self, split: str) -> Facts:
        found = self.measure.get(split) or read_object(self.folder / f"measure-{split}.json")
        return scores_in(as_object(found))


STEPS = ("attempt", "teach", "curate", "train", "measure", "flips", "gate")


def turns(loop: Path) -> list[Turn]:
    """Return the base and the turns of a loop that have begun."""
    names = [path.name.removeprefix("turn-") for path in loop.glob("turn-*")]
    numbers = [int(name) for name in names if name.isdecimal()]
    folders = {at: loop / f"turn-{at}" for at in sorted(numbers)}
    return [
        Turn(at, folder, *(read_object(folder / f"{step}.json") for step in STEPS))
        for at, folder in folders.items()
    ]
