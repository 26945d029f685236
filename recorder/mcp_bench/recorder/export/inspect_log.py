"""Write episodes as Inspect's `.eval` logs, for people who want to look at them in Inspect's viewer.

A log is for reading, not for training: by default every episode is in it, of any split, also invalid and
ungraded ones. Inspect has a log for each task and model, so there is one for each run, agent and model.
https://inspect.aisi.org.uk/eval-logs.html
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

from mcp_bench.recorder.conversations.timeline import timeline
from mcp_bench.recorder.curation.candidate import Candidate
from mcp_bench.recorder.curation.pipeline import Curation
from mcp_bench.recorder.curation.redaction import redact_episode
from mcp_bench.recorder.export.manifest import (
    chosen_episodes,
    left_out_path,
    manifest_of,
    manifest_path,
    put_in_place,
    refuse_to_overwrite,
)
from mcp_bench.recorder.export.summary import Summary
from mcp_bench.recorder.files.hashed_file import HashedFile
from mcp_bench.recorder.files.replacement import Replacement, new_folder, writing
from mcp_bench.recorder.files.writing import json_line
from mcp_bench.recorder.formats.inspect import NO_MODEL, Logged, model_usage, moment, sample, summary
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.recorder.trajectory import Trajectory
from mcp_bench.servers.errors import WrongUseError

ENDING = ".eval"
VERSION = 2
"""Of Inspect's log format."""
_DATE = (1980, 1, 1, 0, 0, 0)  # the oldest that a zip can state: the same recordings give the same bytes

_Group = tuple[str, str, str]
"""Run's folder, agent, model. A folder may have been renamed: the episodes keep the run's first name."""


def export_logs(out: Path, curation: Curation, *, force: bool, command: str) -> dict[str, Any]:
    """Write the episodes that the curation chooses, and a manifest, and return the manifest.

    The log is `out`. Several logs are named after it, their agent, model and run. All files appear complete
    or not at all. Memory holds one episode at a time.

    Args:
        out: Name of the log, which ends in `.eval`.
        curation: Chooses the episodes.
        force: Whether to overwrite existing files.
        command: The command line that the user ran.

    Raises:
        WrongUseError: `out` has another ending, or a file exists and `force` is not set.
        UnknownNameError: no recording has a run, agent, model, benchmark, domain or split of that name.
        LeakError: an episode is, or resembles, a task of the split `private`. No file is written.
        NothingToExportError: every recording was dropped. No file is written.
        StorageError: the files cannot be written.
    """
    if out.suffix != ENDING:
        raise WrongUseError(f"an Inspect log ends in {ENDING}: --out {out.with_suffix(ENDING)}")
    chosen = chosen_episodes(curation)
    names = _names(out, {_group(one) for one in chosen})
    former = _former(manifest_path(out)) if force else []
    own = [*names.values(), manifest_path(out), left_out_path(out)]
    refuse_to_overwrite(own, force=force)
    files, contents = list[dict[str, Any]](), Summary()
    with (
        writing(out),
        new_folder(out.parent),
        Replacement() as replacement,
        closing(curation.read(chosen)) as read,
        closing(_logged(curation, read)) as made,
    ):
        for _, of_run in groupby(made, key=lambda found: found[0].run):
            with ExitStack() as open_logs:
                logs: dict[_Group, _Log] = {}
                for one, logged in of_run:
                    group = _group(one)
                    if group not in logs:
                        file = open_logs.enter_context(HashedFile(replacement.beside(names[group])))
                        logs[group] = _Log(logged.episode, file)
                        open_logs.callback(logs[group].close)
                    logs[group].add(logged)
                    contents.add(logged.episode)
                for group, log in logs.items():
                    files.append({"name": names[group].name, **log.finish()})
        curation.guard.check()
        manifest = manifest_of(
            out,
            curation,
            command=command,
            form="inspect",
            data={"rows": len(contents.episodes), "files": files},
            contents={"runs": contents.runs, "episodes": contents.episodes},
        )
        refuse_to_overwrite(own, force=force)  # another export may have ended meanwhile
        put_in_place(replacement, out, manifest, curation)
        for path in {*former} - {*names.values()}:
            path.unlink(missing_ok=True)
    return manifest


