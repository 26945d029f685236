"""Our MCP server passes all checks of the official suite that apply to a server with only tools."""

from pathlib import Path

import pytest

from tests.support.conformance.conformance_suite import REVISIONS, Start, failures, run_suite

pytestmark = pytest.mark.contract

TEXT_ONLY = "worlds return text and structured content"
NO_CLIENT_REQUESTS = "a world needs nothing from the client's model or user"
NO_RESOURCES = "worlds only offer tools, as the capabilities say"
NO_PROMPTS = "a world has no prompts; interactive use has one, without arguments"
NO_COMPLETION = "there are no prompt arguments or resource templates to complete"
NO_LOGGING = "the agent must not see the log of a benchmark"
NO_RESUMPTION = "a broken stream cannot be resumed: the server keeps no events"
NO_TASKS = "an extension that the suite does not score"
INPUT_REQUIRED = "no tool asks the client for more input (SEP-2322)"

NOT_APPLICABLE = {
    "completion-complete": NO_COMPLETION,
    "elicitation-": NO_CLIENT_REQUESTS,
    "input-required-result-": INPUT_REQUIRED,
    "logging-set-level": NO_LOGGING,
    "prompts-": NO_PROMPTS,
    "resources-": NO_RESOURCES,
    "server-sse-polling": NO_RESUMPTION,
    "tasks-": NO_TASKS,
    "tools-call-audio": TEXT_ONLY,
    "tools-call-elicitation": NO_CLIENT_REQUESTS,
    "tools-call-embedded-resource": TEXT_ONLY,
    "tools-call-image": TEXT_ONLY,
    "tools-call-mixed-content": TEXT_ONLY,
    "tools-call-sampling": NO_CLIENT_REQUESTS,
    "tools-call-with-logging": NO_LOGGING,
}
"""Prefixes of scenarios, and why they do not apply."""

CHECKS_NOT_APPLICABLE = {
    "sep-2549-prompts-list-caching-hints": NO_PROMPTS,
    "sep-2549-resources-list-caching-hints": NO_RESOURCES,
    "sep-2549-resources-templates-list-caching-hints": NO_RESOURCES,
    "sep-2575-server-rejects-undeclared-capability": NO_CLIENT_REQUESTS,
    "sep-2575-missing-capability-http-400": NO_CLIENT_REQUESTS,
}
"""Single checks of applicable scenarios, and why they do not apply."""

AT_LEAST = {"2025-11-25": 29, "2026-07-28": 74}
"""Minimum of passing checks. Fewer would mean that the suite did not really run."""


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_server_with_tools_only(revision: str, start: Start, tmp_path: Path) -> None:
    checks = run_suite(start("tests.support.http.benchmark_http_server"), revision, tmp_path / "found")
    applicable = [check for check in checks if not check.scenario.startswith(tuple(NOT_APPLICABLE))]
    failed = [check for check in failures(applicable) if check.id not in CHECKS_NOT_APPLICABLE]
    assert failed == []
    assert sum(check.status == "SUCCESS" for check in applicable) >= AT_LEAST[revision]
