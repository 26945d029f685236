"""Run pytest in a grading sandbox and write a signed report. Mounted there; standard library and pytest only.

Nothing is read from where an agent could write, except what the tests themselves import: no conftest.py,
no settings and no plugin outside /tests, and the working folder comes last on the path. With `--repository`
as the first argument, the tests belong to the repository in the working folder, whose files the caller has
chosen: its conftest.py files count, and pytest is the one in the first folder of PYTHONPATH. The others are
the repository's; they are added when pytest and its plugins are loaded. `--repository=NAME,NAME` names
modules that an agent added: none of them replaces a package that is installed. The report is signed
with a key that is deleted before the first test is read. A test counts as passed only while pytest's
own functions, and those of the tests, are the ones that were loaded before any other file, while the hooks
that decide a result are pytest's, its plugins' or those of the tests' own conftest.py files, and while its
module has only the names that its own code binds (own_tests.py).
"""

import builtins
import hmac
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import CodeType, FunctionType
from typing import Any, NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = "/tests"
KEY = "/mcp-bench/key"
"""A line with the report's path, and one with the key. Only the first pytest of a test run finds it."""
COMPARED = (
    "AssertionError Exception abs all any bool compile dict eval exec float getattr hasattr int isinstance "
    "len list map max min range repr round set sorted str sum tuple type zip"
).split()
"""Built-in names that tests compare with. A test may replace others (input, open, print)."""
OWN = ("_reprcompare", "_assertion_pass")
"""Functions that pytest itself puts into a module of its own while a test runs."""
ORDER = {"passed": 0, "skipped": 1, "xfailed": 1, "failed": 2}
DECIDING = (
    "pytest_runtestloop pytest_runtest_protocol pytest_runtest_call pytest_pyfunc_call "
    "pytest_runtest_makereport pytest_runtest_logreport"
).split()
"""Hooks that decide whether a test has passed."""


class Collected(NamedTuple):
    """A test as it was before any test ran."""

    item: Any
    name: str
    """Its node id. Code under test can write another one into the item."""
    parts: "list[tuple[Any, Any]]"
    """Its functions, with their code."""


class Watched(NamedTuple):
    """A module or a class of pytest, as it was before any test was collected."""

    space: Any
    """Its names, now."""
    held: "dict[str, Any]"
    codes: "dict[str, tuple[Any, Any]]"
    """Its functions, with their code."""