@dataclass
class _Log:
    """One log while it is written. Its header comes last, when the results are known."""

    first: StoredEpisode
    file: HashedFile
    _summaries: list[dict[str, Any]] = field(default_factory=list)
    _epochs: Counter[str] = field(default_factory=Counter)
    _usage: dict[str, Counter[str]] = field(default_factory=dict)
    _last_us: int = 0

    def __post_init__(self) -> None:
        self._zip = zipfile.ZipFile(self.file, "w", zipfile.ZIP_DEFLATED)
        self._write("_journal/start.json", self._start())

    def add(self, logged: Logged) -> None:
        episode = logged.episode
        self._epochs[episode.task] += 1
        row = sample(logged, self._epochs[episode.task])
        self._write(f"samples/{row['id']}_epoch_{row['epoch']}.json", row)
        self._summaries.append(summary(row))
        for model, counts in model_usage(logged).items():
            self._usage.setdefault(model, Counter()).update(counts)
        self._last_us = max(self._last_us, episode.ended_us or episode.started_us)

    def close(self) -> None:
        """End the zip. Closing twice is allowed."""
        self._zip.close()

    def finish(self) -> dict[str, Any]:
        """Write the rest, and return the log's entry in the manifest."""
        self._write("summaries.json", self._summaries)
        stats = {
            "started_at": moment(self.first.started_us),
            "completed_at": moment(self._last_us),
            "model_usage": {model: dict(counts) for model, counts in self._usage.items()},
        }
        header = {"version": VERSION, "status": "success", **self._start(), "results": self._results()}
        self._write("header.json", {**header, "stats": stats})
        self.close()
        first = self.first
        facts = {"run": first.run, "benchmark": first.benchmark, "agent": first.agent, "model": first.model}
        size = {"rows": len(self._summaries), "bytes": self.file.size, "sha256": self.file.sha256}
        return {**facts, **size}

    def _start(self) -> dict[str, Any]:
        first, tasks = self.first, list(self._epochs)
        model = first.model or NO_MODEL
        spec = {
            "eval_id": hashlib.sha256(f"{first.run}/{first.agent}/{model}".encode()).hexdigest()[:22],
            "run_id": first.run,
            "created": moment(first.started_us),
            "task": first.benchmark,
            "task_id": first.benchmark,
            "task_version": first.benchmark_version,
            "solver": first.agent,
            "dataset": {
                "name": first.benchmark,
                "samples": len(tasks),
                "sample_ids": tasks,
                "shuffled": False,
            },
            "model": model,
            "config": {"epochs": max(self._epochs.values(), default=1)},
            "packages": {"mcp-bench-kit": version("mcp-bench-kit")},
            "metadata": {"agent": first.agent, "agent_version": first.agent_version, "home": first.home},
        }
        plan = {"name": "plan", "steps": [{"solver": first.agent, "params": {}}], "config": {}}
        return {"version": VERSION, "eval": spec, "plan": plan}

    def _results(self) -> dict[str, Any]:
        # an imported episode can be invalid and have a grade, which says nothing
        valid = [one for one in self._summaries if "error" not in one]
        graded = [one["scores"] for one in valid if one.get("scores")]
        strict = [float(scores["strict"]["value"] == "C") for scores in graded]
        partial = [scores["partial"]["value"] for scores in graded]
        count = len(self._summaries)
        return {
            "total_samples": count,
            "completed_samples": len(valid),
            "scores": [
                {
                    "name": name,
                    "scorer": name,
                    "scored_samples": len(values),
                    "unscored_samples": count - len(values),
                    "params": {},
                    "metrics": {metric: {"name": metric, "value": sum(values) / len(values), "params": {}}},
                }
                for name, metric, values in (("partial", "mean", partial), ("strict", "accuracy", strict))
                if values
            ],
        }

    def _write(self, name: str, document: Any) -> None:
        entry = zipfile.ZipInfo(name, _DATE)
        self._zip.writestr(entry, json_line(document), zipfile.ZIP_DEFLATED)


def _logged(
    curation: Curation, read: Iterable[tuple[Candidate, StoredEpisode, Trajectory]]
) -> Generator[tuple[Candidate, Logged]]:
    """Yield the episodes, redacted as the selection says. A leak is noted, and refused in the end."""
    for run, of_run in groupby(read, key=lambda found: found[0].run):
        with RunReader(run) as reader:
            for one, episode, conversation in of_run:
                found = Logged(
                    episode,
                    conversation,
                    # calls are matched by their arguments, which redaction changes
                    timeline(conversation.messages, reader.calls(episode.id)),
                    reader.assertions(episode.id),
                    reader.metrics(episode.id),
                )
                curation.guard.note(episode, curation.guard.leak(episode, conversation))
                yield one, _redacted(found, curation.selection.redact)


def _redacted(logged: Logged, kinds: Sequence[str]) -> Logged:
    """Return what a sample shows with placeholders in all of its texts, and its names and times unchanged."""
    of_episode = {name: getattr(logged.episode, name) for name in ("prompt", "answer", "invalid_detail")}
    graded = {"assertions": logged.assertions, "metrics": logged.metrics}
    conversation, texts = redact_episode(logged.conversation, {**of_episode, **graded}, kinds)
    return replace(
        logged,
        episode=replace(logged.episode, **{name: texts[name] for name in of_episode}),
        conversation=conversation,
        **{name: texts[name] for name in graded},
    )


def _group(one: Candidate) -> _Group:
    return one.run.name, one.agent, one.model or ""


def _names(out: Path, groups: Collection[_Group]) -> dict[_Group, Path]:
    """Return the file of each log. Where shortened names are equal, a hash distinguishes them."""
    if len(groups) == 1:
        return dict.fromkeys(groups, out)
    stems = {group: _stem(out, group) for group in groups}
    times = Counter(stems.values())
    return {
        group: out.with_name(f"{stem}{_hash(group) if times[stem] > 1 else ''}{ENDING}")
        for group, stem in stems.items()
    }


def _stem(out: Path, group: _Group) -> str:
    run, agent, model = group
    words = [re.sub(r"[^\w.+-]+", "-", word)[:60] for word in (agent, model, run) if word]
    return "-".join([out.stem, *words])


def _hash(group: _Group) -> str:
    return f"-{hashlib.sha256(json.dumps(group).encode()).hexdigest()[:8]}"


def _former(manifest: Path) -> list[Path]:
    """Return the logs that an earlier export wrote, by its manifest. Files with other names are not ours."""
    try:
        names = [str(file["name"]) for file in json.loads(manifest.read_bytes())["files"]]
    except (OSError, ValueError, LookupError, TypeError):
        return []
    stem = manifest.name.removesuffix(f"{ENDING}.manifest.json")
    ours = re.compile(rf"{re.escape(stem)}(-[\w.+-]+)?{re.escape(ENDING)}")
    return [manifest.with_name(name) for name in names if ours.fullmatch(name)]
