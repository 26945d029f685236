"""Send the figures of a run to services that draw them.

What they do on a machine without a network is their own affair: TensorBoard and trackio write files, and
`WANDB_MODE=offline` lets W&B do so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import BenchError, MissingDependencyError
from mcp_bench.servers.terminal.sanitize import sanitize_line
from mcp_bench.trainer.rl.folder import RLFolder

PROJECT = "mcp-bench"
Track = Callable[[Mapping[str, Any]], None]
"""Takes a line of the metrics."""


def check_installed(names: Sequence[str]) -> None:
    """Check that the packages of services are here.

    Raises:
        MissingDependencyError: one is missing.
    """
    for name in names:
        if find_spec(name) is None:
            raise MissingDependencyError(f"--report-to {name}: it is not installed: pip install {name}")


@contextmanager
def trackers(names: Sequence[str], folder: Path, warn: Callable[[str], object]) -> Iterator[Track]:
    """Yield what passes figures on to services. One that fails later is left out, with a warning.

    Args:
        names: wandb, tensorboard or trackio.
        folder: the run's, whose name services get. TensorBoard's files are in it.
        warn: gets a line about a service that fails.

    Raises:
        BenchError: a service cannot be started.
    """
    started: dict[str, Any] = {}
    with ExitStack() as opened:
        for name in names:
            try:
                started[name] = _start(name, folder)
            except Exception as error:  # services raise anything
                raise BenchError(f"--report-to {name}: {sanitize_line(str(error))}") from error
            opened.callback(partial(_try, started, name, warn, lambda service: service.finish()))

        def track(line: Mapping[str, Any]) -> None:
            values = figures(line)
            for name in list(started):
                _try(started, name, warn, lambda service: service.log(values, step=line["step"]))

        yield track


def figures(line: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a line of the metrics, those of families by `families/NAME`."""
    found = {name: value for name, value in line.items() if isinstance(value, int | float) and name != "step"}
    families = {f"families/{name}": value for name, value in line.get("families", {}).items()}
    return {name: float(value) for name, value in {**found, **families}.items()}


def _start(name: str, folder: Path) -> Any:
    """Return a run of a service, with `log(values, step=...)` and `finish()`."""
    if name == "tensorboard":
        return _TensorBoard(folder / name, RLFolder(folder).last_step)
    more = {"dir": str(folder)} if name == "wandb" else {}
    return import_module(name).init(project=PROJECT, name=folder.name, **more)


class _TensorBoard:
    """TensorBoard's files, with the methods of the others."""

    def __init__(self, folder: Path, last_step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # a resumed run makes the steps after its checkpoint again
        self._writer: Any = SummaryWriter(str(folder), purge_step=last_step + 1)

    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, global_step=step)
        self._writer.flush()

    def finish(self) -> None:
        self._writer.close()


def _try(
    started: dict[str, Any], name: str, warn: Callable[[str], object], work: Callable[[Any], object]
) -> None:
    """Let a service work. A network that fails must not end a run."""
    if name not in started:
        return
    try:
        work(started[name])
    except Exception as error:  # services raise anything
        del started[name]
        warn(f"--report-to {name} gets no more figures: {sanitize_line(str(error))}")
