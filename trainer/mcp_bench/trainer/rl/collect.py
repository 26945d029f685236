"""Roll out a policy: groups of attempts at tasks, recorded and graded like those of any other agent."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_bench.bridge.roles.models import keep_role_keys
from mcp_bench.plugins.contracts import Agent
from mcp_bench.plugins.needs import PLACEHOLDER, needs_of
from mcp_bench.plugins.own_clients.chat import Chat
from mcp_bench.recorder.isolation_levels import IN_PROCESS
from mcp_bench.recorder.paths import runs_dir
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.servers.registry import load
from mcp_bench.trainer.folders import once
from mcp_bench.trainer.rl.credit.algorithms import ALGORITHMS, Attempt
from mcp_bench.trainer.rl.credit.conversation import read_conversation
from mcp_bench.trainer.rl.credit.tokens import make_rows, read_sampled
from mcp_bench.trainer.rl.folder import RunSettings
from mcp_bench.trainer.rl.policy_server import Endpoint
from mcp_bench.trainer.rl.settings import RL
from mcp_bench.trainer.trial.measuring import tasks as task_arguments
from mcp_bench.trainer.trial.recorder import Recorder
from mcp_bench.trainer.trial.recordings import record

TRAIN = "train"
APIS = ("chat-completions", "responses", "anthropic-messages")
"""What the policy's server speaks."""
ISOLATION = "MCP_BENCH_ISOLATION"
ISOLATING = ("--isolation", "--require-isolation", "--tools", "--ray")
"""Options of `record` that choose where the agent works."""


@dataclass(frozen=True)
class Rollouts:
    """Records attempts of the policy at `endpoint`."""

    endpoint: Endpoint
    recorder: Recorder
    model: str
    settings: RunSettings
    rl: RL

    def attempts(self, folder: Path, name: str, tasks: Sequence[str], seed: int) -> list[Attempt]:
        """Record groups of attempts, or resume that, and return them.

        Args:
            folder: the step's folder.
            name: of this recording within the step.
            tasks: one group for each.
            seed: of the worlds.

        Raises:
            StepFailedError: the recording was stopped.
            BenchError: the engine has ended, a task is not one of `train`, or an answer has no tokens.
        """
        more = ["--repeat", str(self.rl.attempts), "--seed", str(seed)]
        done = once(
            folder / f"{name}.run.json",
            lambda: {"run": self._record(folder, name, tasks, self.rl.temperature, more)},
        )
        with RunReader(runs_dir() / str(done["run"])) as reader:
            hints = ALGORITHMS[self.settings.algorithm].teacher == "self"
            return [read_attempt(reader, episode, conversation=hints) for episode in reader.episodes()]

    def measure(self, folder: Path, name: str, tasks: Sequence[str]) -> str:
        """Record one greedy attempt at each task, or resume that, and return the run.

        Raises:
            StepFailedError: the recording was stopped.
            BenchError: the engine has ended.
        """
        return self._record(folder, name, tasks, 0.0, [])

    def _record(
        self, folder: Path, name: str, tasks: Sequence[str], temperature: float, more: Sequence[str]
    ) -> str:
        policy = self.endpoint.policy
        policy.temperature, policy.most_tokens = temperature, self.rl.max_tokens
        policy.min_p = self.rl.min_p if temperature > 0 else 0.0
        policy.constrain = self.rl.constrain_calls and temperature > 0
        arguments = [
            *("--agent", self.settings.agent, "--model", self.model, "--capture-llm"),
            *task_arguments(self.settings.benchmark, tasks, self.settings.jobs),
            *self.settings.record_options,
            *more,
        ]
        arguments += isolation(self.settings.agent, self.settings.record_options, os.environ)
        keep_role_keys(os.environ)
        os.environ.update(variables(self.settings.agent, self.endpoint.root))
        begun, log = folder / f"{name}.begun", folder / "record.log"
        return record(begun, arguments, log, self.endpoint.engine.check, run_command=self.recorder.run)


def isolation(agent: str, record_options: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return the option that makes our own client a part of the recorder, unless the user chose otherwise.

    It has the world's tools only, so there is nothing to keep it from, and an episode takes much less time.
    """
    plugin: Agent = load("agent", agent)()
    chosen = any(word.partition("=")[0] in ISOLATING for word in record_options)
    if not plugin.capabilities.in_process or chosen or environ.get(ISOLATION):
        return []
    return ["--isolation", IN_PROCESS]


def variables(agent: str, root: str) -> dict[str, str]:
    """Return the variables by which `mcp-bench record` sends an agent to an endpoint.

    A command line would show the secret in its URL. The keys are no keys: they keep the user's own ones from
    being sent.

    Args:
        agent: its name.
        root: the endpoint's URL before `/v1`.

    Raises:
        WrongUseError: the agent cannot be sent there.
    """
    plugin: Agent = load("agent", agent)()
    needs = needs_of(plugin)
    api = "chat-completions" if isinstance(plugin, Chat) else needs and needs.api
    if needs is None or not needs.endpoint_variables or api not in APIS:
        raise WrongUseError(
            f"agent {agent!r} cannot roll out a policy: a variable has to name its model endpoint, which has "
            f"to be one of {', '.join(APIS)}"
        )
    base = root if api == "anthropic-messages" else f"{root}/v1"
    # with its option `provider`, our own client would else go to the other provider's servers
    other = {"ANTHROPIC_BASE_URL": root} if isinstance(plugin, Chat) else {}
    return {needs.endpoint_variables[0]: base, **other, **dict.fromkeys(needs.login, PLACEHOLDER)}


def read_attempt(reader: RunReader, episode: StoredEpisode, *, conversation: bool = False) -> Attempt:
    """Return an attempt. Only an episode that is valid and not tainted has a reward.

    Raises:
        BenchError: the episode is not of a training task, or its benchmark forbids training.
    """
    if episode.split != TRAIN or not episode.trainable:
        raise BenchError(f"{episode.task} is not a task to train on (split {episode.split})")
    sampled = read_sampled(reader, episode.id)
    cut = bool(sampled) and sampled[-1].cut
    return Attempt(
        episode=episode.id,
        task=episode.task,
        rows=tuple(make_rows(sampled)),
        reward=episode.partial if is_valid(episode) and sampled else None,
        invalid=episode.invalid is not None or episode.partial is None,
        earned=episode.partial or 0.0,
        strict=bool(episode.strict),
        cut=cut,
        calls=episode.calls,
        conversation=read_conversation(reader, episode.id) if conversation else None,
    )


def is_valid(episode: StoredEpisode) -> bool:
    """Return whether an episode's grade counts: there is one, and it is neither invalid nor tainted."""
    return episode.invalid is None and episode.partial is not None and episode.taint != "tainted"
