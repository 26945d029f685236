"""One attempt at a task: AgentDojo's own functions on its own live environment."""

from __future__ import annotations

from collections.abc import Sequence

from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime

from mcp_bench.servers.agentdojo.grading import Run, Suite, UserTask, fresh, grade
from mcp_bench.servers.agentdojo.tools import tool_spec
from mcp_bench.servers.contracts import JSON, ToolResult, ToolSpec
from mcp_bench.servers.grading import Grade
from mcp_bench.servers.worlds.answer import ANSWER_TAKEN, SUBMIT_ANSWER


class AgentDojoWorld:
    """Implements the World contract. Results have the YAML form that AgentDojo's pipeline gives a model."""

    def __init__(self, suite: Suite, task: UserTask) -> None:
        self._suite = suite
        self._task = task
        self._runtime = FunctionsRuntime(suite.tools)
        self._after = fresh(suite, task)
        self._before = self._after.model_copy(deep=True)
        self._traces: list[FunctionCall] = []
        self._answer: str | None = None

    def tools(self) -> Sequence[ToolSpec]:
        return [*map(tool_spec, self._suite.tools), SUBMIT_ANSWER]

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        if name == SUBMIT_ANSWER.name:
            self._answer = str(arguments["answer"])
            return ANSWER_TAKEN
        call = FunctionCall(function=name, args=dict(arguments))
        self._traces.append(call)
        result, error = self._runtime.run_function(self._after, name, call.args)
        if error is not None:
            return ToolResult(text=error, is_error=True)
        return ToolResult(text=tool_result_to_str(result))

    async def grade(self, answer: str) -> Grade:
        final = answer if self._answer is None else self._answer
        return grade(self._suite, self._task, final, Run(self._before, self._after, self._traces))

    async def snapshot(self) -> JSON:
        state: JSON = self._after.model_dump(mode="json")
        return state

    async def close(self) -> None:
        """Do nothing: all state is in memory."""
