"""The page that `mcp-bench report --html` writes, and its pictures."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from mcp_bench.recorder.cli.report import report
from mcp_bench.recorder.html_report.dots import draw_dots
from mcp_bench.recorder.html_report.lines import draw_lines
from mcp_bench.recorder.html_report.sections import (
    MOST_ROWS,
    DotChart,
    Dots,
    Line,
    LineChart,
    Score,
    Table,
)
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.servers.errors import BenchError, MissingDependencyError, UnknownNameError, WrongUseError
from mcp_bench.servers.extras import install_extra, install_trainer
from mcp_bench.servers.grading import Score as MeasuredScore
from tests.support.pages.html_page import Element, parse, tables
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.system

Invoke = Callable[..., Result]
BROKEN = Episode(partial=None, invalid="endpoint_error", calls=())
ALL = "Scores and usage by group"
HOSTILE = '</text></svg><script>alert(1)</script><b title="x">$\\frac{1}{2}$ & \u202e{{ 7*7 }} #0072b2 fill: #0072b2'


def task(family: str, level: int, number: int = 0, domain: str = "sales") -> PlannedEpisode:
    return planned(f"{family}.{level}.train.{number}").model_copy(update={"domain": domain})


def page(invoke: Invoke, path: Path, *options: str) -> Element:
    result = invoke(report, "--html", path, *options)
    assert result.exit_code == 0, result.exception
    return parse(path.read_text(encoding="utf-8"))


def shown(row: dict[str, Any], name: str) -> str:
    """Format a score as the page's tables do."""
    interval = row[f"{name}_ci"]
    return f"{row[name]:.3f}" + (f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else "")


def pictures(path: Path) -> dict[str, Path]:
    return {file.stem: file for file in path.with_name(f"{path.stem}-png").iterdir()}


def two_models() -> None:
    """Record two models on the same four tasks, of two domains and levels; one attempt is invalid."""
    slots = [task("deal", 1), task("deal", 2), task("lead", 2, domain="hr"), task("lead", 1, 1, domain="hr")]
    for model, grades in (("base", (0.0, 0.5, 1.0, 0.25)), ("tuned", (1.0, 1.0, 0.5, None))):
        stories = [
            (slot, BROKEN if grade is None else Episode(partial=grade))
            for slot, grade in zip(slots, grades, strict=True)
        ]
        record(stories, agent="chat", model=model, benchmark="saasworld")


def test_the_figures_are_those_of_the_report(invoke: Invoke, tmp_path: Path) -> None:
    two_models()
    path = tmp_path / "out" / "report.html"
    result = invoke(report, "--html", path, "--json")
    rows = json.loads(result.stdout)
    assert str(path) in result.stderr
    found = tables(parse(path.read_text()))
    assert [row["group"] for row in found[ALL]] == ["base", "tuned"]
    for cells, row in zip(found[ALL], rows, strict=True):
        assert (cells["partial"], cells["strict"]) == (shown(row, "partial"), shown(row, "strict"))
        assert (cells["episodes"], cells["invalid"]) == (str(row["episodes"]), str(row["invalid"]))
        assert (cells["tokens in"], cells["tokens out"]) == (
            str(row["input_tokens"]),
            str(row["output_tokens"]),
        )
        assert "cost, $" not in cells  # not reported
    lowered = [row["partial, invalid as 0"] for row in found["Partial and strict"]]
    assert lowered == [f"{row['partial_invalid_as_0']:.3f}" for row in rows]

    by_domain = json.loads(invoke(report, "--by", "model,domain", "--json").stdout)
    for row in by_domain:
        name = f"{row['domain']}: {row['model']}"
        (cells,) = (c for c in found["By domain, side by side"] if c["domain"] == name)
        assert (cells["partial"], cells["invalid"]) == (shown(row, "partial"), str(row["invalid"]))
    levels = {cells["level"]: cells for cells in found["By level, side by side"]}
    assert list(levels) == [f"level {number}: {model}" for number in (1, 2) for model in ("base", "tuned")]
    assert levels["level 1: tuned"]["invalid"] == "1"
    assert levels["level 2: tuned"]["partial"].split()[0] == "0.750"


def links_of(page: Path) -> list[str | None]:
    return [one.attributes["href"] for one in parse(page.read_text()).all("a")]


def test_scores_lead_to_recordings(invoke: Invoke, tmp_path: Path) -> None:
    folder, (first,) = record([(task("deal", 1), Episode(partial=0.5))])
    path, viewer = tmp_path / "r.html", "http://127.0.0.1:8807"
    assert invoke(report, "--html", path, "--view-url", viewer).exit_code == 0
    run = f"{viewer}/runs/{folder.path.name}"
    assert links_of(path)[-2:] == [run, f"{run}/{first}"]


