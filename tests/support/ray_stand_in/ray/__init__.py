"""A stand-in for Ray: nodes are objects in the driver's process, and their actors run there.

Everything else of the engine is real: the driver, the referee processes, the folders that come home. Tests
put the folder above on PYTHONPATH. RAY_STAND_IN names the nodes: `a,b`.
"""

import os
import socket
from types import SimpleNamespace
from typing import Any

_HEAD = socket.create_server(("127.0.0.1", 0))
"""The driver looks whether it answers."""


class _Method:
    def __init__(self, method: Any) -> None:
        self._method = method

    async def remote(self, *arguments: Any) -> Any:
        answer = self._method(*arguments)
        return await answer if hasattr(answer, "__await__") else answer


class _Actor:
    def __init__(self, kind: Any) -> None:
        self._own = kind()

    def __getattr__(self, name: str) -> Any:
        return _Method(getattr(self._own, name))


def init(**options: Any) -> None:
    if options["address"] != "auto":
        raise ConnectionError("no such cluster")


def shutdown() -> None:
    pass


def nodes() -> list[dict[str, Any]]:
    names = os.environ["RAY_STAND_IN"].split(",")
    return [
        {"NodeID": name * 8, "NodeName": name, "Alive": True, "Resources": {"CPU": 2.0}} for name in names
    ]


def get_runtime_context() -> Any:
    return SimpleNamespace(gcs_address=f"127.0.0.1:{_HEAD.getsockname()[1]}")


def remote(kind: Any) -> Any:
    def options(**given: Any) -> Any:
        assert given["num_cpus"] == 0
        return SimpleNamespace(remote=lambda: _Actor(kind))

    return SimpleNamespace(options=options)
