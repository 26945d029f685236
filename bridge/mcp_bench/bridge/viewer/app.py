"""The viewer's pages as an ASGI app, without access control: see `access` for that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from mcp_bench.bridge.viewer.changes import Changes
from mcp_bench.bridge.viewer.links import Links
from mcp_bench.bridge.viewer.live import Live
from mcp_bench.bridge.viewer.pages.analysis_pages import AnalysisPages
from mcp_bench.bridge.viewer.pages.data_pages import DataPages
from mcp_bench.bridge.viewer.pages.episode_pages import EpisodePages
from mcp_bench.bridge.viewer.pages.model_call_pages import ModelCallPages
from mcp_bench.bridge.viewer.pages.run_pages import RunPages
from mcp_bench.bridge.viewer.pages.search_page import SearchPage
from mcp_bench.bridge.viewer.pages.training_pages import TrainingPages
from mcp_bench.bridge.viewer.recordings import Library
from mcp_bench.bridge.viewer.rendering import render, style
from mcp_bench.bridge.viewer.training.folders import TrainingFiles
from mcp_bench.recorder.store.reviews import Reviews
from mcp_bench.servers.errors import BenchError, UnknownNameError, WrongUseError

STATIC = Path(__file__).with_name("static")


def viewer(training: Sequence[Path] = ()) -> Starlette:
    """Return the app over the recordings of the home.

    Args:
        training: folders with loops, training runs and data sets, besides those of the home.
    """
    library, reviews = Library(), Reviews()
    runs, episodes = RunPages(library), EpisodePages(library, reviews)
    models = ModelCallPages(episodes)
    analysis, search = AnalysisPages(library, reviews), SearchPage(library)
    files = TrainingFiles(training)
    trained, data = TrainingPages(library, files), DataPages(library, files)
    live, changes = Live(library), Changes(library, reviews)

    def shortcut(request: Request) -> Response:
        """A permanent link that needs no run: the id of an episode, or the beginning of one."""
        return RedirectResponse(Links().episode(*library.find(request.path_params["episode"])), 307)

    def style_sheet(_: Request) -> Response:
        return Response(style(), media_type="text/css", headers={"Cache-Control": "max-age=300"})

    of_run, of_episode = "/runs/{run}", "/runs/{run}/{episode}"
    of_call = f"{of_episode}/calls/{{number:int}}"
    routes: list[Route | Mount] = [
        Route("/", runs.runs),
        Route("/grid", runs.grid),
        Route("/compare", analysis.compare),
        Route("/side-by-side", analysis.side_by_side),
        Route("/tools", analysis.tools),
        Route("/failures", analysis.failures),
        Route("/reviews", analysis.reviews),
        Route("/search", search.search),
        Route("/training", trained.training),
        Route("/training/{key}", trained.one),
        Route("/training/{key}/turns/{turn:int}", trained.turn),
        Route("/data", data.data),
        Route("/data/{key}", data.export),
        Route("/data/{key}/rows/{number:int}", data.row),
        Route(of_run, runs.run),
        Route(f"{of_run}/events", live.events),
        Route(f"{of_run}/stop", changes.stop, methods=["POST"]),
        Route(f"{of_run}/resume", changes.resume, methods=["POST"]),
        Route(f"{of_run}/annotations", changes.annotations, methods=["POST"]),
        Route(of_episode, episodes.episode),
        Route(f"{of_episode}/review", changes.review, methods=["POST"]),
        Route(f"{of_episode}/json", episodes.whole),
        Route(f"{of_episode}/markdown", episodes.markdown),
        Route(f"{of_episode}/messages/{{position:int}}", episodes.message),
        Route(f"{of_episode}/effects", episodes.effects),
        Route(f"{of_episode}/frames", episodes.frames),
        Route(f"{of_episode}/frames/{{number:int}}", episodes.frame),
        Route(f"{of_episode}/model-calls", models.all),
        Route(f"{of_episode}/model-calls/{{call}}", models.one),
        Route(f"{of_episode}/model-calls/{{call}}/{{what}}", models.body),
        Route(f"{of_call}/images/{{index:int}}", episodes.image),
        Route(f"{of_call}/{{what}}", episodes.call),
        Route("/episodes/{episode}", shortcut),
        Route("/static/view.css", style_sheet),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Starlette(
        routes=routes,
        exception_handlers={BenchError: _problem, HTTPException: _problem},
    )


def _problem(_: Request, error: Exception) -> Response:
    """Answer with a page that says what was wrong."""
    status = 500
    if isinstance(error, HTTPException):
        status, text = error.status_code, error.detail
    else:
        text = str(error)
        if isinstance(error, UnknownNameError):
            status = 404
        elif isinstance(error, WrongUseError):
            status = 400
    return HTMLResponse(render("problem", Links(), status=status, text=text), status)
