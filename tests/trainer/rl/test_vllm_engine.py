"""A policy on vLLM: a stand-in answers here, vLLM itself in `make test-vllm`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
import torch
from starlette.testclient import TestClient

from mcp_bench.servers.errors import BenchError, MissingDependencyError, WrongUseError
from mcp_bench.trainer.engine.app import Policy, make_app
from mcp_bench.trainer.engine.load import Loaded, load
from mcp_bench.trainer.engine.sampling import Sampling
from mcp_bench.trainer.engine.sequence import Request
from mcp_bench.trainer.recipe import Recipe, load_recipe
from mcp_bench.trainer.rl import run
from mcp_bench.trainer.rl.collect import Rollouts
from mcp_bench.trainer.rl.credit.algorithms import Attempt
from mcp_bench.trainer.rl.credit.tokens import Sampled, make_rows
from mcp_bench.trainer.rl.folder import RLFolder, RunSettings
from mcp_bench.trainer.rl.start import check_learning
from mcp_bench.trainer.rl.vllm_engine import visible, with_engine
from tests.support.training.tiny_checkpoints import (
    QUESTION,
    QWEN3_CALL,
    TOOLS,
    learn,
    make_tokenizer,
    qwen3,
    save,
    template,
)
from tests.support.training.vllm_stand_in import SPOILED, install

pytestmark = pytest.mark.component

REAL = pytest.param(
    "vllm",
    marks=[pytest.mark.vllm, pytest.mark.skipif("MCP_BENCH_VLLM" not in os.environ, reason="make test-vllm")],
)


def recipe(*more: str) -> Recipe:
    return load_recipe("tiny-cpu-grpo", ["rl.engine.kind=vllm", *more])[1]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = make_tokenizer(template("qwen3"))
    model = qwen3(len(tokenizer))
    learn(model, tokenizer, [(QUESTION, QWEN3_CALL)])
    return save(model, tokenizer, tmp_path_factory.mktemp("policy") / "model")


@contextmanager
def variables(**given: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module", params=["stand-in", REAL])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What `vllm` is."""
    if request.param == "vllm":
        yield os.environ["MCP_BENCH_VLLM"]
    else:
        yield str(install(tmp_path_factory.mktemp("stand-in") / "vllm"))


@pytest.fixture(scope="module")
def both(
    checkpoint: Path, engine: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Loaded, Loaded]]:
    """A policy with our own engine, and another one on a server."""
    home = tmp_path_factory.mktemp("home")
    with variables(MCP_BENCH_VLLM=engine, MCP_BENCH_HOME=str(home)):
        own, other = (load(checkpoint, calls="hermes", device="cpu", cache_gib=0.1) for _ in range(2))
        served = with_engine(other, home / "engine", recipe("rl.engine.max_model_len=1024"))
        with own.engine, served.engine:
            yield own, served


def prompt(loaded: Loaded) -> list[int]:
    made = loaded.tokenizer.apply_chat_template(
        QUESTION, tools=TOOLS, add_generation_prompt=True, tokenize=True, return_dict=False
    )
    return [int(token) for token in made]


def ask(loaded: Loaded, most: int = 60, **sampling: Any) -> Any:
    request = Request(prompt(loaded), Sampling(**sampling), most, (), 0, "policy_logprobs")
    return loaded.engine.complete([request])[0]


def of_trainer(loaded: Loaded, tokens: tuple[int, ...], temperature: float) -> torch.Tensor:
    ids = torch.tensor([*prompt(loaded), *tokens])[None]
    with torch.no_grad():
        logs = (loaded.model(input_ids=ids).logits[0, :-1].float() / temperature).log_softmax(-1)
    chosen: torch.Tensor = logs.gather(1, ids[0, 1:, None])[-len(tokens) :, 0]
    return chosen