def signed_report(conftests: "list[CodeType]", *, repository: bool = False) -> Any:
    """Return a plugin that writes the report, or None without a key. The key is only in its closure.

    Args:
        conftests: the code of conftest.py files that pytest does not load itself.
        repository: whether the tests belong to the repository in the working folder.
    """
    try:
        with open(KEY, encoding="ascii") as file:
            path, key = file.read().split("\n")[:2]
        os.unlink(KEY)
    except OSError:
        return None
    sys.path.insert(0, HERE)
    import _pytest
    import pluggy
    import pytest

    own_tests = import_module("own_tests")
    sys.path.remove(HERE)
    tests = own_tests.OwnTests()
    digest, secret = hmac.digest, bytes.fromhex(key)
    os_open, os_write, os_close = os.open, os.write, os.close
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    getpid, started_by = os.getpid, os.getpid()
    packages = (_pytest.__name__, pluggy.__name__, own_tests.__name__)
    worst: "dict[str, str]" = {}
    built_in = {name: vars(builtins).get(name) for name in COMPARED}
    loaded: "list[Watched]" = []
    manager: "list[Any]" = []
    planned: "list[Any]" = []
    first: "dict[int, tuple[Any, Any]]" = {}  # functions that were there first, by id, with their code
    written: "dict[int, Any]" = {}  # the code of the tests' own files, by id
    collected: "dict[int, Collected]" = {}
    running: "list[Collected | None]" = [None]
    own: "dict[str, Any]" = {}
    sound: "set[str]" = set()
    may_fail: "set[str]" = set()

    def function_of(value: Any) -> Any:
        """Return a function, or that of a method of a class or of a property."""
        if isinstance(value, (classmethod, staticmethod)):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        return value if isinstance(value, FunctionType) else None

    def code_of(value: Any) -> Any:
        return getattr(function_of(value), "__code__", None)

    def watched(modules: "list[Any]") -> "Iterator[Watched]":
        """Yield what the modules of pytest and their classes hold, and some built-in names."""
        spaces = {id(module): vars(module) for module in modules}
        for space in list(spaces.values()):
            spaces.update((id(value), vars(value)) for value in space.values() if isinstance(value, type))
        for space in spaces.values():
            held = {name: value for name, value in space.items() if name not in OWN}
            codes = {
                name: (value, code_of(value)) for name, value in held.items() if code_of(value) is not None
            }
            yield Watched(space, held, codes)

    def defines(value: Any) -> bool:
        return code_of(value) is not None or (
            isinstance(value, type) and any(code_of(inner) is not None for inner in vars(value).values())
        )

    def as_before(one: Watched) -> bool:
        """Return whether no function was replaced, removed or added. Other values may change."""
        now, held, codes = dict(one.space), one.held, one.codes
        for name, value in now.items():
            if held.get(name) is not value and name not in OWN and (name in codes or defines(value)):
                return False  # such as a property that says that a report is good
        return codes.keys() <= now.keys() and all(code_of(value) is code for value, code in codes.values())

    def hooks() -> "list[Any]":
        """Return what plugins do, by hook."""
        callers = vars(manager[0].hook)
        return [(name, caller.get_hookimpls()) for name, caller in sorted(callers.items()) if name[:1] != "_"]

    def deciding() -> "list[Any]":
        """Return the functions of the hooks that decide results."""
        callers = vars(manager[0].hook)
        impls = [impl for name in DECIDING if name in callers for impl in callers[name].get_hookimpls()]
        return [function_of(getattr(impl.function, "__func__", impl.function)) for impl in impls]

    def trust_loaded() -> None:
        """Trust what is loaded: pytest, the plugins of the image, and what they import."""
        spaces = [getattr(module, "__dict__", {}) for module in list(sys.modules.values())]
        spaces += [
            vars(value) for space in spaces for value in list(space.values()) if isinstance(value, type)
        ]
        found = [function_of(value) for space in spaces for value in list(space.values())]
        for function in [*found, *deciding()]:
            if function is not None:
                first[id(function)] = function, function.__code__

    def is_trusted(function: Any) -> bool:
        code = getattr(function, "__code__", None)
        if id(function) in first:
            return first[id(function)][1] is code
        return code is not None and id(code) in written

    def watch() -> None:
        """Watch the modules of pytest, as they are now."""
        seen = {id(one.space) for one in loaded}
        ours = [module for name, module in sys.modules.items() if name.split(".")[0] in packages]
        loaded.extend(one for one in watched(ours) if id(one.space) not in seen)

    def wrapped(item: Any) -> "list[tuple[Any, Any]]":
        """Return the functions of a test, with their code: its own, and those that decorators wrapped."""
        found: "list[tuple[Any, Any]]" = []
        value = getattr(item, "obj", None)
        while value is not None and len(found) < 100:
            value = getattr(value, "__func__", value)
            found.append((value, code_of(value)))
            value = getattr(value, "__wrapped__", None)
        return found

    def same(now: "list[tuple[Any, Any]]", before: "list[tuple[Any, Any]]") -> bool:
        return [(id(a), id(b)) for a, b in now] == [(id(a), id(b)) for a, b in before]

    def unchanged(one: "Collected | None") -> bool:
        if one is None or one.item.nodeid != one.name or "runtest" in vars(one.item):
            return False
        if type(one.item).runtest is not one.item.runtest.__func__:
            return False
        return all(code_of(value) is code for value, code in one.parts)

    def intact(as_before: Any = as_before, hooks: Any = hooks, deciding: Any = deciding) -> bool:
        if not all(map(is_trusted, deciding())):
            return False
        if not repository and hooks() != planned:  # its conftest.py files are loaded one by one
            return False
        compared = vars(builtins)
        if any(compared.get(name) is not value for name, value in built_in.items()):
            return False
        return all(map(as_before, loaded))

    def named(name: str) -> bool:
        return name in own and tests.named(own[name])

    class SignedReport:
        # after those that pytest calls first, which change pytest, and before the first conftest.py
        def pytest_load_initial_conftests(self, early_config: Any, args: "list[str]") -> None:
            tests.compile(early_config, args if repository else [TESTS, *args])
            for code in (*conftests, *(file.code for file in tests.files.values())):
                written.update((id(part), part) for part in own_tests.nested(code))
            manager.append(early_config.pluginmanager)
            trust_loaded()
            watch()

        @pytest.hookimpl(trylast=True)
        def pytest_sessionstart(self, session: Any) -> None:
            planned.extend(hooks())
            watch()

        @pytest.hookimpl(trylast=True)
        def pytest_collection_finish(self, session: Any) -> None:
            found = [Collected(item, item.nodeid, wrapped(item)) for item in session.items]
            collected.update((id(one.item), one) for one in found)
            own.update((item.nodeid, item) for item in session.items if tests.defined(item))
            may_fail.update(item.nodeid for item in session.items if any(item.iter_markers("xfail")))

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_protocol(self, item: Any) -> None:
            running[0] = collected.get(id(item))

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_call(self, item: Any) -> None:
            # code that took the test's place could put it back before the report
            one = running[0]
            if one is None or one.item is not item or not same(wrapped(item), one.parts):
                return
            if unchanged(one) and intact() and named(one.name):
                sound.add(one.name)

        def pytest_runtest_logreport(self, report: Any) -> None:
            outcome, one = report.outcome, running[0]
            if one is None or report.nodeid != one.name:  # a test under another one's name
                worst.update(dict.fromkeys((report.nodeid, one.name if one else ""), "failed"))
                return
            if outcome == "passed" and report.when != "call":
                return
            if outcome == "skipped" and hasattr(report, "wasxfail"):
                # not where the code under test called pytest.xfail()
                expected = one.name in may_fail and (report.when == "setup" or one.name in sound)
                outcome = "xfailed" if expected and unchanged(one) and intact() else "skipped"
            good = one.name in sound and unchanged(one) and intact() and named(one.name)
            if outcome == "passed" and not good:
                outcome = "failed"
            before = worst.get(one.name, "passed")
            worst[one.name] = outcome if ORDER[outcome] >= ORDER[before] else before

        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                worst[report.nodeid or "collection"] = "failed"

        def pytest_unconfigure(self) -> None:
            if getpid() != started_by:
                return
            lines = [outcome + " " + name.replace("\n", " ") for name, outcome in sorted(worst.items())]
            text = "\n".join(lines).encode("utf-8", "replace")
            place = os_open(path, flags, 0o600)
            os_write(place, digest(secret, text, "sha256").hex().encode() + b"\n")
            while text:
                text = text[os_write(place, text) :]
            os_close(place)

    return SignedReport()