def test_only_static_pages_that_exist_are_linked(invoke: Invoke, tmp_path: Path) -> None:
    folder, (shown, hidden) = record(
        [(task("deal", 1), Episode(partial=0.5)), (task("lead", 1), Episode(partial=0.5))]
    )
    path = tmp_path / "to" / "r.html"
    path.parent.mkdir()
    for name in ("index.html", f"runs/{folder.path.name}.html", f"episodes/{shown}.html"):
        (tmp_path / "pages" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pages" / name).touch()
    assert invoke(report, "--html", path, "--view-url", "../pages/").exit_code == 0
    links = links_of(path)[-2:]
    assert links == [f"../pages/runs/{folder.path.name}.html", f"../pages/episodes/{shown}.html"]
    assert hidden not in path.read_text()
    assert "1 episode without a link" in path.read_text()


def test_a_folder_without_static_pages_is_refused(invoke: Invoke, tmp_path: Path) -> None:
    record([(task("deal", 1), Episode())])
    done = invoke(report, "--html", tmp_path / "r.html", "--view-url", "pages")
    assert isinstance(done.exception, WrongUseError)
    assert f"mcp-bench view --export {tmp_path / 'pages'}" in str(done.exception)
    assert not (tmp_path / "r.html").exists()


def test_no_chart_is_empty(invoke: Invoke, tmp_path: Path) -> None:
    record([(task("deal", 1), BROKEN), (task("lead", 1, domain="hr"), BROKEN)], model="broken")
    assert not page(invoke, tmp_path / "none.html").all("figure")
    record([(task("deal", 1), Episode()), (task("lead", 1, domain="hr"), BROKEN)], model="base")
    figures = page(invoke, tmp_path / "some.html").all("figure")
    assert [figure.attributes["id"] for figure in figures] == ["scores"]
    assert "broken" not in figures[0].text


def test_the_best_version_over_runs_has_a_chart(invoke: Invoke, tmp_path: Path) -> None:
    """Each group has a line: the mean of the best so far. Attempts with one measurement have no chart."""

    def searched(*shares: float) -> Episode:
        runs = [MeasuredScore(name="x", better="higher", value=one, baseline=0.0, par=1.0) for one in shares]
        return Episode(submissions=runs)

    record([(task("deal", 1), searched(0.2))], agent="once")
    assert [one.attributes["id"] for one in page(invoke, tmp_path / "a.html").all("figure")] == ["scores"]
    record([(task("deal", 1), searched(0.0, 0.5, 0.25)), (task("lead", 1), searched(0.5))], agent="search")
    found = page(invoke, tmp_path / "r.html")
    [chart] = [one for one in found.all("figure") if one.attributes["id"] == "search"]
    assert {"once", "search"} <= {text.text for text in chart.all("text")}
    assert tables(found)["Best version over runs"] == [
        {"run": "1", "once": "0.200", "search": "0.250"},
        {"run": "2", "once": "-", "search": "0.500"},
        {"run": "3", "once": "-", "search": "0.500"},
    ]


def test_a_chart_goes_down_to_the_worst_version() -> None:
    """A version can be below the baseline, which is 0."""
    for values, low, high in (((-6.0, -4.0), -6.0, 0.0), ((-1.0, 0.5), -1.0, 0.5), ((0.25, 1.0), 0.0, 1.0)):
        line = Line("a", "partial", [1, 2], [Score(one) for one in values])
        chart = LineChart(
            name="c", title="c", says="", table=Table("c", [], []), x_label="x", lines=[line], share=False
        )
        bottom, top = draw_lines(chart, "c").axes[0].get_ylim()
        assert bottom == low and top >= high, values


def test_a_chart_of_differences_reaches_all_that_it_shows() -> None:
    """With invalid episodes as 0, a difference can be far from the one without them."""
    for score, reach in (
        (Score(0.05, (0.0, 0.08), signed=True), 0.1),
        (Score(0.05, (0.0, 0.2), signed=True), 0.25),
        (Score(0.05, (0.0, 0.08), lowered=-0.6, signed=True), 1.0),
    ):
        series, table = [Dots("partial", "partial", [score])], Table("c", [], [])
        chart = DotChart(name="c", title="c", says="", table=table, rows=[("a", "")], series=series)
        low, high = draw_dots(chart, "c").axes[0].get_xlim()
        assert -low == high == pytest.approx(reach, rel=0.05), score


def test_invalid_episodes_are_shown(invoke: Invoke, tmp_path: Path) -> None:
    two_models()
    found = page(invoke, tmp_path / "r.html")
    assert "1 of 8 episodes are invalid (1 endpoint_error)" in found.text
    (chart,) = (figure for figure in found.all("figure") if figure.attributes["id"] == "scores")
    words = [text.text for text in chart.all("text")]
    assert "invalid as 0" in words
    assert "3 tasks, 1 invalid" in words


def test_a_single_group_has_key_figures(invoke: Invoke, tmp_path: Path) -> None:
    record([(planned("a"), Episode()), (planned("b"), Episode(partial=0.5))], agent="codex", model="m")
    found = page(invoke, tmp_path / "r.html")
    facts = {div.all("dt")[0].text: div.all("dd")[0].text for div in found.all("dl")[0].all("div")}
    assert facts["partial"] == "0.75"
    assert facts["strict"] == "0.50"
    titles = [title.text for title in found.all("h2")]
    assert titles == ["Scores"]  # one domain, and a benchmark without levels
    (row,) = tables(found)[ALL]
    assert row["group"] == "codex · m · agentdojo · train"


def test_a_group_without_a_model_says_so(invoke: Invoke, tmp_path: Path) -> None:
    """The model of an agent can be known from its answers alone: invalid episodes then have none."""
    record([(planned("a"), Episode())], agent="codex", model="m")
    record([(planned("a"), BROKEN)], agent="codex")
    groups = [row["group"] for row in tables(page(invoke, tmp_path / "r.html"))[ALL]]
    assert groups == ["no model", "m"]


def test_a_comparison_names_what_flipped(invoke: Invoke, tmp_path: Path) -> None:
    two_models()
    result = invoke(report, "--html", tmp_path / "r.html", "--compare", "base", "tuned", "--json")
    (row,) = json.loads(result.stdout)["rows"]
    found = tables(parse((tmp_path / "r.html").read_text()))
    (cells,) = found["Paired differences"]
    for kind in ("partial", "strict"):
        low, high = row[kind]["difference_ci"]
        assert cells[f"{kind} B - A"] == f"{row[kind]['difference']:+.3f} [{low:+.3f}, {high:+.3f}]"
    assert cells["invalid of B"] == "1"
    flips = {(flip["task"], flip["flip"], flip["B solved"]) for flip in found["Tasks that flipped, by name"]}
    assert flips == {
        ("saasworld/deal.1.train.0", "fail → pass", "1 of 1"),
        ("saasworld/deal.2.train.0", "fail → pass", "1 of 1"),
        ("saasworld/lead.2.train.0", "pass → fail", "0 of 1"),
    }
    assert found["Tasks that flipped"] == [
        {"on": "saasworld · train", "common tasks": "3", "fixed": "2", "broken": "1"}
    ]
    result = invoke(report, "--html", tmp_path / "r.html", "--compare", "base", "tund")
    assert isinstance(result.exception, UnknownNameError)


def test_what_all_groups_share_is_what_they_have(invoke: Invoke, tmp_path: Path) -> None:
    for drop in ("0.2", "0.6"):
        record([(planned("a"), Episode())], settings={"options": {"drop": drop}})
    (shared,) = (one.text for one in page(invoke, tmp_path / "r.html").all("p") if "All groups" in one.text)
    assert shared.startswith("All groups: agent oracle, benchmark agentdojo, split train, tools mcp-only")


def test_a_comparison_says_how_the_conditions_differ(invoke: Invoke, tmp_path: Path) -> None:
    for tools in ("mcp-only", "all"):
        record([(planned("a"), Episode())], tools=tools)
    sides = ("agent=oracle,tools=mcp-only", "agent=oracle,tools=all")
    found = page(invoke, tmp_path / "r.html", "--compare", *sides)
    assert "The conditions differ: tools mcp-only against tools all." in found.text
    assert "conditions differ" not in page(invoke, tmp_path / "none.html").text


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page with every kind of section about recordings."""
    folder = tmp_path_factory.mktemp("comparison")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCP_BENCH_HOME", str(folder / "home"))
        two_models()
        arguments = ["--html", str(folder / "r.html"), "--compare", "base", "tuned"]
        assert CliRunner().invoke(report, arguments).exit_code == 0
    return folder / "r.html"


def test_every_chart_has_a_png_a_caption_and_a_table(comparison: Path) -> None:
    found = parse(comparison.read_text())
    figures = {str(figure.attributes["id"]): figure for figure in found.all("figure")}
    assert set(figures) == set(pictures(comparison))
    assert {"scores", "difference", "flips", "domain", "level"} <= set(figures)
    for name, figure in figures.items():
        assert len(figure.all("svg")) == 1
        assert figure.all("figcaption")[0].text.endswith(".")
        assert figure.all("td")
        with Image.open(pictures(comparison)[name]) as picture:
            picture.load()
            assert picture.format == "PNG"
            assert picture.width >= 900
            assert len(picture.convert("L").getcolors() or ()) > 10
    assert "bars: 95 % bootstrap intervals clustered by task" in figures["scores"].text


def test_the_page_is_self_contained_and_well_formed(comparison: Path) -> None:
    found = parse(comparison.read_text())
    everything = found.all()
    assert not {element.tag for element in everything} & {"script", "link", "img", "iframe", "object", "base"}
    ids = [element.attributes["id"] for element in everything if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    for element in everything:
        for name, value in element.attributes.items():
            assert not name.startswith("on")
            assert name.startswith("xmlns") or "//" not in (value or "")
            if name == "aria-labelledby":
                assert set((value or "").split()) <= set(ids)
            if name == "xlink:href" or "url(#" in (value or ""):
                assert re.findall(r"#([\w-]+)", value or "")[-1] in ids
    (policy,) = (m.attributes["content"] for m in found.all("meta") if m.attributes.get("http-equiv"))
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_charts_follow_light_and_dark(comparison: Path) -> None:
    """Charts use CSS variables only: a fixed colour would not change on a dark page."""
    found = parse(comparison.read_text())
    style = found.all("style")[0].text
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    used = set()
    for svg in found.all("svg"):
        for element in svg.all():
            drawn = element.attributes.get("style") or ""
            assert not re.search(r"(fill|stroke): #", drawn), drawn
            used |= set(re.findall(r"var\((--\w+)\)", drawn))
    assert {"--partial", "--strict", "--fixed", "--broken"} <= used
    for name in used:
        assert f"{name}: #" in light
        assert f"{name}: #" in dark


def test_markup_in_a_name_is_text(invoke: Invoke, tmp_path: Path) -> None:
    record(
        [(planned("a"), Episode()), (planned("b"), Episode())],
        agent="<b>x</b>$y$",
        model="<script>1</script>",
    )
    found = page(invoke, tmp_path / "r.html")
    assert not found.all("script")
    assert not found.all("b")
    (row,) = tables(found)[ALL]
    assert row["group"].startswith("<b>x</b>$y$ · <script>1</script>")
    labels = [text.text for text in found.all("svg")[0].all("text")]
    assert any(label.startswith("<b>x</b>$y$ · <script>") for label in labels)


def test_a_chart_of_many_rows_says_what_it_leaves_out(invoke: Invoke, tmp_path: Path) -> None:
    for number in range(MOST_ROWS + 3):
        record([(planned("a"), Episode())], model=f"m{number:02}")
    found = page(invoke, tmp_path / "r.html")
    (figure,) = found.all("figure")
    assert f"The chart shows the first {MOST_ROWS} rows; the data table has 3 more." in figure.text
    labels = {text.text for text in figure.all("text")}
    assert {"m00", f"m{MOST_ROWS - 1:02}"} <= labels
    assert f"m{MOST_ROWS:02}" not in labels
    assert len(tables(found)["Partial and strict"]) == MOST_ROWS + 3


def test_old_pngs_are_removed_and_other_files_stay(invoke: Invoke, tmp_path: Path) -> None:
    record([(planned("a"), Episode())], model="m")
    path = tmp_path / "r.html"
    page(invoke, path)
    folder = tmp_path / "r-png"
    (folder / "scores.png").rename(folder / "of-another-selection.png")
    (folder / "mine.png").write_bytes(b"a picture")
    page(invoke, path)
    assert {file.name for file in folder.iterdir()} == {"scores.png", "mine.png"}


def test_without_recordings_the_page_says_so(invoke: Invoke, tmp_path: Path) -> None:
    found = page(invoke, tmp_path / "r.html")
    assert "No recordings yet." in found.text
    assert [file.name for file in tmp_path.glob("r*")] == ["r.html"]


def test_wrong_use(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    wrong: list[tuple[list[str | Path], type[BenchError], str]] = [
        (["--html", tmp_path / "report.json"], WrongUseError, "must end with .html"),
        (["--loop", tmp_path], WrongUseError, "say --html FILE"),
        (["--loop", tmp_path, "--html", tmp_path / "r.html", "--json"], WrongUseError, "--json has no loops"),
        (["--loop", tmp_path, "--html", tmp_path / "r.html", "--view-url", "p"], WrongUseError, "say --run"),
        (["--html", tmp_path / "file" / "r.html"], BenchError, "cannot write"),
    ]
    for options, kind, words in wrong:
        result = invoke(report, *options)
        assert isinstance(result.exception, kind), options
        assert words in str(result.exception)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["file"]


@pytest.mark.parametrize("name", ["matplotlib", "jinja2"])
def test_a_missing_package_is_named(
    name: str, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    result = invoke(report, "--html", tmp_path / "r.html")
    assert isinstance(result.exception, MissingDependencyError)
    assert f"package {name}: {install_extra('report')}" in str(result.exception)


def test_a_loop_needs_the_trainer(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_bench.servers.registry.registered", lambda kind: {})
    result = invoke(report, "--html", tmp_path / "r.html", "--loop", tmp_path)
    assert isinstance(result.exception, MissingDependencyError)
    assert install_trainer() in str(result.exception)
