"""The host of one episode: it asks the models of the roles, and records, limits and counts what they do.

It starts the sandboxes of the episode's world, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from mcp_bench.bridge.roles.models import RoleModel, Roles
from mcp_bench.bridge.roles.request import NoAnswerError, client_for, request
from mcp_bench.bridge.sandbox.runners.episode_sandboxes import EpisodeSandboxes
from mcp_bench.recorder.records import now_us
from mcp_bench.recorder.store.asked import Asked
from mcp_bench.recorder.trajectory import Usage
from mcp_bench.servers.contracts import ChatMessage, ToolSpec
from mcp_bench.servers.errors import HostError
from mcp_bench.servers.needs import Role
from mcp_bench.servers.sandbox import Sandbox, SandboxError, SandboxSpec

if TYPE_CHECKING:
    from openai import AsyncOpenAI

CHARACTERS = 4
"""Of a token, for endpoints that report no usage."""


@dataclass(frozen=True)
class Failure:
    """Why an episode is invalid."""

    reason: str
    detail: str
    agents_doing: bool
    """Whether the agent can bring it about, by long messages or many of them."""


class EpisodeHost:
    """What one episode's world can ask. It says no more to the world than that there is no answer."""

    def __init__(self, roles: Roles, *, seed: int, store: Callable[[Asked], None], engine: str = "") -> None:
        """Set up without a connection.

        Args:
            roles: the models, and what each may use.
            seed: sent as the seed of sampling, where the endpoint has one.
            store: gets each question as soon as it is answered, or has failed.
            engine: of its sandboxes; see `mcp_bench.bridge.sandbox.engine.choose`.
        """
        self.answered = 0
        """How many questions got an answer."""
        self.on_failure: Callable[[], None] = lambda: None
        """Called when a question fails: the attempt has no further use."""
        self._roles = roles
        self._seed = seed
        self._store = store
        self._failure: Failure | None = None
        self._gone: set[Role] = set()
        self._clients: dict[Role, AsyncOpenAI] = {}
        self._requests: dict[Role, int] = {}
        self._tokens: dict[Role, int] = {}
        self._costs: dict[Role, float] = {}
        self._sandboxes = EpisodeSandboxes(engine)
        self._begun = False

    @property
    def cost(self) -> float:
        """US dollars, as far as the endpoints report them or the operator's prices say."""
        return sum(self._costs.values())

    async def sandbox(self, spec: SandboxSpec) -> Sandbox:
        """Start a sandbox; see `Host`."""
        if self._begun:
            raise SandboxError("a world asks for its sandbox when it opens; `renew` gives a fresh one later")
        return await self._sandboxes.start(spec)

    def begin(self) -> dict[str, dict[str, Any]]:
        """Lend no more sandboxes, and return what those of the episode enforce, as probes."""
        self._begun = True
        return {
            f"sandbox-{number}": {"passed": enforced.sound, **enforced.model_dump(mode="json")}
            for number, enforced in enumerate(self._sandboxes.enforced, 1)
        }

    def take_failure(self) -> Failure | None:
        """Return the first failure since this was last asked."""
        failure, self._failure = self._failure, None
        return failure

    async def ask(
        self, role: Role, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()
    ) -> ChatMessage:
        """Ask the model of a role; see `Host`."""
        if role in self._gone:
            raise gone(role)
        model = self._roles.models.get(role)
        if model is None:
            why = f"the world asked for a model that plays the {role}: name one with --{role}-model NAME"
            raise self._failed(role, Failure("role_failed", why, agents_doing=False))
        self._count_request(model)
        started = now_us()
        error: str | None = "cancelled"
        message, usage, by = None, None, None
        try:
            with anyio.fail_after(self._roles.limits.seconds):
                message, usage, by = await request(self._client(model), model, messages, tools, self._seed)
            error = None
        except TimeoutError:
            error = f"it did not answer within {self._roles.limits.seconds} seconds"
            raise self._failed(
                role, Failure("role_failed", f"{model}: {error}", agents_doing=False)
            ) from None
        except NoAnswerError as failed:
            error, usage = str(failed), failed.usage
            reason = "role_limit" if failed.too_long else "role_failed"
            failure = Failure(reason, f"{model}: {error}", agents_doing=failed.too_long and self._begun)
            raise self._failed(role, failure) from failed
        finally:
            usage = self._roles.priced(model, usage)
            self._costs[role] = self._costs.get(role, 0.0) + ((usage and usage.cost_usd) or 0.0)
            self._store(
                Asked(
                    role=role,
                    model=model.model,
                    endpoint=model.address,
                    seed=self._seed,
                    messages=[one.model_dump(mode="json") for one in messages],
                    tools=[tool.model_dump(mode="json") for tool in tools],
                    answer=message.model_dump(mode="json") if message is not None else None,
                    error=error,
                    answered_by=by,
                    usage=usage,
                    started_us=started,
                    ended_us=now_us(),
                )
            )
        self._count(model, messages, message, usage)
        return message

    async def aclose(self) -> None:
        """Close all connections, and end all sandboxes."""
        await self._sandboxes.aclose()
        with anyio.CancelScope(shield=True):
            for client in self._clients.values():
                await client.close()

    def _client(self, model: RoleModel) -> AsyncOpenAI:
        if model.role not in self._clients:
            self._clients[model.role] = client_for(model, self._roles.limits.seconds)
        return self._clients[model.role]

    def _count_request(self, model: RoleModel) -> None:
        role, limits = model.role, self._roles.limits
        used = {
            "requests": self._requests.get(role, 0),
            "tokens": self._tokens.get(role, 0),
            "cost": self._costs.get(role, 0.0),
        }
        for what, most in limits.of_an_episode().items():
            if used[what] >= most:
                amount = f"${most:g}" if what == "cost" else f"{most:,.0f} {what}"
                why = f"{model}: {amount} are the limit of an episode (--role-limit {what}=N)"
                # a world that asks too much before the agent begins has nothing to do with the agent
                raise self._failed(role, Failure("role_limit", why, agents_doing=self._begun))
        self._requests[role] = self._requests.get(role, 0) + 1

    def _count(
        self, model: RoleModel, messages: Sequence[ChatMessage], message: ChatMessage, usage: Usage | None
    ) -> None:
        role, usage = model.role, usage or Usage()
        self.answered += 1
        tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0)
        if not tokens:
            tokens = sum(len(one.content) for one in (*messages, message)) // CHARACTERS
        self._tokens[role] = self._tokens.get(role, 0) + tokens
        if usage.cost_usd is None and self._roles.limits.cost is not None:
            why = f"{model}: its cost is not known, so no limit of cost holds: name it with --prices FILE"
            raise self._failed(role, Failure("role_failed", why, agents_doing=False))

    def _failed(self, role: Role, failure: Failure) -> HostError:
        self._gone.add(role)
        self._failure = self._failure or failure
        self.on_failure()
        return gone(role)


def gone(role: Role) -> HostError:
    """Return the error for the world, whose text an agent may read."""
    return HostError(f"the {role} does not answer any more")