class Ctrf:
    """The option `--ctrf FILE` of pytest-json-ctrf: a summary in the Common Test Report Format."""

    def __init__(self) -> None:
        self.outcomes: "dict[str, str]" = {}

    def pytest_addoption(self, parser: Any) -> None:
        parser.addoption("--ctrf", default=None)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.nodeid] = report.outcome

    def pytest_sessionfinish(self, session: Any) -> None:
        if not (path := session.config.getoption("--ctrf")):
            return
        import json

        tests = [{"name": name, "status": outcome} for name, outcome in self.outcomes.items()]
        summary: "dict[str, int]" = {"tests": len(tests)}
        for kind in ("passed", "failed", "skipped"):
            summary[kind] = sum(test["status"] == kind for test in tests)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"results": {"tool": {"name": "pytest"}, "summary": summary, "tests": tests}}, file)


class TaskFiles:
    """The task's own path, and the conftest.py files of the tests: all others belong to the agent."""

    def __init__(self) -> None:
        folders = [folder for folder, _, names in os.walk(TESTS) if "conftest.py" in names]
        self.codes = {folder: compiled(os.path.join(folder, "conftest.py")) for folder in folders}

    def pytest_configure(self, config: Any) -> None:
        import importlib.util

        # not before plugins were looked for: an agent's package would be one
        for place in (*os.environ.get("PYTHONPATH", "").split(os.pathsep), os.getcwd()):
            if place:
                sys.path.append(place)
        for folder, code in self.codes.items():
            place = code.co_filename
            name = "conftest" + folder[len(TESTS) :].replace("/", "_")
            spec = importlib.util.spec_from_file_location(name, place)
            assert spec is not None  # noqa: S101
            module = sys.modules[name] = importlib.util.module_from_spec(spec)
            sys.path.insert(0, folder)
            exec(code, vars(module))  # noqa: S102 - as its loader does
            config.pluginmanager.register(module, place)


