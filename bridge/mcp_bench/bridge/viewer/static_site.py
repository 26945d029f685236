"""A selection of recordings as pages that need no server: for a paper, an issue, a static host.

Left out are tasks that nobody may know beforehand, tasks that may not be trained on, and raw frames. Secrets
are replaced as `export` does. Grades of test tasks are left out unless they are asked for.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from mcp_bench.bridge.viewer.links import FileLinks, looks_like_path, named_episode
from mcp_bench.bridge.viewer.pages.episode_pages import episode_values
from mcp_bench.bridge.viewer.recordings import Library, Run
from mcp_bench.bridge.viewer.rendering import render, style
from mcp_bench.recorder.cli.episode_document import episode_document
from mcp_bench.recorder.counted import counted
from mcp_bench.recorder.curation.redaction import redact_texts
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.paths import is_there
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.recorder.scores.scores import summarise
from mcp_bench.recorder.verify.damage import readable
from mcp_bench.servers.errors import BenchError, WrongUseError

STATIC = Path(__file__).with_name("static")
ASSETS = ("view.js", "icon.svg")
TEST = "test"


def write_site(
    folder: Path, named: Sequence[str], tags: Sequence[str], *, test_grades: bool
) -> Iterator[str]:
    """Write the pages, and yield lines that say what was written and left out.

    Args:
        folder: a new or empty folder.
        named: runs and episodes, by id or a prefix of it. Default: all runs.
        tags: only runs that have all of these tags.
        test_grades: whether the grades of test tasks are shown.

    Raises:
        WrongUseError: the folder is not empty, or the selection is of no use.
        BenchError: a run or episode does not exist, or a file cannot be written.
    """
    paths, only, unreadable = _selection(named, tags)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise WrongUseError(f"{folder} is not empty: name a new folder")
        for name in ("static", "runs", "episodes"):
            (folder / name).mkdir()
        (folder / "static" / "view.css").write_text(style(), "utf-8")
        for name in ASSETS:
            shutil.copyfile(STATIC / name, folder / "static" / name)
        yield from (f"Left out: {problem}" for problem in unreadable)
        yield from _Site(folder, only, test_grades).write(paths)
    except OSError as error:
        raise BenchError(f"cannot write {error.filename or folder}: {error.strerror}") from error


def _selection(named: Sequence[str], tags: Sequence[str]) -> tuple[list[Path], set[str], list[StorageError]]:
    """Return the folders of runs, the ids of single episodes (none for all of these runs), and what is wrong
    with runs that cannot be read."""
    for name in named:
        if is_there(Path(name)) and (looks_like_path(name) or not name.startswith(("run_", "ep_"))):
            raise WrongUseError(f"--export takes runs and episodes, and {name} is a file or a folder")
    runs = [name for name in named if name.startswith("run_") and not looks_like_path(name)]
    episodes = [named_episode(name) for name in named if name not in runs]
    if episodes and tags:
        raise WrongUseError("--run-tag chooses runs, not episodes: leave it out, or name no episode")
    if episodes and not runs:
        return sorted({path for path, _ in episodes}), {episode for _, episode in episodes}, []
    if episodes:
        raise WrongUseError("name runs or episodes, not both")
    paths, unreadable = readable(runs, tags=tags)
    return paths, set(), unreadable


class _Site:
    def __init__(self, folder: Path, only: set[str], test_grades: bool) -> None:
        self._folder = folder
        self._only = only
        self._test_grades = test_grades
        self._library = Library()
        self._left_out = {"private": 0, "untrainable": 0, "hidden": 0}
        self._pages = 0

    def write(self, paths: Sequence[Path]) -> Iterator[str]:
        runs = []
        for path in paths[::-1]:
            run = self._library.run(path)
            if run.summary is None:
                yield f"Left out {run.id}: {run.problem}"
                continue
            try:
                found = self._episodes(path)
            except StorageError as error:
                yield f"Left out {run.id}: {error}"
                continue
            episodes = [one for one in found if self._wanted(one)]
            if episodes:
                yield from self._run(path, run, episodes)
                runs.append(self._shown(run, episodes))
        text = render(
            "runs", FileLinks(0), runs=runs, total=len(runs), page=0, size=len(runs), q="", running=[]
        )
        (self._folder / "index.html").write_text(text, "utf-8")
        written = f"{counted(self._pages, 'episode')} of {counted(len(runs), 'run')}"
        yield f"{written}: {self._folder / 'index.html'}"
        words = {
            "private": "of private tasks left out",
            "untrainable": "of tasks that may not be trained on left out",
            "hidden": "of test tasks shown without grades (--grades shows them)",
        }
        for kind, count in self._left_out.items():
            if count:
                yield f"{counted(count, 'episode')} {words[kind]}"

    def _episodes(self, path: Path) -> Sequence[StoredEpisode]:
        """Return the episodes that were named, also attempts that were repeated, or all last attempts."""
        if not self._only:
            return self._library.episodes(path)
        with RunReader(path) as reader:
            return [reader.episode(one) for one in reader.episode_ids() if one in self._only]

    def _wanted(self, episode: StoredEpisode) -> bool:
        kind = "private" if episode.public is False else "" if episode.trainable else "untrainable"
        if kind:
            self._left_out[kind] += 1
        return not kind

    def _hides(self, episode: StoredEpisode) -> bool:
        return episode.split == TEST and not self._test_grades

    def _shown(self, run: Run, episodes: list[StoredEpisode]) -> Run:
        """Return a run for lists, with figures of the episodes that are shown: the others can be private.

        It has no means if some of the grades are hidden.
        """
        shown = replace(
            run,
            summary=run.summary and replace(run.summary, note="", planned=0, done=len(episodes)),
            invalid=sum(one.invalid is not None for one in episodes),
            cost=sum(((one.usage or {}).get("cost_usd") or 0) + (one.roles_usd or 0) for one in episodes),
        )
        known = [one for one in episodes if one.invalid is None and one.partial is not None]
        if not known or any(map(self._hides, episodes)):
            return replace(shown, partial=None, strict=None, graded=0)
        partial = sum(one.partial or 0 for one in known) / len(known)
        strict = sum(bool(one.strict) for one in known) / len(known)
        return replace(shown, partial=partial, strict=strict, graded=len(known))

    def _run(self, path: Path, run: Run, episodes: list[StoredEpisode]) -> Iterator[str]:
        """Write the pages of a run and its episodes, and yield which of these cannot be read."""
        hidden = {one.id for one in episodes if self._hides(one)}
        rows = summarise([one for one in episodes if one.id not in hidden], ["split", "domain"])
        text = render(
            "run",
            FileLinks(1),
            run=self._shown(run, episodes),
            episodes=episodes,
            total=len(episodes),
            rows=rows,
            counts={},
            q="",
            chosen="",
            ungraded=hidden,
            running=[],
        )
        (self._folder / "runs" / f"{run.id}.html").write_text(text, "utf-8")
        with RunReader(path) as reader:
            for at, one in enumerate(episodes):
                before = episodes[at - 1] if at else None
                after = episodes[at + 1] if at + 1 < len(episodes) else None
                try:
                    text = self._episode(reader, one, before, after, run.cut_off)
                    self._pages += 1
                except StorageError as error:
                    yield f"Left out {one.id}: {error}"
                    # other pages lead to it; the error names folders of this machine
                    text = render("problem", FileLinks(1), status=404, text="Its recording is damaged.")
                (self._folder / "episodes" / f"{one.id}.html").write_text(text, "utf-8")

    def _episode(
        self,
        reader: RunReader,
        stored: StoredEpisode,
        before: StoredEpisode | None,
        after: StoredEpisode | None,
        cut_off: bool,
    ) -> str:
        document = redact_texts(episode_document(reader, stored.id), ["secrets"])
        hidden = self._hides(stored)
        if hidden:
            document["grade"] = None
        document["log_folder"] = ""
        stored = replace(stored, **{name: document[name] for name in ("prompt", "answer", "invalid_detail")})
        values = episode_values(document, stored, cut_off)
        if hidden:
            self._left_out["hidden"] += 1
            values |= {"verdict": "ungraded", "hidden_grade": True}
        values |= {"before": before, "after": after, "others": []}
        live = stored.ended_us is None and not cut_off
        return render("episode", FileLinks(1), review=None, live=live, **values)
