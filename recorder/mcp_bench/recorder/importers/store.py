"""Store imported attempts in run folders, marked as imported.

The frames of their calls are synthesised from the conversation: they are valid MCP messages, but no
connection ever carried them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mcp_bench.recorder.conversations.images import parts
from mcp_bench.recorder.errors import StorageError, database_errors, home_error
from mcp_bench.recorder.importers.attempt import IMPORTED, UNKNOWN, Attempt
from mcp_bench.recorder.paths import runs_dir
from mcp_bench.recorder.records import EpisodeEnd, EpisodeStart, RunInfo, new_id, now_us
from mcp_bench.recorder.run_settings import RunSettings
from mcp_bench.recorder.runs.lock import LOCK, is_being_written, take_lock
from mcp_bench.recorder.runs.run_folder import RECORDINGS, RunFolder
from mcp_bench.recorder.store import schema
from mcp_bench.recorder.store.database import applied_migrations, open_reader
from mcp_bench.recorder.store.ledger import ledger_of
from mcp_bench.recorder.trajectory import Message
from mcp_bench.servers.contracts import Image
from mcp_bench.servers.home import home

SOURCE_ERROR = "source_error"
"""Invalid reason of an attempt that failed to run according to its source."""

_log = logging.getLogger(__name__)


class ImportedRuns:
    """The runs of one import: for each benchmark one with grades and one without. A context manager.

    They are written to a temporary folder and moved to the store at the end, so an interrupted import
    leaves nothing behind.
    """

    def __init__(self, form: str) -> None:
        """Prepare an import of a format."""
        self._form = form
        self._known: set[str] = set()
        self._fresh: set[tuple[str, str | None]] = set()
        """Digest and source's id of each attempt of this import."""
        self._aside = home() / "importing" / new_id("import")
        self._folders: dict[tuple[str, bool], RunFolder] = {}
        self._repeats: dict[tuple[str, str, int], int] = {}
        self.runs: list[str] = []

    def add(self, attempt: Attempt, source: dict[str, Any]) -> bool:
        """Store an attempt. Return False if the store has it already.

        Equal attempts with ids of their own are repeats, such as epochs of a log, unless the store had one
        before this import.
        """
        stated = attempt.digest()  # what earlier versions stored
        attempt = attempt.with_defaults()
        digest = attempt.digest()
        if not self._known.isdisjoint((digest, stated, attempt.id)):
            return False
        if (digest, attempt.id) in self._fresh:
            return False
        folder = self._folder(attempt.benchmark or IMPORTED, graded=attempt.partial is not None)
        _store(
            folder, attempt, {**source, "format": self._form, "digest": digest}, self._repeat(folder, attempt)
        )
        self._fresh.add((digest, attempt.id))
        return True

    def commit(self) -> None:
        """Move the runs into the store."""
        for folder in self._folders.values():
            folder.close()
        root = runs_dir()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in self._folders.values():
            path = root / folder.id
            ledger = ledger_of(path, folder.recording.key)
            if ledger:
                ledger.enter("adding", folder.id, folder.state)
            folder.path.rename(path)
            if ledger:
                ledger.enter("added", folder.id, folder.state)
            self.runs.append(folder.id)
        self._folders.clear()

    def __enter__(self) -> Self:
        _remove_left_behind(self._aside.parent)
        try:
            self._aside.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise home_error(error.filename, error) from error
        # the runs' own locks are open before they are moved into the store
        self._lock = take_lock(self._aside / LOCK)
        self._turn = _turn()
        self._known = known_episodes()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for folder in self._folders.values():
            with contextlib.suppress(StorageError):
                folder.close()
        shutil.rmtree(self._aside, ignore_errors=True)
        os.close(self._lock)
        os.close(self._turn)
        with contextlib.suppress(OSError):
            self._aside.parent.rmdir()

    def _folder(self, benchmark: str, *, graded: bool) -> RunFolder:
        if (benchmark, graded) not in self._folders:
            info = RunInfo(
                id=new_id("run"),
                created_us=now_us(),
                benchmark=benchmark,
                benchmark_version=UNKNOWN,
                agent=IMPORTED,
                agent_version=UNKNOWN,
                isolation="none",
                home=IMPORTED,
                tools=IMPORTED,
                graded=graded,
                settings=RunSettings(imported=self._form),
            )
            self._folders[benchmark, graded] = RunFolder.create(info, root=self._aside)
        return self._folders[benchmark, graded]

    def _repeat(self, folder: RunFolder, attempt: Attempt) -> int:
        slot = (folder.id, attempt.task, attempt.seed)
        self._repeats[slot] = self._repeats.get(slot, -1) + 1
        return self._repeats[slot]


