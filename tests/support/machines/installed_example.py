"""Install examples of the documentation, so that their entry points are found."""

from __future__ import annotations

import tomllib
from pathlib import Path


def install(example: Path, into: Path) -> str:
    """Install a package like `pip install`, from its pyproject.toml; return the PYTHONPATH to find it."""
    project = tomllib.loads((example / "pyproject.toml").read_text())["project"]
    info = into / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    ((group, points),) = project["entry-points"].items()
    lines = "".join(f"{name} = {target}\n" for name, target in points.items())
    (info / "entry_points.txt").write_text(f"[{group}]\n{lines}")
    return f"{into}:{example}"
