"""Methods of a world become its tools."""

from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from mcp_bench.servers.contracts import ToolSpec
from mcp_bench.servers.mcp_server.world_session import WorldSession
from mcp_bench.servers.sdk import AssertionResult, RefusedError, SimpleWorld, ToolResult, tool
from mcp_bench.servers.worlds.function_tools import function_tool

pytestmark = [pytest.mark.unit, pytest.mark.anyio]


class Shelf(SimpleWorld):
    def __init__(self) -> None:
        self.books: list[str] = []

    @tool
    def put(self, title: str, copies: int = 1) -> str:
        """Put a book on the shelf.

        Args:
            title: as on the cover.
        """
        if title in self.books:
            raise RefusedError(f"{title} is there already")
        self.books += [title] * copies
        return f"{copies} on the shelf"

    def checks(self, answer: str) -> list[AssertionResult]:
        return [AssertionResult(name="full", passed=len(self.books) > 1)]


class Library(Shelf):
    @tool
    async def look(self) -> ToolResult:
        """Look."""
        return ToolResult(text=" ".join(self.books), done=True)


def test_a_signature_is_the_schema() -> None:
    (spec,) = Shelf.toolset
    assert (spec.name, spec.description) == ("put", "Put a book on the shelf.")
    assert spec.input_schema == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "as on the cover."},
            "copies": {"type": "integer", "default": 1},
        },
        "required": ["title"],
        "additionalProperties": False,
    }
    assert [one.name for one in Library.toolset] == ["put", "look"]


async def test_calls_reach_methods() -> None:
    session = WorldSession(Library())
    assert (await session.call("put", {"title": "Emma", "copies": 2.0})).text == "2 on the shelf"
    refused = await session.call("put", {"title": "Emma"})
    assert (refused.text, refused.is_error) == ("Emma is there already", True)
    assert (await session.call("put", {"title": 5})).is_error
    assert (await session.call("look", {})).text == "Emma Emma"
    assert (await session.world.grade("")).strict


class Lamp:
    """A mixin, which is no world."""

    @tool
    def light(self) -> str:
        """Light."""
        return "light"


class Paid(BaseModel):
    amount: int


class Desk(Lamp, Library):
    @tool
    def put(self, title: str, amount: Annotated[int, Field(lt=9)]) -> str:
        """Put several books.

        Args:
            title: as on the cover,
                and: as on the spine
        """
        return str(Paid(amount=title and "none"))


class Bare(Shelf):
    toolset = (ToolSpec(name="say", description="", input_schema={"type": "object"}),)

    def say(self) -> str:
        return "said"


def test_an_override_replaces_and_mixins_count() -> None:
    assert [(one.name, one.description) for one in Desk.toolset] == [
        ("put", "Put several books."), ("look", "Look."), ("light", "Light."),
    ]  # fmt: skip
    assert [one.name for one in Bare.toolset] == ["say"]
    assert [one.name for one in type("Barer", (Bare,), {}).toolset] == ["say"]


def test_descriptions_are_whole() -> None:
    def buy(book: Annotated[str, Field(description="its title")], copies: int, note: str = "") -> None:
        """Buy.

        Args:
            copies (int): how many
                of them: at most 3,
            and at least one
            note: what for

        Raises:
            note: no description.
        """

    named = function_tool(buy).input_schema["properties"]
    assert {name: one["description"] for name, one in named.items()} == {
        "book": "its title",
        "copies": "how many of them: at most 3, and at least one",
        "note": "what for",
    }
    assert Desk.toolset[0].input_schema["properties"]["title"]["description"].endswith("and: as on the spine")


def test_a_tool_names_all_its_parameters() -> None:
    def several(*items: str) -> None: ...

    def more(**more: str) -> None: ...

    for function in (several, more):
        with pytest.raises(TypeError, match="names all its parameters"):
            function_tool(function)
    assert function_tool(more, checked=False).input_schema["properties"] == {}


async def test_arguments_beyond_the_schema_are_refused() -> None:
    world = Desk()
    refused = await world.call("put", {"title": 5, "amount": 1e30})
    assert refused.is_error
    first, second = refused.text.splitlines()
    assert first.startswith("title: Input should be") and second.startswith("amount: Unable to parse")
    with pytest.raises(ValueError, match="Paid"):  # a mistake of the world itself
        await world.call("put", {"title": "Emma", "amount": 1})
    assert (await world.call("light", {})).text == "light"


@pytest.mark.parametrize("name", ["say", "grade", "close", "nothing"])
async def test_a_method_without_the_mark_is_no_tool(name: str) -> None:
    with pytest.raises(NotImplementedError, match=f"no method {name} with @tool"):
        await Bare().call(name, {})
