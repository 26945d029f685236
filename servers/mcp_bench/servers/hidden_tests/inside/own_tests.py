"""What the test files are, found before any code under test runs. Standard library and pytest only.

Code under test is imported by a test file, and can write into that file's globals: a mark, a fixture, a name
of a built-in function. It can also rewrite a test file that is imported after it. So test files are compiled
first, that code is what pytest runs, and a module may only have the names that its own code binds.
"""

import builtins
import dis
import os
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

GENERATES = {"globals", "vars", "exec", "modules"}
"""A file whose own level uses one of these names, or `globals` anywhere, may make tests as it is imported."""
MARKS = "pytestmark"
SET_UP = {"_Module__pytest_setup_module", "_Module__pytest_setup_function"}
"""What pytest before 8.1 puts into a module that has such functions."""
MOST_FILES = 2000
MOST_PARTS = 200


class TestFile(NamedTuple):
    code: CodeType
    names: "frozenset[str]"
    """What its code binds."""
    open: bool
    """It binds more: by `from ... import *`, or as it runs."""
    functions: "dict[str, list[CodeType]]"


def nested(code: CodeType) -> "Iterator[CodeType]":
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from nested(value)


def described(code: CodeType) -> TestFile:
    """Return what a module's code binds and defines."""
    names, is_open = set(), False
    functions: dict[str, list[CodeType]] = {}
    for part in nested(code):
        functions.setdefault(part.co_name, []).append(part)
        is_open = is_open or not (GENERATES if part is code else {"globals"}).isdisjoint(part.co_names)
        for step in dis.get_instructions(part):
            if step.opname == "STORE_GLOBAL" or (part is code and step.opname == "STORE_NAME"):
                names.add(step.argval)
            # CPython 3.12 made it an intrinsic function
            star = step.opname == "CALL_INTRINSIC_1" and step.argrepr == "INTRINSIC_IMPORT_STAR"
            is_open = is_open or star or step.opname == "IMPORT_STAR"
    return TestFile(code, frozenset(names), is_open, functions)


def sources(places: "list[str]") -> "Iterator[str]":
    """Yield the Python files that arguments of pytest name, and the conftest.py files above them."""
    for place in places:
        path = os.path.abspath(place.partition("::")[0])
        if os.path.isdir(path):
            for folder, _, names in os.walk(path):
                yield from (os.path.join(folder, name) for name in names if name.endswith(".py"))
        elif path.endswith(".py") and os.path.isfile(path):
            yield path
        else:
            continue
        while path != os.path.dirname(path):
            path = os.path.dirname(path)
            if os.path.isfile(path + "/conftest.py"):
                yield path + "/conftest.py"


class OwnTests:
    """The test files of a run."""

    def __init__(self) -> None:
        self.files: dict[str, TestFile] = {}
        self.more = False
        """There are too many files: those that were not compiled are not trusted."""

    def compile(self, config: Any, places: "list[str]") -> None:
        """Compile the test files as pytest does, and let it run that code. Others are left to pytest."""
        from pathlib import Path

        from _pytest.assertion import rewrite

        read, files = rewrite._read_pyc, self.files
        for number, path in enumerate(sources(places)):
            if number >= MOST_FILES:
                self.more = True
                break
            if path in files:
                continue
            try:
                files[path] = described(rewrite._rewrite_test(Path(path), config)[1])
            except (SyntaxError, ValueError, OSError, TypeError, AttributeError):
                continue  # pytest says it better, or is an old one
        codes = {path: file.code for path, file in files.items()}

        def read_compiled(source: Any, *rest: Any, codes: Any = codes, read: Any = read) -> Any:
            return codes.get(str(source)) or read(source, *rest)

        rewrite._read_pyc = read_compiled  # type: ignore[assignment]

    def named(self, item: Any) -> bool:
        """Return whether the module of a test has only names that its own code binds."""
        file, module = self.file(item), getattr(item, "module", None)
        if file is None or module is None:
            return not self.more
        known = vars(module)
        used = known.get("__builtins__")
        if used is not builtins and used is not vars(builtins):
            return False
        added = [name for name in known.keys() - file.names if name not in SET_UP and name[:2] != "__"]
        if file.open:
            added = [name for name in added if name == MARKS or hasattr(builtins, name)]
        return not added

    def defined(self, item: Any) -> bool:
        """Return whether a test that its file defines is that one, perhaps in decorators."""
        file = self.file(item)
        name = getattr(item, "originalname", None) or item.name.partition("[")[0]
        codes = file.functions.get(name) if file is not None else None
        return codes is None or self.reaches(getattr(item, "obj", None), codes)

    def file(self, item: Any) -> "TestFile | None":
        # not the module's own __file__, which code under test can write
        return self.files.get(str(getattr(item, "path", None) or item.fspath))

    @staticmethod
    def reaches(value: Any, codes: "list[CodeType]") -> bool:
        """Return whether one of the codes is in a function, or in what it wraps."""
        seen: dict[int, Any] = {}
        waiting = [value]
        while waiting and len(seen) < MOST_PARTS:
            one = waiting.pop(0)
            one = one.__func__ if isinstance(one, (MethodType, staticmethod, classmethod)) else one
            if id(one) in seen:
                continue
            seen[id(one)] = one
            if isinstance(one, FunctionType):
                if any(one.__code__ is code for code in codes):
                    return True
                for cell in one.__closure__ or ():
                    try:
                        waiting.append(cell.cell_contents)
                    except ValueError:  # it is empty
                        continue
            try:
                waiting.extend(object.__getattribute__(one, "__dict__").values())
            except (AttributeError, TypeError):
                continue
        return False
