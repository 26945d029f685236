"""The pages of training: loops, their turns, improvements, and training runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from mcp_bench.bridge.viewer.live import fingerprint, unchanged
from mcp_bench.bridge.viewer.pages.improve_page import improve_values
from mcp_bench.bridge.viewer.pages.run_pages import page_of
from mcp_bench.bridge.viewer.recordings import Library
from mcp_bench.bridge.viewer.training.curves import curve, curves, held_out_curves
from mcp_bench.bridge.viewer.training.exports import Export
from mcp_bench.bridge.viewer.training.facts import (
    Facts,
    as_object,
    listed,
    number,
    objects,
    read_lines,
    read_object,
    read_text,
    scores_in,
    span,
)
from mcp_bench.bridge.viewer.training.folders import (
    Found,
    TrainingFiles,
    Turn,
    data_files,
    files_of,
    is_file,
    located,
    manifest_of,
    turns,
)
from mcp_bench.bridge.viewer.training.improvements import line_of
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.runs.reader import StoredEpisode

SPLITS = ("dev", "test")
WAYS = ("pass_to_fail", "fail_to_pass")
MOST_SAMPLES = 60


class TrainingPages:
    """Handlers of these pages."""

    def __init__(self, library: Library, files: TrainingFiles) -> None:
        self._library = library
        self._files = files

    def training(self, _: Request) -> HTMLResponse:
        """All loops, improvements and training runs, newest first."""
        found = [one for one in self._files.all() if one.kind != "data"]
        return page_of("training", rows=[(one, self._line(one)) for one in found])

    def one(self, request: Request) -> Response:
        """A loop, an improvement, or a training run."""
        found = self._found(request)
        state = fingerprint(files_of(found.path))
        if unchanged(request, state):
            return Response(status_code=204)
        if found.kind == "loop":
            return page_of("loop", **self._loop(found), state=state)
        if found.kind == "improve":
            return page_of("improve", **improve_values(self._library, self._files, found), state=state)
        if found.kind == "data":
            raise HTTPException(404, "This is a data set: its page is under /data.")
        return page_of("training_run", **self._run(found), state=state)

    def turn(self, request: Request) -> Response:
        """A turn of a loop: what its model learned from, how, and what it says before and after."""
        found, wanted = self._found(request), request.path_params["turn"]
        all_turns = turns(found.path) if found.kind == "loop" else []
        turn = next((one for one in all_turns if one.number == wanted), None)
        if turn is None:
            raise HTTPException(404, "There is no such turn in this loop.")
        state = fingerprint(files_of(turn.folder))
        if unchanged(request, state):
            return Response(status_code=204)
        before = _before(turn, all_turns)
        split = "test" if request.query_params.get("split") == "test" else "dev"
        flips = _flips(as_object(turn.flips[split]))
        samples = self._samples(before, turn, split, flips) if before else []
        return page_of(
            "turn",
            found=found,
            state=state,
            turn=turn,
            before=before,
            split=split,
            splits=SPLITS,
            curves=curves(read_lines(turn.training / "metrics.jsonl")),
            learned=self._learned(turn.curate.get("data"), turn.folder),
            too_long=self._too_long(turn.training),
            data=read_object(turn.training / "data.json"),
            base=self._maker_link(turn.train.get("base"), turn.folder),
            flips=flips,
            samples=samples,
            most=MOST_SAMPLES,
            cut_off=self._library.cut_off(one[side] for one in samples for side in ("before", "after")),
        )

    # What pages share ------------------------------------------------------------------------------

    def _found(self, request: Request) -> Found:
        try:
            return self._files.find(request.path_params["key"])
        except KeyError:
            raise HTTPException(404, "There is no such training run, or it was moved.") from None

    def _line(self, found: Found) -> dict[str, Any]:
        """Return what the list says of one."""
        if found.kind == "loop":
            settings, all_turns = read_object(found.path / "loop.json"), turns(found.path)
            best = next((one for one in reversed(all_turns) if one.promoted and one.measure), None)
            return {
                "recipe": settings.get("recipe"),
                "begun": max((one.number for one in all_turns), default=0),
                "of": settings.get("turns"),
                "best": best,
                "base": all_turns[0] if all_turns else None,
                "ended": (found.path / "history.json").is_file(),
            }
        if found.kind == "improve":
            return line_of(found.path)
        lines = read_lines(found.path / "metrics.jsonl")
        last = lines[-1] if lines else {}
        steps = read_object(found.path / "settings.json").get("steps") or last.get("steps")
        name = "reward" if found.kind == "rl" else "loss"
        return {
            "recipe": "",
            "begun": last.get("step", 0),
            "of": steps,
            "ended": (found.path / "model").is_dir(),
            "stopped": bool(_stopped(found.path)),
            "curve": curve(name, [(at, line.get(name)) for at, line in enumerate(lines)]),
        }

    def _loop(self, found: Found) -> dict[str, Any]:
        all_turns = turns(found.path)
        settings = read_object(found.path / "loop.json")
        counts = {name: len(listed(settings[name])) for name in ("train", "dev", "test")}
        losses = [
            (turn, made)
            for turn in all_turns
            if (made := curves(read_lines(turn.training / "metrics.jsonl")))
        ]
        over = {
            split: [
                curve(kind, [(turn.number, turn.scores(split).get(kind)) for turn in all_turns])
                for kind in ("partial", "strict")
            ]
            for split in SPLITS
        }
        return {
            "found": found,
            "settings": settings,
            "counts": counts,
            "turns": all_turns,
            "splits": SPLITS,
            "losses": losses,
            "ended": (found.path / "history.json").is_file(),
            "over": {split: list(filter(None, made)) for split, made in over.items() if len(all_turns) > 2},
            "recipe": read_text(found.path / "recipe.yaml"),
        }

    def _run(self, found: Found) -> dict[str, Any]:
        lines = read_lines(found.path / "metrics.jsonl")
        settings = read_object(found.path / "settings.json")
        dev = {
            int(path.parent.name): scores_in(read_object(path))
            for path in found.path.glob("steps/*/dev.json")
            if path.parent.name.isdecimal()
        }
        data = read_object(found.path / "data.json")
        return {
            "found": found,
            "lines": lines,
            "last": lines[-1] if lines else Facts(),
            "curves": [*curves(lines), *held_out_curves(read_lines(found.path / "evaluations.jsonl"))],
            "settings": settings,
            "data": data,
            "recipe": read_text(found.path / "recipe.yaml"),
            "learned": [self._learned(path, found.path) for path in _data_sets(found)],
            "dev": sorted(dev.items()),
            "too_long": self._too_long(found.path),
            "ended": (found.path / "model").is_dir(),
            "stopped": _stopped(found.path),
            "base": self._maker_link(settings.get("start") or data.get("tokenizer"), found.path),
        }

    def _maker_link(self, model: object, folder: Path) -> dict[str, Any] | None:
        """Return the model that training in a folder began with, and where it was made."""
        if not isinstance(model, str) or not model:
            return None
        return {"model": model, "maker": self._files.maker(located(model, folder))}

    def _learned(self, place: object, folder: Path) -> dict[str, Any] | None:
        """Return a data set that a model in a folder learned from, with the runs that it came from."""
        if not isinstance(place, str | Path):
            return None
        path = located(place, folder)
        export: Export | None = None
        with suppress(LookupError):
            export = Export(manifest_of(path))
        runs = []
        for run in export.runs if export else ():
            with suppress(KeyError):
                runs.append(self._library.run(self._library.path(run)))
        found = Found("data", export.path, 0.0) if export else None
        return {"path": path, "export": export, "found": found, "runs": runs}

    def _too_long(self, folder: Path) -> list[dict[str, Any]]:
        """Return the rows that training left out: each with its place, and its data set if there is one."""
        found = []
        for one in objects(read_object(folder / "data.json")["too_long"]):
            place, _, line = str(one["place"]).rpartition(":")
            file, row = located(place, folder), None
            with suppress(LookupError, ValueError):
                export = Export(manifest_of(file))
                row = export.number_of(file, int(line))
            found.append(
                {
                    "place": one["place"],
                    "tokens": one["tokens"],
                    "line": row,
                    "found": Found("data", export.path, 0.0) if row else None,
                }
            )
        return found

    def _samples(self, before: Turn, turn: Turn, split: str, flips: dict[str, Any]) -> list[dict[str, Any]]:
        """Return what the models before and after say on the same tasks: flipped ones first."""
        ways = {task: way for way in WAYS for task in flips[way]}
        sides = [self._by_task(one.scores(split).get("run")) for one in (before, turn)]
        found: list[dict[str, Any]] = [
            {"task": one.task, "way": ways.get(name, ""), "before": sides[0][name], "after": one}
            for name, one in sides[1].items()
            if name in sides[0]
        ]
        order = (*WAYS, "")
        return sorted(found, key=lambda one: (order.index(one["way"]), one["task"]))

    def _by_task(self, run: object) -> dict[str, StoredEpisode]:
        with suppress(KeyError, StorageError):
            return {
                f"{one.benchmark}/{one.task}": one
                for one in self._library.episodes(self._library.path(str(run)))
            }
        return {}


def _stopped(folder: Path) -> str:
    """Return why a guard stopped a run that learned from reward; empty if none did."""
    return str(read_object(folder / "stopped.json")["why"] or "")


def _flips(found: Facts) -> Facts:
    """Return the tasks whose result changed with a turn, by way, and the difference of partial scores."""
    partial = as_object(found["partial"])
    return Facts(
        {
            "common_tasks": found["common_tasks"],
            **{way: [str(task) for task in listed(found[way])] for way in WAYS},
            "difference": number(partial["difference"]),
            "difference_ci": span(partial["difference_ci"]),
        }
    )


def _before(turn: Turn, all_turns: Sequence[Turn]) -> Turn | None:
    """Return the turn whose model the gate compared with this one."""
    earlier = [one for one in all_turns if one.number < turn.number and one.promoted]
    against = turn.gate.get("against")
    return next((one for one in earlier if one.model == against), earlier[-1] if earlier else None)


def _data_sets(found: Found) -> list[Path]:
    """Return the files that a training run learned from, one of each data set."""
    sets: dict[Path, Path] = {}
    for path in data_files(found):
        manifest = manifest_of(path)
        sets.setdefault(manifest if is_file(manifest) else path, path)
    return list(sets.values())
