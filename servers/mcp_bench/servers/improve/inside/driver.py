"""Runs in the sandbox: load the target, then answer questions with its functions. Standard library only.

A question is `[name, arguments]`. An answer is `{"value": ...}`, or `{"error": ..., "kind": ...}`. Whatever
this process says is the candidate's word: the clock, the questions and the expected answers are outside.
"""

import importlib.util
import os
import struct
import sys
import traceback
from collections.abc import Callable
from typing import Any

from mcp_bench.servers.improve.inside import values

LENGTH = struct.Struct("<Q")
LINES = 12
"""Of a traceback: the last ones help most."""


def serve(load: "Callable[[], Any]") -> None:
    """Load what has the functions, say that it is ready, and answer until no question comes any more."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the candidate prints is no answer
    target = load()
    put(answers, values.pack({"value": None}))
    while head := questions.read(LENGTH.size):
        name, arguments = values.unpack(questions.read(LENGTH.unpack(head)[0]))
        put(answers, answered(target, name, arguments))


def module(path: str) -> Any:
    """Load a Python file. It can import the files beside it."""
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location("target", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    found = importlib.util.module_from_spec(spec)
    sys.modules["target"] = found
    spec.loader.exec_module(found)
    return found


def answered(target: Any, name: str, arguments: "list[Any]") -> bytes:
    try:
        return values.pack({"value": getattr(target, name)(*arguments)})
    except Exception as error:
        lines = traceback.format_exc().splitlines()[-LINES:]
        return values.pack({"error": "\n".join(lines), "kind": type(error).__name__})


def put(answers: Any, data: bytes) -> None:
    answers.write(LENGTH.pack(len(data)) + data)
    answers.flush()


if __name__ == "__main__":
    serve(lambda: module(sys.argv[1]))