def test_a_greedy_answer_is_the_same(both: tuple[Loaded, Loaded]) -> None:
    own, served = (ask(loaded, temperature=0) for loaded in both)
    assert served.tokens == own.tokens and served.tokens[-1] in both[0].ends
    assert (served.text, served.finish_reason) == (own.text, own.finish_reason) == (QWEN3_CALL, "stop")
    cut = ask(both[1], most=5, temperature=0)
    assert (cut.tokens, cut.finish_reason) == (own.tokens[:5], "length")


def test_log_probabilities_are_those_of_the_sampled_distribution(both: tuple[Loaded, Loaded]) -> None:
    """Hot, so that other tokens than the likeliest are drawn."""
    _, served = both
    made = ask(served, temperature=2.0, seed=3)
    assert made.tokens != ask(served, temperature=2.0, seed=4).tokens
    found = torch.tensor([chosen.logprob for chosen in made.chosen])
    assert len(found) == len(made.tokens) and float(found.min()) < -0.5
    assert float((found - of_trainer(served, made.tokens, 2.0)).abs().mean()) <= 1e-4


def test_a_stop_string_ends_an_answer(both: tuple[Loaded, Loaded]) -> None:
    own, served = (
        loaded.engine.complete([Request(prompt(loaded), Sampling(temperature=0), 60, ('"name"',), 0)])[0]
        for loaded in both
    )
    assert (served.tokens, served.text) == (own.tokens, own.text) and served.text.endswith("{")


def test_new_weights_give_new_answers(both: tuple[Loaded, Loaded]) -> None:
    _, served = both
    before = ask(served, temperature=0)
    kept = {name: weight.clone() for name, weight in served.model.state_dict().items()}
    with torch.no_grad():
        for weight in served.model.parameters():
            weight.mul_(1.5 if weight.dim() > 1 else 1.0)
    try:
        assert ask(served, temperature=0).tokens == before.tokens  # as long as nobody says so
        served.engine.weights_changed()
        made = ask(served, temperature=1.0, seed=1)
        found = torch.tensor([chosen.logprob for chosen in made.chosen])
        assert float((found - of_trainer(served, made.tokens, 1.0)).abs().mean()) <= 1e-4
    finally:
        served.model.load_state_dict(kept)
        served.engine.weights_changed()
    assert ask(served, temperature=0).tokens == before.tokens


def test_the_gateway_answers_with_its_tokens(both: tuple[Loaded, Loaded]) -> None:
    """The app has no idea where its engine is; its version is counted by the trainer."""
    running: Any = Entered(both[1].engine)
    served = replace(both[1], engine=running)
    version = ["7"]
    asked = {"model": "policy", "messages": QUESTION, "tools": TOOLS, "max_tokens": 60}
    with TestClient(make_app(served, "policy", policy=Policy(lambda: version[0], temperature=0.0))) as client:
        first = client.post("/ep/v1/chat/completions", json=asked).json()
        choice = first["choices"][0]
        assert choice["message"]["tool_calls"][0]["function"]["name"] == "find"
        assert len(choice["token_ids"]) == len(choice["logprobs"]["content"]) > 20
        assert first["system_fingerprint"] == "7"
        version[0] = "8"
        streamed = client.post("/ep/v1/chat/completions", json={**asked, "stream": True}).text
        assert '"system_fingerprint": "8"' in streamed and '"name": "find"' in streamed
        refused = client.post("/ep/v1/chat/completions", json={**asked, "tool_choice": "required"})
        assert refused.status_code == 400 and "know tool_choice auto and none only" in refused.text


