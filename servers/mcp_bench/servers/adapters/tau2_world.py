"""Worlds of tau2-bench: a ticket with the customer's phone, or a conversation with a customer.

A model plays the customer; tools and scorers are upstream's. Only a worker imports this module.
"""

from __future__ import annotations

import copy
from typing import Any

from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelName
from inspect_ai.scorer import CORRECT, Target
from inspect_ai.solver import TaskState
from inspect_ai.tool import ToolCall as InspectCall
from inspect_ai.util import store_as
from inspect_evals.tau2 import utils
from inspect_evals.tau2.common.agents import StoredAgentState
from inspect_evals.tau2.common.scorer import find_unused_actions

from mcp_bench.servers.adapters.inspect_tools import InspectWorld, specs
from mcp_bench.servers.adapters.tau2_data import SOLO, base, database, part, records, tools_of, unchanged
from mcp_bench.servers.contracts import JSON, ChatMessage, ToolResult
from mcp_bench.servers.grading import AssertionResult, Grade, partial_credit
from mcp_bench.servers.host import Host

VERSION = "inspect-evals-0.26.0-2"
ENDS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
"""What the simulated customer says to leave."""
USER_STEPS = 30
"""Calls that the customer makes on its own phone between two messages."""


class Tau2World(InspectWorld):
    """One ticket; with `reply`, one conversation."""

    def __init__(self, domain: str, name: str, host: Host) -> None:
        super().__init__(tools_of(domain))
        self.domain, self._host = domain, host
        self._record = records(domain)[name]
        self._called: dict[str, list[Any]] = {"agent": [], "user": []}
        self._said: list[str] = []
        if base(domain) == "telecom":
            self._env = part(domain, "environment", "get_environment")()
            start = self._record.initial_state
            for action in (start and start.initialization_actions) or ():
                part(domain, "solver", "perform_action")(self._env, action)
        else:
            kind = f"{domain.capitalize()}AgentTools"
            self._shop = store_as(part(domain, kind, kind), f"{domain.capitalize()}Tools")
            self._shop.db, self._shop.initialized = copy.deepcopy(database(domain)), True
        self.first = [one.passed for one in self._assertions()]

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        return await self._call("agent", name, arguments)

    async def _call(self, side: str, name: str, arguments: dict[str, JSON]) -> ToolResult:
        made = self._called[side]
        made.append(InspectCall(id=str(len(made)), function=name, arguments=arguments))
        if name not in tools_of(self.domain, side):  # a model made it up
            return ToolResult(text=f"Error: there is no tool {name}", is_error=True)
        result = await self.run(tools_of(self.domain, side)[name], arguments)
        if base(self.domain) == "telecom" and not result.is_error:
            self._env.sync_tools()
        return result

    def _assertions(self) -> list[AssertionResult]:
        found = []
        for number, one in enumerate(self._record.evaluation_criteria.env_assertions or (), 1):
            side = self._env.tools if one.env_type == "assistant" else self._env.user_tools
            passed = getattr(side, one.func_name)(**one.arguments) == one.assert_value
            found.append(
                AssertionResult(name=f"{number} {one.func_name}", passed=passed, detail=str(one.arguments))
            )
        return found

    async def grade(self, answer: str) -> Grade:
        """Return the verdict of upstream's scorer, and what it consists of as assertions."""
        self.enter()
        criteria, domain = self._record.evaluation_criteria, base(self.domain)
        calls = {
            side: ChatMessageAssistant(content="", tool_calls=made) for side, made in self._called.items()
        }
        heard = [ChatMessageUser(content=one) for one in (*self._said, answer)]
        theirs = calls["agent" if self.domain == SOLO else "user"]
        state = TaskState(ModelName("none/none"), self._record.id, 1, "", [*heard, theirs], Target(""))
        state.metadata = {"instance": "agent", "task": self._record.model_dump()}
        agent = store_as(StoredAgentState, "agent")
        agent.messages = [calls["agent"]]
        verdict = await part(domain, "scorer", f"{domain}_scorer")()(state, Target(""))
        strict = verdict.value == CORRECT
        checks = self._assertions()
        for place, before in enumerate(self.first):
            if before:
                checks[place] = checks[place].model_copy(update={"kind": "guardrail"})
        if "ACTION" in criteria.reward_basis:
            unused = {one.action_id for one in find_unused_actions(agent, state, self._record)}
            checks += [
                AssertionResult(name=one.action_id, passed=one.action_id not in unused)
                for one in criteria.actions
            ]
        if domain != "telecom":
            text = " ".join((*self._said, answer)).lower().replace(",", "")
            right = strict or "database" not in verdict.explanation
            kept = AssertionResult(
                name="the database is as expected",
                passed=right,
                kind="guardrail" if unchanged(self.domain, self._record.id) else "objective",
            )
            checks += [kept]
            checks += [
                AssertionResult(name=f"says {one}", passed=one.lower() in text)
                for one in criteria.communicate_info or ()
            ]
        credit = partial_credit(checks, strict=strict)
        return Grade(partial=credit, strict=strict, assertions=tuple(checks), grader_version=VERSION)

    async def snapshot(self) -> JSON:
        """Return the databases; of a shop's, which has megabytes, what changed."""
        if base(self.domain) == "telecom":
            return {
                side: getattr(self._env, side).db.model_dump(mode="json") for side in ("tools", "user_tools")
            }
        now, before = (one.model_dump(mode="json") for one in (self._shop.db, database(self.domain)))
        return {
            kind: {key: row for key, row in rows.items() if before[kind].get(key) != row}
            for kind, rows in now.items()
        }


class CustomerWorld(Tau2World):
    """A conversation with a customer, whom a model plays by upstream's guidelines."""

    def __init__(self, domain: str, name: str, host: Host) -> None:
        super().__init__(domain, name, host)
        rules = (
            utils.USER_SIMULATOR_GUIDELINES_WITH_TOOLS
            if domain == "telecom"
            else utils.USER_SIMULATOR_GUIDELINES
        )
        scenario = f"{rules}\n<scenario>\n{self._record.user_scenario}\n</scenario>\n"
        self._talk = [ChatMessage(role="system", content=scenario)]

    async def reply(self, said: str) -> str | None:
        self._said.append(said)
        self._talk.append(ChatMessage(role="user", content=said))
        for _ in range(USER_STEPS):
            answer = await self._host.ask("user", self._talk, specs(tools_of(self.domain, "user")))
            self._talk.append(answer)
            if not answer.calls:
                return None if any(end in answer.content for end in ENDS) else answer.content
            for call in answer.calls:  # only the customer sees the results
                done = await self._call("user", call.name, call.arguments)
                self._talk.append(ChatMessage(role="tool", name=call.name, content=done.text))
        return None
