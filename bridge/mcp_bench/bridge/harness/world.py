"""A world as an agent with a harness sees it: described anew, with the tools `read_skill` and `recall`.

An agent that has only the tools of its MCP server cannot open a skill's files. So the referee serves them,
and which skills were read is recorded like any other call. They never reach the world. Clients that read
resources find the same files at `skill://NAME/FILE`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

from mcp_bench.bridge.harness.folder import SKILL, TOOLS, Harness, Skill
from mcp_bench.bridge.harness.recall import RECALL, recall, recall_tool
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.servers.contracts import JSON, ToolResult, ToolSpec, World, WorldDefaults, with_defaults
from mcp_bench.servers.errors import WrongUseError, suggestion
from mcp_bench.servers.grading import Grade
from mcp_bench.servers.mcp_server.tool_session import HasResources, Resource
from mcp_bench.servers.worlds.object_tool import object_tool
from mcp_bench.servers.worlds.simple import whole_numbers

READ_SKILL = "read_skill"
OWN_TOOLS = (READ_SKILL, RECALL)
"""Tools that a harness can have. A world never sees a call of them."""


def equipped(world: World, harness: Harness | None, task: str = "") -> World:
    """Return a world with a harness's tool descriptions and skills.

    Args:
        world: the world.
        harness: the harness, if the run has one.
        task: the world's. What the harness knows of the same task cannot be recalled.
    """
    return EquippedWorld(world, harness, task) if harness is not None else world


class EquippedWorld:
    """A world with a harness."""

    def __init__(self, world: World, harness: Harness, task: str) -> None:
        self._world = world
        self._harness = harness
        self._recalled = {
            path: one for path, one in harness.recalled.items() if not one.task or one.task != task
        }
        self.changes_tools = with_defaults(world, WorldDefaults).changes_tools
        own = world.served_resources if isinstance(world, HasResources) else ()
        self.served_resources: Sequence[Resource] = [*own, *skill_resources(harness)]

    def tools(self) -> Sequence[ToolSpec]:
        return [*described(self._world.tools(), self._harness), *own_tools(self._harness)]

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        if name == READ_SKILL and self._harness.skills:
            skill = self._harness.skills[str(arguments["name"])]
            return opened(skill, str(arguments.get("file", SKILL)))
        if name == RECALL and self._harness.recalled:
            limit = whole_numbers(arguments).get("limit")
            return recall(
                self._recalled, str(arguments["words"]), *([limit] if isinstance(limit, int) else [])
            )
        return await self._world.call(name, arguments)

    async def grade(self, answer: str) -> Grade:
        return await self._world.grade(answer)

    async def snapshot(self) -> JSON:
        return await self._world.snapshot()

    async def close(self) -> None:
        await self._world.close()


def described(tools: Sequence[ToolSpec], harness: Harness | None) -> list[ToolSpec]:
    """Return tools with the harness's descriptions. Names and arguments stay."""
    texts = harness.descriptions if harness is not None else {}
    return [
        tool.model_copy(update={"description": texts[tool.name]}) if tool.name in texts else tool
        for tool in tools
    ]


def own_tools(harness: Harness) -> list[ToolSpec]:
    """Return the tools that a harness has."""
    skills = [read_skill(harness.skills)] if harness.skills else []
    return [*skills, *([recall_tool()] if harness.recalled else [])]


def read_skill(skills: Mapping[str, Skill]) -> ToolSpec:
    """Return the tool that reads these skills."""
    return object_tool(
        READ_SKILL,
        "Read a skill: instructions for one kind of work.",
        ("name",),
        name={"type": "string", "enum": list(skills), "description": "The skill."},
        file={"type": "string", "description": f"A file of the skill (default {SKILL})."},
    )


def skill_resources(harness: Harness) -> Iterator[Resource]:
    """Yield the files of a harness's skills as resources, with SKILL.md as it is written."""
    for name, skill in harness.skills.items():
        for file in (SKILL, *skill.files):
            about = skill.description if file == SKILL else f"A file of the skill {name}."
            kind = "text/markdown" if file.endswith(".md") else "text/plain"
            text = harness.files[f"skills/{name}/{file}"]
            yield Resource(f"skill://{name}/{quote(file)}", f"{name}/{file}", about, text, kind)


def opened(skill: Skill, file: str) -> ToolResult:
    """Return a file of a skill, with the names of its others after SKILL.md."""
    if file == SKILL:
        others = "".join(f"\n- {name}" for name in skill.files)
        return ToolResult(text=skill.text + (f"\n\nFiles of this skill:{others}" if others else ""))
    if file not in skill.files:
        return ToolResult(
            text=f"Skill {skill.name!r} has no file {file!r}{suggestion(file, [SKILL, *skill.files])}.",
            is_error=True,
        )
    return ToolResult(text=skill.files[file])


def with_instructions(planned: PlannedEpisode, harness: Harness | None) -> PlannedEpisode:
    """Return the episode with a harness's instructions before those of its task."""
    if harness is None:
        return planned
    system = "\n\n".join(filter(None, (harness.instructions, planned.system)))
    return planned.model_copy(update={"system": system})


def check_fits(harness: Harness, tools: Sequence[ToolSpec], where: str) -> None:
    """Check that a harness describes tools that are there.

    Raises:
        WrongUseError: it names another tool, or has a tool with the name of one that is there.
    """
    names = [tool.name for tool in tools]
    for name in harness.descriptions:
        if name not in names:
            raise WrongUseError(
                f"{harness.name}/{TOOLS}: {where} has no tool {name!r}{suggestion(name, names)}"
            )
    for tool in own_tools(harness):
        if tool.name in names:
            part = "skills" if tool.name == READ_SKILL else "recall/"
            raise WrongUseError(
                f"{where} has a tool {tool.name!r} of its own: a harness with {part} cannot be used"
            )
