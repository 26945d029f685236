"""The tasks that an option names: so many of a split, or those in a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from os.path import exists, isfile
from pathlib import Path
from textwrap import shorten
from typing import Any

from mcp_bench.servers.contracts import Benchmark
from mcp_bench.servers.errors import WrongUseError

SPLITS = ("train", "dev", "test")


def stored_name(benchmark: str) -> str:
    """Return a benchmark's name as runs store it: that of a folder has the whole path.

    So it is found again from any working directory.

    Raises:
        UnknownNameError: there is no such benchmark.
        BenchError: its folder does not fit, or it cannot be loaded.
    """
    from mcp_bench.servers.registry import load

    found: Benchmark = load("benchmark", benchmark)
    return found.name


def as_given(choices: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what stands for the tasks of each split until they are built, which takes long for many.

    So everything else is checked first.

    Raises:
        WrongUseError: an option has neither a number of tasks nor a readable file of ids.
    """
    for split in SPLITS:
        check_named(choices[split], f"--{split}")
    return {split: [str(choices[split])] for split in SPLITS}


def check_named(wanted: str | int | Path | Sequence[str], option: str) -> None:
    """Check that an option has a number of tasks or a readable file. A pipe can be read only once: it is not.

    Raises:
        WrongUseError: it has neither.
    """
    # Path's own methods raise for a text that is too long for a name
    if isinstance(wanted, str | Path) and (not exists(wanted) or isfile(wanted)):  # noqa: PTH110, PTH113
        _listed(wanted, option)


def _listed(wanted: str | int | Path | Sequence[str], option: str) -> list[str] | None:
    """Return the ids that an option names, as `task_ids` takes them; None if it has a number.

    Raises:
        WrongUseError: it has neither a number nor a readable file.
    """
    if not isinstance(wanted, str | int | Path):
        return list(wanted)
    if str(wanted).isdecimal():
        return None
    try:
        return Path(str(wanted)).read_text(encoding="utf-8").split()
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or no path at all
        said = error.strerror if isinstance(error, OSError) else error
        named = shorten(str(wanted), 80, placeholder=" ...")
        raise WrongUseError(
            f"{option} {named}: neither a number of tasks nor a readable file of ids ({said})"
        ) from error


def task_ids(
    benchmark: str,
    split: str,
    wanted: str | int | Path | Sequence[str],
    named: Sequence[str] = (),
    *,
    option: str | None = None,
) -> list[str]:
    """Return the ids of tasks of a split, each once.

    Args:
        benchmark: name of the benchmark.
        split: train, dev or test.
        wanted: a number (the first tasks of the split), a file with one id per line, or the ids.
        named: only tasks with one of these ids, or whose id begins with it and a dot. Empty: all.
        option: the one that `wanted` was given to, for messages. Default: that of the split.

    Raises:
        WrongUseError: `wanted` is neither, a task is of another split, or there are no tasks (allowed
            for `test`).
        UnknownNameError: the benchmark or a task is unknown.
    """
    from mcp_bench.servers.registry import load

    found: Benchmark = load("benchmark", benchmark)
    option = option or f"--{split}"
    ids = _listed(wanted, option)
    if ids is None:
        names = _first(found, split, int(str(wanted)), named)
    else:
        place = str(wanted) if isinstance(wanted, str | Path) else "the list"
        names = [*_among(_checked(found, split, ids, place), named)]
    if not names and (split != "test" or (named and str(wanted) != "0")):
        of = f" of {', '.join(named)}" if named else ""
        raise WrongUseError(f"{option} {wanted} selects no task{of}")
    return names


def _first(benchmark: Benchmark, split: str, number: int, named: Sequence[str]) -> list[str]:
    if not number:
        return []
    if not named:
        return [task.id for task in benchmark.tasks(split, number)]
    return list(islice(_among((task.id for task in benchmark.tasks(split)), named), number))


def _among(ids: Iterable[str], named: Sequence[str]) -> Iterator[str]:
    return (
        one for one in ids if not named or any(one == name or one.startswith(f"{name}.") for name in named)
    )


def _checked(benchmark: Benchmark, split: str, names: Sequence[str], place: str) -> list[str]:
    for name in names:
        task = benchmark.task(name)
        if task.split != split:
            raise WrongUseError(f"{place}: the task {name} belongs to {task.split}, not to {split}")
    return list(dict.fromkeys(names))
