"""Check one agent: program, version, login and model endpoint."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping

from mcp_bench.bridge.doctor.endpoint import reach
from mcp_bench.bridge.doctor.finding import Check, Finding, hint, ok, problem, unset
from mcp_bench.bridge.doctor.run_checks import text_and_advice
from mcp_bench.plugins.bounded_command import answer_of
from mcp_bench.plugins.contracts import Agent, CoversMany, Installation
from mcp_bench.plugins.needs import Needs, needs_of
from mcp_bench.plugins.reaper import NOT_STARTED
from mcp_bench.servers.errors import MissingDependencyError
from mcp_bench.servers.registry import load

NODE_SECONDS = 20.0


def agent_check(
    name: str,
    environ: Mapping[str, str],
    *,
    named: bool,
    base_url: str | None,
    command: str | None,
) -> Check:
    """Return the check of one agent.

    Args:
        named: Whether the user named the agent. If it is missing, that is a problem and not only a hint.
        command: Command that starts the agent, for a plugin that covers many agents.
    """

    def run() -> Iterator[Finding]:
        agent: Agent = load("agent", name)()
        if isinstance(agent, CoversMany):
            if command is None:
                advice = f"name the agent's command: mcp-bench doctor {name} --agent-command 'kimi acp'"
                yield (problem if named else hint)("program", "covers many agents; none was checked", advice)
                return
            agent = agent.for_options({"command": command})
        try:
            found = agent.find(environ)
        except MissingDependencyError as error:
            yield (problem if named else hint)("program", *text_and_advice(error))
            return
        yield ok("program", f"{found.version}, {found.executable}")
        needs = needs_of(agent) or Needs()
        yield from version(found, needs)
        yield from node(needs, environ)
        url = needs.endpoint_for(environ, base_url)
        yield from login(needs, environ, bool(url) and url not in defaults(needs), named=named)
        if base_url and not needs.own_endpoint:
            yield problem("endpoint", "cannot be set for this agent", "leave out --base-url")
        elif url:
            yield reach(url)
        elif needs.model and needs.login:
            yield ok("endpoint", "depends on the model; not checked")

    return Check("agent", name, run)


def version(found: Installation, needs: Needs) -> Iterator[Finding]:
    if needs.tested is None:
        return
    if found.version == needs.tested:
        yield ok("version", f"{found.version} is the tested version")
        return
    age = "newer" if numbers(found.version) > numbers(needs.tested) else "older"
    text = f"{found.version} is {age} than {needs.tested}, the tested version"
    yield hint("version", text, f"if it does not work, install {needs.tested}")


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def node(needs: Needs, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Check the version of Node.js, if the agent needs it."""
    if needs.node is None:
        return
    program = shutil.which("node", path=environ.get("PATH", ""))
    if program is None:
        yield hint(
            "node", "node is not on PATH", f"if it does not start, install Node.js {needs.node} or newer"
        )
        return
    with tempfile.TemporaryDirectory(prefix="mcp-bench-") as folder:
        answer = answer_of([program, "--version"], env=environ, cwd=folder, seconds=NODE_SECONDS)
    if answer.late or answer.code == NOT_STARTED:
        words = answer.stderr.decode(errors="replace").strip()
        text = f"no version within {NODE_SECONDS:g} s" if answer.late else f"it does not start: {words}"
        yield problem("node", f"{program}: {text}", f"install Node.js {needs.node} or newer again")
        return
    printed = answer.stdout.decode(errors="replace").strip()
    if numbers(printed)[:1] >= (needs.node,):
        yield ok("node", f"Node.js {printed.removeprefix('v')}, {program}")
    else:
        text = f"Node.js {printed.removeprefix('v') or 'of an unknown version'}, {program}, is too old"
        yield problem("node", text, f"install Node.js {needs.node} or newer, or put it first on PATH")


def login(needs: Needs, environ: Mapping[str, str], elsewhere: bool, *, named: bool) -> Iterator[Finding]:
    """Check for a login by name only. It reads no value and opens no file.

    Args:
        needs: What the agent needs.
        environ: The environment.
        elsewhere: Whether requests go to the user's own endpoint, which can work without a login and never
            gets a login file.
        named: Whether the user named the agent. If not, a missing login is no problem of this machine.
    """
    if not needs.login and not needs.login_files:
        return
    names = needs.endpoint_login if elsewhere else needs.login
    variables = [name for name in names if environ.get(name)]
    files = [] if elsewhere else [file for file in needs.login_files if file.is_there(environ)]
    ways = [f"set {' or '.join(names)}"] if names else []
    if variables:
        yield ok("login", f"{variables[0]} is set")
    elif files:
        yield ok("login", f"the file {files[0].at(environ)} exists")
    elif elsewhere:
        yield hint("login", "none was found; your own endpoint may not need one", ways[0] if ways else "")
    else:
        ways += [f"run `{needs.log_in}`"] if needs.log_in else []
        ways += ["name your own endpoint with --base-url"] if needs.own_endpoint else []
        yield (problem if named else unset)("login", "none was found", ", or ".join(ways))


def defaults(needs: Needs) -> set[str | None]:
    return {needs.endpoint, *needs.endpoints.values()}