def _turn() -> int:
    """Wait until no other import runs: both would store what both find. Return the lock's descriptor."""
    lock = os.open(home() / "importing.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _log.warning("waiting for another import")
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def known_episodes() -> set[str]:
    """Return the ids of all episodes and the digests of imported ones.

    The ids recognise exports of this store. A run that cannot be read is left out, with a warning.
    """
    known: set[str] = set()
    for path in sorted(runs_dir().glob(f"*/{RECORDINGS}")):
        try:
            with closing(open_reader(path, schema.recordings)) as db, database_errors(path):
                if not applied_migrations(db, schema.recordings):
                    continue
                sql = "SELECT id, json_extract(source, '$.digest') FROM episodes"
                known |= {name for names in db.execute(sql) for name in names if name}
        except StorageError as error:
            _log.warning("%s is not compared, and may be imported again: %s", path.parent.name, error)
    return known


def _remove_left_behind(folder: Path) -> None:
    """Remove the files of killed imports. Running imports keep theirs."""
    for aside in folder.glob("import_*"):
        runs = [path for path in aside.iterdir() if path.is_dir()]
        if runs and not any(is_being_written(path) for path in (aside, *runs)):
            _log.info("removing files of an interrupted import: %s", aside)
            shutil.rmtree(aside, ignore_errors=True)


def _store(folder: RunFolder, attempt: Attempt, source: dict[str, Any], repeat: int) -> None:
    episode, recording = new_id("ep"), folder.recording
    started = attempt.started_us if attempt.started_us is not None else now_us()
    recording.begin_episode(
        EpisodeStart(
            id=episode,
            task=attempt.task,
            split=attempt.split or IMPORTED,
            domain=attempt.domain or IMPORTED,
            prompt=attempt.prompt,
            seed=attempt.seed,
            repeat=repeat,
            started_us=started,
            agent=attempt.agent or UNKNOWN,
            agent_version=attempt.agent_version or UNKNOWN,
            tools=attempt.tools,
            trainable=attempt.trainable,
            source={**source, "id": attempt.id} if attempt.id else source,
        )
    )
    for side, body in _frames(attempt.messages):
        recording.append_unparsed(episode, 1, side, [body])
        if side == "client":
            recording.parse_pending()
            recording.mark_executed(episode, 1, json.loads(body)["id"])
    recording.close_connection(episode, 1, cancelled=True)
    recording.end_episode(
        episode,
        EpisodeEnd(
            termination=attempt.termination,
            invalid=SOURCE_ERROR if attempt.error else None,
            invalid_detail=attempt.error,
            answer=attempt.answer,
            model=attempt.model,
            usage=attempt.usage,
            connections=1,
            ended_us=started,
        ),
        # the frames have the images
        [message.model_copy(update={"images": []}) for message in attempt.messages],
    )
    if attempt.partial is not None:
        folder.grades.put_imported(
            episode,
            partial=attempt.partial,
            strict=bool(attempt.strict),
            assertions=[*attempt.assertions],
            metrics=attempt.metrics,
            grader_version=f"{IMPORTED} from {source['format']}",
            final_state=attempt.final_state,
            graded_us=now_us(),
        )


def _frames(messages: list[Message]) -> Iterator[tuple[Any, bytes]]:
    """Yield the synthesised frames with their senders."""
    numbers: dict[str, int] = {}
    for message in messages:
        for call in message.tool_calls:
            numbers[call.id] = len(numbers) + 1
            params = {"name": call.function.name, "arguments": call.function.arguments}
            yield "client", _line({"id": numbers[call.id], "method": "tools/call", "params": params})
        if message.role == "tool" and message.tool_call_id in numbers:
            content = [_block(part) for part in parts(message)] or [_block("")]
            result = {"content": content, "isError": message.is_error}
            yield "server", _line({"id": numbers[message.tool_call_id], "result": result})


def _block(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image", "data": part.data, "mimeType": part.media_type}


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode() + b"\n"
