"""mcp-bench as `pip install` leaves it on a new machine: without extras, trainer and development tools."""

from __future__ import annotations

import venv
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from tests.support import ROOT

MAIN = "mcp-bench-kit"
PORTIONS = ("servers", "recorder", "clients", "plugins", "bridge")
SCRIPT = """\
#!{python}
from mcp_bench.bridge.cli.root import main
main()
"""


def make(folder: Path) -> Path:
    """Make a virtual environment with this checkout and what it depends on, all as links; return `mcp-bench`.

    Nothing is downloaded. An environment made from the wheel, with pip, is the same and takes half a minute.
    """
    _environment(folder, needed(distribution(MAIN)), PORTIONS)
    program = folder / "bin" / "mcp-bench"
    program.write_text(SCRIPT.format(python=folder / "bin" / "python"))
    program.chmod(0o755)
    return program


def make_worker_environment(folder: Path) -> Path:
    """Make a virtual environment that has pydantic, anyio and servers/ only; return its Python."""
    packages = [one for name in ("pydantic", "anyio") for one in needed(distribution(name))]
    _environment(folder, packages, ("servers",))
    return folder / "bin" / "python"


def _environment(folder: Path, packages: Iterable[Distribution], portions: Iterable[str]) -> None:
    """Make a virtual environment of links to installed packages and to folders of this checkout."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for one in packages:
        here = Path(str(one.locate_file("")))
        tops = {file.parts[0] for file in one.files or ()} - {"..", "__pycache__"}
        if one.name == MAIN:  # an editable installation: its files are in the checkout
            tops = {top for top in tops if top.endswith(".dist-info")}
        for top in tops:
            if not (site / top).exists():
                (site / top).symlink_to(here / top)
    (site / "mcp_bench").mkdir()
    for name in portions:
        (site / "mcp_bench" / name).symlink_to(ROOT / name / "mcp_bench" / name)


def needed(first: Distribution) -> Iterator[Distribution]:
    """Yield a distribution and all that it depends on without extras."""
    met, waiting = set[tuple[str, str]](), [(first, "")]
    while waiting:
        one, extra = waiting.pop()
        if (one.name, extra) in met:
            continue
        met.add((one.name, extra))
        yield one
        for line in one.requires or ():
            wanted = Requirement(line)
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                try:
                    found = distribution(wanted.name)
                except PackageNotFoundError:
                    raise AssertionError(f"{one.name} needs {wanted.name}, which is not installed") from None
                waiting += [(found, more) for more in ("", *wanted.extras)]


# The finder at the end says that packages may lie anywhere, so that importlib.metadata is asked for them.
SOURCE = """
import importlib.metadata as metadata
import sys

HIDDEN = {hidden!r}
found = metadata.MetadataPathFinder.find_distributions

def find_distributions(context=metadata.DistributionFinder.Context()):
    return (one for one in found(context) if one.metadata["Name"].lower().replace("_", "-") not in HIDDEN)

metadata.MetadataPathFinder.find_distributions = staticmethod(find_distributions)

class Elsewhere:
    find_spec = staticmethod(lambda *_: None)
    find_distributions = staticmethod(lambda *_: ())

sys.meta_path.append(Elsewhere)
"""


def hide(bench: Any, folder: Path, distributions: Iterable[str]) -> None:
    """Hide distributions from commands: their versions and their entry points. Modules stay importable."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SOURCE.format(hidden=sorted(distributions)))
    bench.environ["PYTHONPATH"] = f"{folder}:{bench.environment()['PYTHONPATH']}"
