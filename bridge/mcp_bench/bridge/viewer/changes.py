"""What a person can change from a page: reviews, a run's tags and note, and whether the run goes on.

Recordings themselves are never changed. Stopping and resuming are what Ctrl-C and `record --resume` do.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mcp_bench.bridge.viewer.links import Links
from mcp_bench.bridge.viewer.pages.run_pages import page_of
from mcp_bench.bridge.viewer.recordings import Library
from mcp_bench.recorder.store.annotations import annotate
from mcp_bench.recorder.store.reader import RunReader
from mcp_bench.recorder.store.reviews import Reviews
from mcp_bench.recorder.store.run_folder import LOCK, is_being_written
from mcp_bench.servers.errors import BenchError, WrongUseError

_BODY = 1 << 16
_START_SECONDS, _LOOK_SECONDS = 30.0, 0.1
_MOST_SAID = 2_000
LOG = "resumed-by-view.log"


class Changes:
    """Handlers of POST requests. Access control has checked that our own pages sent them."""

    def __init__(self, library: Library, reviews: Reviews) -> None:
        self._library = library
        self._reviews = reviews

    async def review(self, request: Request) -> Response:
        """Mark an episode good or bad, with a reason."""
        form = await _form(request)
        path, episode = self._path(request), request.path_params["episode"]

        def store() -> Response:
            with RunReader(path) as reader:
                if episode not in reader.episode_ids():
                    raise HTTPException(404, "There is no such episode in this run.")
                stored = reader.episode(episode)
            verdict, reason = form.get("verdict", ""), form.get("reason", "").strip()
            review = self._reviews.put(path.name, episode, verdict, reason)
            if request.headers.get("hx-request") == "true":
                return page_of("review", episode=stored, review=review, saved=True)
            return RedirectResponse(Links().episode(path.name, episode), 303)

        return await anyio.to_thread.run_sync(store)

    async def annotations(self, request: Request) -> Response:
        """Replace a run's tags and its note, as `mcp-bench annotate` does."""
        form, path = await _form(request), self._path(request)

        def store() -> None:
            before = self._library.run(path).summary
            tags = form.get("tags", "").replace(",", " ").split()
            gone = set(before.tags if before else ()) - set(tags)
            annotate(path, add=tags, remove=gone, note=form.get("note", "").strip())

        await anyio.to_thread.run_sync(store)
        return RedirectResponse(Links().run(path.name), 303)

    async def stop(self, request: Request) -> Response:
        """Interrupt the command that records a run, as Ctrl-C in its terminal does."""
        path = self._path(request)
        await anyio.to_thread.run_sync(stop_run, path)
        return RedirectResponse(Links().run(path.name), 303)

    async def resume(self, request: Request) -> Response:
        """Start `mcp-bench record --resume`, and show the run when it is being recorded again."""
        path = self._path(request)
        process = await anyio.to_thread.run_sync(resume_run, path)
        # it outlives the viewer; one that ends before leaves no zombie
        Thread(target=process.wait, name=f"resumed {path.name}", daemon=True).start()
        await anyio.to_thread.run_sync(_wait_for_start, path, process)
        return RedirectResponse(Links().run(path.name), 303)

    def _path(self, request: Request) -> Path:
        try:
            return self._library.path(request.path_params["run"])
        except KeyError:
            raise HTTPException(404, "There is no such run.") from None


def stop_run(path: Path) -> None:
    """Interrupt the `mcp-bench record` that has the run in a folder open.

    Raises:
        WrongUseError: no such command on this machine has it open.
    """
    if not is_being_written(path):
        raise WrongUseError(f"{path.name} is not being recorded: there is nothing to stop")
    try:
        owner = json.loads((path / LOCK).read_text())
        command = Path(f"/proc/{int(owner['pid'])}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError, KeyError, TypeError):
        command = []
    if b"record" not in command:
        raise WrongUseError(
            f"{path.name} is not being recorded by `mcp-bench record` on this machine. "
            "Stop it where it was started"
        )
    os.kill(int(owner["pid"]), signal.SIGINT)


def resume_run(path: Path) -> subprocess.Popen[bytes]:
    """Start `mcp-bench record --resume` for the run in a folder, in the background and with a log beside it.

    Raises:
        WrongUseError: it is being recorded already.
        BenchError: its log cannot be written.
    """
    if is_being_written(path):
        raise WrongUseError(f"{path.name} is being recorded already")
    command = [sys.executable, "-m", "mcp_bench.bridge.cli.root", "record", "--resume", path.name]
    try:
        descriptor = os.open(path / LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise BenchError(f"cannot write {path / LOG}: {error.strerror}") from error
    with os.fdopen(descriptor, "wb") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def _wait_for_start(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until a command that resumes a run has checked everything and said so, for some seconds at most.

    Raises:
        WrongUseError: it failed before; the text has the end of its log.
    """
    end = time.monotonic() + _START_SECONDS
    begun = f"{path.name}: ".encode()
    while process.poll() is None and begun not in (path / LOG).read_bytes() and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
    if process.poll():
        said = (path / LOG).read_bytes()[-_MOST_SAID:].decode("utf-8", "replace").strip()
        raise WrongUseError(f"`mcp-bench record --resume {path.name}` failed:\n{said}")


async def _form(request: Request) -> dict[str, str]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _BODY:
            raise HTTPException(413, f"The form is larger than {_BODY} bytes.")
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
    return {name: values[0] for name, values in fields.items()}
