"""The settings of a run, which its row has as one JSON object, and those of them that scores depend on."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

Durability = Literal["normal", "full"]
"""`normal`: a commit survives a killed process. `full`: it survives a power cut, too."""


class _Stored(BaseModel):
    """An object in the settings. It is written with what was set, so what it lacked when read stays absent.

    Keys of other versions are kept.
    """

    model_config = ConfigDict(extra="allow")

    @model_serializer(mode="wrap")
    def _what_was_set(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if name in self.model_fields_set}


class StoredRole(_Stored):
    """A model that plays a role in the worlds of a run."""

    model: str
    base_url: str
    """Its endpoint, without a login."""
    login: bool = False
    """Whether the URL had a login or a query, which is not stored."""


class StoredHarness(_Stored):
    """The folder of instructions, tips and skills that the agents of a run had."""

    name: str
    version: str
    """Twelve hexadecimal digits of a hash of the files."""
    files: dict[str, str]
    """Texts by their path in the folder."""

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


class CellOfRun(_Stored):
    """The cell of a matrix that a run records."""

    name: str
    """Of the matrix."""
    cell: str
    """Its name within the matrix."""
    digest: str
    """Of its values."""
    values: dict[str, Any]
    """What decides the result: the choices that are not the default."""


class RunSettings(_Stored):
    """The options of a run that have no field in `RunInfo`, but never environments, keys or tokens.

    Fields without a value were not set by the command that recorded it, or by its version.
    """

    timeout: float | None = None
    """Seconds that an attempt may take, unless its task has a limit of its own."""
    max_calls: int | None = None
    """Tool calls that an attempt may make; None: as many as its task allows."""
    max_cost: float | None = None
    """US dollars that all attempts may cost together; None: no limit."""
    retries: int | None = None
    """Further attempts where one says nothing about the agent."""
    retry_wait: float | None = None
    """Seconds before the first retry."""
    base_url: str | None = None
    """The model endpoint, without a login; None: the default of the agent."""
    capture_llm: bool = False
    """Whether requests to the model endpoint are recorded."""
    options: dict[str, str] = Field(default_factory=dict)
    """Options of the agent, also those that its harness brings."""
    agent_limits: dict[str, int] = Field(default_factory=dict)
    """Limits of each agent's processes that were changed, by name; memory and storage in MiB."""
    sandbox: str = ""
    """The engine of sandboxes, or `auto`."""
    durability: Durability = "normal"
    """What frames survive."""
    own_tools: bool | None = None
    """Whether the agents may have had tools besides those on their MCP connection; None: not known."""
    role_models: dict[str, StoredRole] = Field(default_factory=dict)
    """By role: user, judge, opponent."""
    role_limits: dict[str, int | float | None] = Field(default_factory=dict)
    """What each of these models may use in an episode: requests, tokens, seconds of a request, US dollars."""
    role_prices: dict[str, dict[str, float | None]] = Field(default_factory=dict)
    """US dollars per million tokens (`input`, `cached_input`, `output`), by the name of the model."""
    endpoint_login: bool = False
    """Whether the URL of the model endpoint had a login or a query, which is not stored."""
    harness: StoredHarness | None = None
    """None: the agents had no such folder."""
    server: list[str] | None = None
    """The third-party server: its command, or only its URL; None: a benchmark is played."""
    private_splits: list[str] | None = None
    """Splits whose tasks nobody can know beforehand; None: not known."""
    matrix: CellOfRun | None = None
    """None: the run was not started with `record --config`."""
    imported: str | None = None
    """The format of the data set that it was imported from."""


class ScoreSettings(str):
    """The settings that scores depend on, in words: `timeout 900, retries 2, options drop=0.5 effort=high`.

    It is a text, since it is a key of groups and the column `harness` of reports. Its parts are by name, that
    of a setting or of an option of the agent.
    """

    values: Mapping[str, str]
    """Such as `{"timeout": "900", "drop": "0.5"}`."""
    words: Mapping[str, str]
    """Such as `{"timeout": "timeout 900", "drop": "drop=0.5"}`."""

    @classmethod
    def of(cls, settings: RunSettings) -> Self:
        """Return those of a run.

        The endpoint's URL is one only in a matrix, which may compare endpoints: elsewhere, a local server
        has any port.
        """
        models = {role: one.model for role, one in settings.role_models.items()}
        found = {
            "timeout": None if settings.timeout is None else f"{settings.timeout:g}",
            "max_calls": settings.max_calls,
            "retries": settings.retries,
            "endpoint": None if settings.matrix is None else settings.base_url,
            **{role: models.get(role) for role in ("user", "judge", "opponent")},
            "harness": settings.harness,
        }
        values = {name: str(value) for name, value in found.items() if value is not None}
        words = {name: f"{name} {value}" for name, value in values.items()}
        options = {name: f"{name}={value}" for name, value in sorted(settings.options.items())}
        of_agent = [f"options {shlex.join(options.values())}"] if options else []
        made = cls(", ".join([*words.values(), *of_agent]))
        made.values = {**values, **settings.options}
        made.words = {**words, **options}
        return made