def compiled(place: str) -> CodeType:
    with open(place, "rb") as file:
        return compile(file.read(), place, "exec")


class Trusted:
    """Finds pytest and the standard library, before any folder that pytest puts on the path."""

    def __init__(self, folders: "list[str]", added: "list[str]") -> None:
        self.folders = folders
        self.kept = {"pytest", "_pytest", "pluggy", "iniconfig", *added}
        self.kept.update(getattr(sys, "stdlib_module_names", ()))

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> "ModuleSpec | None":
        return PathFinder.find_spec(name, self.folders) if path is None and name in self.kept else None


def run_repository(files: "list[str]", added: "list[str]") -> int:
    """Run test files of the repository in the working folder.

    Args:
        added: modules that an agent added, by name. None of them replaces a package that tests import.
    """
    tools, *folders = os.environ["PYTHONPATH"].split(os.pathsep)
    folders += [place for place in sys.path if place.startswith(os.getcwd())]  # of an image's .pth files
    sys.path[:] = [tools, *(place for place in sys.path if place not in folders)]
    places = [place for place, finder in enumerate(sys.meta_path) if finder is PathFinder]
    sys.meta_path.insert(places[0], Trusted(list(sys.path), added))
    import pytest

    class Repository:
        @pytest.hookimpl(tryfirst=True)
        def pytest_load_initial_conftests(self) -> None:
            """Add the repository's folders. Plugins were looked for before."""
            sys.path.extend(folders)

    options = [
        "-q",
        "--color=no",
        "-p",
        "no:cacheprovider",
        "--continue-on-collection-errors",
        "-o",
        "addopts=",
    ]
    plugins = [Repository(), signed_report([], repository=True)]
    return int(pytest.main([*options, *files], plugins=[plugin for plugin in plugins if plugin is not None]))


def main() -> int:
    option, _, added = (sys.argv[1:2] or [""])[0].partition("=")
    if option == "--repository":
        return run_repository(sys.argv[2:], added.split(","))
    sys.path.insert(0, HERE + "/lib")
    import pytest

    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    settings = [TESTS + "/pytest.ini", TESTS + "/pyproject.toml", HERE + "/pytest.ini"]
    settings = [place for place in settings if os.path.exists(place)]
    argv = [*sys.argv[1:], "--noconftest", "-p", "no:cacheprovider", "--rootdir", TESTS, "-c", settings[0]]
    files = TaskFiles()
    wanted = (Ctrf(), files, signed_report(list(files.codes.values())))
    plugins = [plugin for plugin in wanted if plugin is not None]
    return int(pytest.main(argv, plugins=plugins))


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # what the tests' code left running must not change it
