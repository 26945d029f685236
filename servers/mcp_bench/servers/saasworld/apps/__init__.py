"""The apps of the simulated company, one file each. A new file in this folder is a new app."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from mcp_bench.servers.saasworld.engine.app import App
from mcp_bench.servers.saasworld.engine.operation import Operation
from mcp_bench.servers.saasworld.engine.resource import Resource


@cache
def apps() -> dict[str, App]:
    """Return the apps by name, in alphabetical order."""
    names = sorted(module.name for module in iter_modules(__path__))
    found = [import_module(f"{__name__}.{name}").APP for name in names]
    return {app.name: app for app in found}


@cache
def operations() -> dict[str, Operation]:
    """Return the operations of all apps by tool name."""
    return {operation.name: operation for app in apps().values() for operation in app.operations}


@cache
def resources() -> dict[str, Resource]:
    """Return the resources of all apps by collection name."""
    return {resource.collection: resource for app in apps().values() for resource in app.resources}
