"""One agent: is it here, is it the version that was tested, has it a login, can it reach its model."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from mcp_bench.bridge.doctor.endpoint import reach
from mcp_bench.bridge.doctor.finding import Check, Finding, hint, ok, problem
from mcp_bench.bridge.doctor.run_checks import text_and_advice
from mcp_bench.plugins.contracts import Agent, Installation
from mcp_bench.plugins.needs import Needs
from mcp_bench.servers.errors import MissingDependencyError
from mcp_bench.servers.registry import load

NODE_SECONDS = 20.0


def agent_check(
    name: str,
    environ: Mapping[str, str],
    *,
    named: bool = False,
    base_url: str | None = None,
    command: str | None = None,
) -> Check:
    """Return the check of one agent. One that was `named` has to be there; of the others, some are.

    `command` starts the agent, where the plugin is for many.
    """

    def run() -> Iterator[Finding]:
        agent: Agent = load("agent", name)()
        by_command = getattr(agent, "for_options", None)
        if by_command is not None and command is None:
            advice = f"name the agent's command: mcp-bench doctor {name} --agent-command 'kimi acp'"
            yield hint("program", "it stands for many agents, none of which was looked for", advice)
            return
        if by_command is not None:
            agent = by_command({"command": command})
        try:
            found = agent.find(environ)
        except MissingDependencyError as error:
            yield (problem if named else hint)("program", *text_and_advice(error))
            return
        yield ok("program", f"{found.version}, {found.executable}")
        needs = needs_of(agent)
        yield from version(found, needs)
        yield from node(needs, environ)
        url = needs.endpoint_for(environ, base_url)
        yield from login(name, needs, environ, bool(url) and url not in defaults(needs))
        if base_url and not needs.own_endpoint:
            yield problem("endpoint", "it asks its makers' models only", "leave out --base-url")
        elif url:
            yield reach(url)
        elif needs.model and needs.login:
            yield ok("endpoint", "depends on the model; not looked at")

    return Check("agent", name, run)


def needs_of(agent: Any) -> Needs:
    """Return what an agent told of its needs; nothing where its plugin is silent about them."""
    told = getattr(agent, "needs", None)
    return told if isinstance(told, Needs) else Needs()


def version(found: Installation, needs: Needs) -> Iterator[Finding]:
    if needs.tested is None:
        return
    if found.version == needs.tested:
        yield ok("version", f"{found.version} is the version that its plugin is tested with")
        return
    age = "newer" if numbers(found.version) > numbers(needs.tested) else "older"
    text = f"{found.version} is {age} than {needs.tested}, which its plugin is tested with"
    yield hint("version", text, f"nothing, while it works; else install {needs.tested}")


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def node(needs: Needs, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Look at the Node.js that the agent would be started with, where it needs one."""
    if needs.node is None:
        return
    program = shutil.which("node", path=environ.get("PATH", ""))
    if program is None:
        yield hint(
            "node", "node is not on PATH", f"install Node.js {needs.node} or newer, if it does not start"
        )
        return
    done = subprocess.run(
        [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=NODE_SECONDS
    )
    told = done.stdout.decode(errors="replace").strip()
    if numbers(told)[:1] >= (needs.node,):
        yield ok("node", f"Node.js {told.removeprefix('v')}, {program}")
    else:
        text = f"Node.js {told.removeprefix('v') or 'of an unknown version'}, {program}, is too old"
        yield problem("node", text, f"install Node.js {needs.node} or newer, or put it first on PATH")


def login(name: str, needs: Needs, environ: Mapping[str, str], elsewhere: bool) -> Iterator[Finding]:
    """Look whether there is a login, by its name only: no value is read, and no file opened.

    `elsewhere`: requests go to an endpoint of the user's own, which may ask for none, and is shown no file.
    """
    if not needs.login and not needs.login_files:
        return
    variables = [name for name in needs.login if environ.get(name)]
    if elsewhere:
        variables = [name for name in variables if name not in needs.bound]
    files = [] if elsewhere else [file for file in needs.login_files if file.is_there(environ)]
    ways = [f"set {' or '.join(needs.login)}"] if needs.login else []
    if variables:
        yield ok("login", f"{variables[0]} is set")
    elif files:
        yield ok("login", f"the file {files[0].at(environ)} is there")
    elif elsewhere:
        yield hint("login", "none was found; an endpoint of your own may need none", ways[0] if ways else "")
    else:
        ways += [f"run `{needs.log_in}`"] if needs.log_in else []
        ways += ["name an endpoint of your own (--base-url)"] if needs.own_endpoint else []
        yield problem("login", "none was found", ", or ".join(ways))


def defaults(needs: Needs) -> set[str | None]:
    return {needs.endpoint, *needs.endpoints.values()}
