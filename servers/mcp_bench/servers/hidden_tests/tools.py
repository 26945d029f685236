"""What is mounted read-only where hidden tests run: pytest, and stand-ins for what would need a network.

The stand-ins let the usual scripts of Harbor and Terminal-Bench run without a network: installing does
nothing, `uv run` and `uvx` run what they name, and `pytest` is the one that is mounted.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from mcp_bench.servers.errors import MissingDependencyError
from mcp_bench.servers.extras import install_extra

PLACE = "/opt/mcp-bench-tools"
BIN = f"{PLACE}/bin"
RUNNER = f"{PLACE}/run_pytest.py"
PACKAGES = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
INSIDE = Path(__file__).with_name("inside")

PYTHON = 'for python in /usr/local/bin/python3 /usr/bin/python3; do [ -x "$python" ] && break; done\n'
NOTHING = '#!/bin/sh\necho "$(basename "$0"): skipped, there is no network"\n'
LOCAL = """#!/bin/sh
# Addresses of this machine are reached by the real program.
for word in "$@"; do
  case $word in *localhost*|*127.0.0.1*|*0.0.0.0*|--version)
    for real in /usr/local/bin /usr/bin /bin; do
      [ -x "$real/${0##*/}" ] && exec "$real/${0##*/}" "$@"
    done;;
  esac
done
echo "$(basename "$0"): skipped, there is no network" >&2
"""
RUN = """
  while [ $# -gt 0 ]; do
    case $1 in
      --with|-w|--with-editable|--with-requirements|--python|-p|--from|--package) shift 2;;
      --index|--default-index|--index-url|-i|--extra-index-url|--find-links|-f) shift 2;;
      --index-strategy|--resolution|--prerelease|--exclude-newer|--torch-backend) shift 2;;
      --group|--only-group|--no-group|--extra|--no-extra) shift 2;;
      --constraints|-c|--overrides|--env-file|--config-file|--cache-dir|--directory|--project) shift 2;;
      -*) shift;;
      pytest==*|pytest@*) shift; set -- pytest "$@"; break;;
      *) break;;
    esac
  done
  exec "$@"
"""
SCRIPTS = {
    "pytest": f'#!/bin/sh\n{PYTHON}exec "$python" -I -B {RUNNER} "$@"\n',
    "python3": f"""#!/bin/sh
{PYTHON}if [ "$1" = -m ]; then
  case $2 in
    pytest) shift 2; exec {BIN}/pytest "$@";;
    pip|venv|ensurepip) exec {BIN}/pip;;
  esac
fi
exec "$python" -E -s "$@"
""",
    "uv": f'#!/bin/sh\n[ "$1" = tool ] && shift\nif [ "$1" = run ]; then\n  shift{RUN}fi\nexec {BIN}/pip\n',
    "uvx": f"#!/bin/sh\n{RUN}",
    "curl": LOCAL,
    "wget": LOCAL,
    **dict.fromkeys(("apt-get", "apt", "apk", "pip", "pip3", "npm"), NOTHING),
}
SCRIPTS["python"] = SCRIPTS["python3"]
SCRIPTS["py.test"] = SCRIPTS["pytest"]


def missing() -> str | None:
    """Return why hidden tests cannot run here, or None."""
    try:
        files("pytest")
    except PackageNotFoundError:
        return "the Python package 'pytest' is not installed"
    return None


@cache
def tools() -> dict[str, bytes]:
    """Return the files to mount at `PLACE`, by relative path.

    Raises:
        MissingDependencyError: pytest is not installed.
    """
    if (reason := missing()) is not None:
        raise MissingDependencyError(f"{reason}: {install_extra('harbor')}")
    found = {f"bin/{name}": text.encode() for name, text in SCRIPTS.items()}
    found |= runner()
    found["pytest.ini"] = b"[pytest]\n"
    for package in PACKAGES:
        for file in files(package) or ():
            if _needed(str(file)):
                found[f"lib/{file}"] = Path(str(file.locate())).read_bytes()
    return found


def runner() -> dict[str, bytes]:
    """Return what runs pytest and signs its report, to mount at `PLACE` where pytest is there already."""
    return {file.name: file.read_bytes() for file in INSIDE.glob("*.py")}


def _needed(path: str) -> bool:
    """Return whether pytest imports a file of its packages; of pygments' lexers, it uses two."""
    if path.startswith("..") or not path.endswith((".py", "/METADATA", "/entry_points.txt", "/RECORD")):
        return False
    name = path.rpartition("/")[2]
    if path.startswith("pygments/lexers/"):
        return name in ("__init__.py", "_mapping.py", "python.py", "diff.py")
    return not path.endswith("/RECORD") and not path.startswith(("pygments/sphinxext",))
