"""Names of published data sets. The user's own `harbor` command resolves and downloads them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from tempfile import mkdtemp

from mcp_bench.servers.errors import BenchError, MissingDependencyError, WrongUseError
from mcp_bench.servers.home import home

PROGRAM = "harbor"
NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?(@[\w.:-]+)?")
SECONDS = 3600
SHOWN = 500


def dataset_folder(name: str) -> Path:
    """Return the folder of a published data set; download it on its first use.

    Raises:
        MissingDependencyError: the command `harbor` is not there.
        WrongUseError: it is neither a folder nor such a name, or cannot be downloaded.
        BenchError: the download took too long.
    """
    if not NAME.fullmatch(name):
        raise WrongUseError(f"there is no folder {name}")
    folder = home() / "harbor" / "datasets" / name.replace("/", "--")
    if folder.is_dir():
        return folder
    program = shutil.which(PROGRAM)
    if program is None:
        raise MissingDependencyError(
            f"there is no folder {name!r}. If it is the name of a published data set: the command "
            f"{PROGRAM!r}, which downloads them, is not on PATH (pip install harbor)"
        )
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = Path(mkdtemp(prefix=f"{folder.name}.", suffix=".part", dir=folder.parent))
    argv = [program, "datasets", "download", name, "-o", str(part)]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            words = (done.stderr.strip() or done.stdout.strip())[-SHOWN:]
            raise WrongUseError(f"{' '.join(argv[1:4])} failed: {words}")
        part.rename(folder)
    except subprocess.TimeoutExpired as error:
        raise BenchError(
            f"{' '.join(argv[1:4])} did not end within {SECONDS} s. Try again, or download it with "
            f"{PROGRAM} and pass its folder"
        ) from error
    except OSError:
        if not folder.is_dir():  # else another process has downloaded it meanwhile
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder
