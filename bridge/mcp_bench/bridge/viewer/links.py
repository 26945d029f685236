"""The addresses of pages: of the server, or of files that link to each other."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request


def query_number(request: Request, name: str) -> int:
    """Return a number of the address's query; 0 if it is missing or none."""
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0


def page_of(what: str | None) -> str:
    """Return the page of what a user named: a run, an episode, or nothing.

    Raises:
        BenchError: there is no such run or episode, or there are several.
    """
    from mcp_bench.recorder.runs.find import run_paths

    if what is None:
        return "/"
    if what.startswith("run_") and not looks_like_path(what):
        (path,) = run_paths([what])
        return Links().run(path.name)
    path, episode = named_episode(what)
    return Links().episode(path.name, episode)


def looks_like_path(name: str) -> bool:
    """Return whether a name has what no id has: a slash, or the dot of a suffix."""
    return "/" in name or "." in name


def named_episode(name: str) -> tuple[Path, str]:
    """Return the run folder and the full id of an episode; its id can be cut short.

    Raises:
        BenchError: there is no such episode, or there are several. A name without the beginning of an id may
            have been meant as a file, and the text says so.
    """
    from mcp_bench.recorder.runs.find import find_episode
    from mcp_bench.servers.errors import UnknownNameError, WrongUseError

    nothing = f"there is no file, run or episode {name!r}"
    if looks_like_path(name):
        raise WrongUseError(nothing)
    try:
        return find_episode(name)
    except UnknownNameError as error:
        if name.startswith("ep_"):
            raise
        raise WrongUseError(nothing) from error


def opened(what: str | None) -> tuple[str, Path | None]:
    """Return the page of a run, an episode or a path, and the path if training is to be looked for there.

    A folder can have the name of a run. It is meant only if it is of training, or there is no such recording.

    Raises:
        BenchError: there is nothing of this name.
    """
    from mcp_bench.bridge.viewer.training.folders import place_of
    from mcp_bench.servers.errors import BenchError

    given = place_of(what)
    if given is None:
        return page_of(what), None
    if given[0] == "/training" and what == given[1].name:
        with suppress(BenchError):
            return page_of(what), None
    return given


class Links:
    """Addresses of the running viewer."""

    static = False

    def asset(self, name: str) -> str:
        return f"/static/{name}"

    def runs(self) -> str:
        return "/"

    def run(self, run: str) -> str:
        return f"/runs/{quote(run, safe='')}"

    def episode(self, run: str, episode: str) -> str:
        return f"/runs/{quote(run, safe='')}/{quote(episode, safe='')}"

    def part(self, run: str, episode: str, *parts: object) -> str:
        """Return the address of something of an episode that a page does not show itself."""
        return "/".join([self.episode(run, episode), *(quote(str(part), safe="") for part in parts)])

    def training(self, key: str) -> str:
        """Return the address of a loop or a training run."""
        return f"/training/{key}"

    def data(self, key: str) -> str:
        """Return the address of a data set."""
        return f"/data/{key}"

    def page(self, name: str, **query: Any) -> str:
        """Return the address of a page such as `tools`, with the parts of its query that are not empty."""
        given = {key: value for key, value in query.items() if value not in (None, "", [])}
        return f"/{name}" + (f"?{urlencode(given, doseq=True)}" if given else "")


class FileLinks(Links):
    """Addresses relative to a page in a folder `depth` below the root of a static export."""

    static = True

    def __init__(self, depth: int) -> None:
        self._up = "../" * depth

    def asset(self, name: str) -> str:
        return f"{self._up}static/{name}"

    def runs(self) -> str:
        return f"{self._up}index.html"

    def run(self, run: str) -> str:
        return f"{self._up}runs/{quote(run, safe='')}.html"

    def episode(self, run: str, episode: str) -> str:
        return f"{self._up}episodes/{quote(episode, safe='')}.html"

    def part(self, run: str, episode: str, *parts: object) -> str:
        return ""

    def page(self, name: str, **query: Any) -> str:
        return ""