class Entered:
    """An engine that runs already."""

    def __init__(self, engine: Any) -> None:
        self.submit = engine.submit

    def __enter__(self) -> Entered:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Asked(Rollouts):
    """Attempts that are one question each, and are rewarded by turns, without a recording."""

    def attempts(self, folder: Path, name: str, tasks: Sequence[str], seed: int) -> list[Attempt]:
        policy = self.endpoint.policy
        policy.temperature, policy.most_tokens = self.rl.temperature, self.rl.max_tokens
        return [self._ask(task, number) for task in tasks for number in range(self.rl.attempts)]

    def _ask(self, task: str, number: int) -> Attempt:
        url = f"{self.endpoint.root.format(episode=f'{task}-{number}')}/v1/chat/completions"
        asked = {"model": self.model, "messages": QUESTION, "tools": TOOLS}
        answer = httpx2.post(url, json=asked, timeout=60).raise_for_status().json()
        VERSIONS.append(answer["system_fingerprint"])
        choice = answer["choices"][0]
        logprobs = tuple(entry["logprob"] for entry in choice["logprobs"]["content"])
        # taken as uncut, since the model ends few answers of itself
        sampled = Sampled(tuple(answer["prompt_token_ids"]), tuple(choice["token_ids"]), logprobs, cut=False)
        return Attempt("ep", task, tuple(make_rows([sampled])), float(number % 2), calls=1)


VERSIONS: list[str] = []
# what is sampled differs each time: four attempts and a high rate make any update far larger than 1e-4
LARGE_UPDATES = (
    "rl.groups=1", "rl.attempts=4", "rl.max_tokens=12", "rl.temperature=2", "rl.warmup=0",
    "rl.learning_rate=3e-3", "rl.muon_learning_rate=2e-2", "rl.guards.kl_least=100", "rl.guards.cut=1",
)  # fmt: skip


def test_a_run_learns_from_what_the_server_sampled(
    checkpoint: Path, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trainer and server agree in the second step, too: the server has the weights of the first update."""
    monkeypatch.setenv("MCP_BENCH_VLLM", engine)
    monkeypatch.setattr(run, "Rollouts", Asked)
    VERSIONS.clear()
    settings = RunSettings(
        start=str(checkpoint), algorithm="grpo", benchmark="none", tasks=("a", "b"), steps=2
    )
    folder = RLFolder(tmp_path)
    folder.make(settings, "")
    run.learn(folder, recipe(*LARGE_UPDATES), lambda line: None)
    lines = folder.lines()
    assert [line["step"] for line in lines] == [1, 2] and "".join(VERSIONS) == "00001111"
    assert all(line["mismatch"] <= 1e-4 and line["distrusted"] == 0 for line in lines)
    assert lines[1]["kl"] > 1e-3, "the first update changed the policy"
    assert (tmp_path / "model" / "model.safetensors").is_file()


def test_attempts_are_made_ahead(
    checkpoint: Path, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second step's attempts are those of the start, the third's those of the first update."""
    monkeypatch.setenv("MCP_BENCH_VLLM", engine)
    monkeypatch.setattr(run, "Rollouts", Asked)
    VERSIONS.clear()
    ahead = ("rl.guards.mismatch=10", "rl.save_every=1", "rl.ahead=1")
    settings = RunSettings(
        start=str(checkpoint), algorithm="grpo", benchmark="none", tasks=("a", "b"), steps=3
    )
    folder = RLFolder(tmp_path)
    folder.make(settings, "")
    run.learn(folder, recipe(*LARGE_UPDATES, *ahead), lambda line: None)
    first, *later = folder.lines()
    assert "".join(VERSIONS) == "000000001111"
    assert first["mismatch"] <= 1e-4
    assert all(line["mismatch"] > 1e-4 for line in later), "the trainer is one update further"
    for step in (2, 3):
        state = torch.load(folder.checkpoints / f"step-{step}" / "state.pt", weights_only=False)
        assert sum(state["curriculum"]["drawn"].values()) == step, "a resumed run draws the next tasks again"


@pytest.mark.full
def test_a_run_goes_on_when_its_server_has_died(checkpoint: Path, tmp_path: Path) -> None:
    """Five attempts at one task, of which none earns anything; the server dies with the third answer."""
    out, home = tmp_path / "run", tmp_path / "home"
    place = str(install(tmp_path / "vllm"))
    env = {**os.environ, "MCP_BENCH_VLLM": place, "MCP_BENCH_HOME": str(home), SPOILED: "dies:4"}
    root = [sys.executable, "-m", "mcp_bench.bridge.cli.root", "train", "rl"]
    small = [word for one in ("groups=1", "attempts=5", "refills=0", "max_tokens=12", "engine.kind=vllm")
             for word in ("--set", f"rl.{one}")]  # fmt: skip
    more = ["--set", "rl.guards.cut=1", "--steps", "1", "--jobs", "1", "--tasks", "1"]
    begun = [*root, "tiny-cpu-grpo", "--start", str(checkpoint), "--out", str(out), *small, *more]
    died = subprocess.run(begun, env=env, capture_output=True, text=True)
    assert died.returncode == 1, died.stderr
    assert "vllm ended with exit code 7" in died.stderr and "Engine core died" in died.stderr
    assert f"Resume with: mcp-bench train rl --resume {out}" in died.stderr
    [begun_run] = [path.name for path in (home / "runs").glob("run_*")]

    env[SPOILED] = ""
    done = subprocess.run([*root, "--resume", str(out)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [line] = RLFolder(out).lines()
    assert (line["episodes"], line["invalid"]) == (5, 0)
    assert json.loads((out / "steps" / "1" / "attempts-0.run.json").read_text())["run"] == begun_run


@pytest.mark.parametrize(
    ("spoiled", "says"),
    [
        ("old", r"vLLM cannot pause \(POST /pause is unknown\): vLLM 0.32 can"),
        ("no-ids", "vLLM does not return the tokens of its answers"),
    ],
)
def test_a_server_that_cannot_be_used(checkpoint: Path, tmp_path: Path, spoiled: str, says: str) -> None:
    loaded = load(checkpoint, calls="hermes", device="cpu", cache_gib=0.1)
    place = str(install(tmp_path / "vllm"))
    with variables(MCP_BENCH_VLLM=place, MCP_BENCH_HOME=str(tmp_path / "home"), **{SPOILED: spoiled}):
        engine = with_engine(loaded, tmp_path / "engine", recipe()).engine
        with pytest.raises(BenchError, match=says), engine:
            pass


def test_settings_that_cannot_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MCP_BENCH_VLLM", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MissingDependencyError, match="vLLM was not found: install it in a separate"):
        check_learning(recipe(), "grpo", ())
    with pytest.raises(WrongUseError, match=r"needs GPUs of its own: name them"):
        check_learning(recipe("hardware.device=cuda"), "grpo", ())
    with pytest.raises(WrongUseError, match=r"names a GPU twice"):
        check_learning(recipe("rl.engine.devices=[1,1]"), "grpo", ())
    with pytest.raises(WrongUseError, match=r"the trainer has the first 2 .* so vLLM's numbers begin at 2"):
        check_learning(
            recipe("hardware.device=cuda", "hardware.devices=2", "rl.engine.devices=[3,1]"), "grpo", ()
        )
    with pytest.raises(WrongUseError, match=r"rl\.constrain_calls needs rl\.engine\.kind=torch"):
        check_learning(recipe("rl.constrain_calls=true"), "grpo", ())
    with pytest.raises(WrongUseError, match=r"rl\.min_p needs rl\.engine\.kind=torch"):
        check_learning(recipe("rl.min_p=0.1"), "grpo", ())
    with pytest.raises(WrongUseError, match=r"vLLM takes 2 at most"):
        check_learning(recipe("rl.temperature=2.5"), "grpo", ())
    with pytest.raises(WrongUseError, match=r"are for rl\.engine\.kind=vllm"):
        check_learning(recipe("rl.engine.kind=torch", "rl.engine.devices=[1]"), "grpo", ())
    with pytest.raises(WrongUseError, match=r"rl\.ahead=1 samples while weights change"):
        check_learning(recipe("rl.engine.kind=torch", "rl.ahead=1"), "grpo", ())
    assert visible((6, 7), {}) == "6,7"
    assert visible((1, 2), {"CUDA_VISIBLE_DEVICES": "3,5,GPU-8a"}) == "5,GPU-8a"
    with pytest.raises(WrongUseError, match="CUDA_VISIBLE_DEVICES names 1"):
        visible((1,), {"CUDA_VISIBLE_DEVICES": "3"})
