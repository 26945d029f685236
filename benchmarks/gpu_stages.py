"""The work of the stages of `gpu.py`, each in a process of its own: `gpu_stages.py STAGE RESULT ...`."""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import torch
from gpu import LORA, NOT_HERE, join

GIB = 2**30
LLAMA_1B = {
    "model_type": "qwen3",
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
    "source": "the sizes of https://huggingface.co/meta-llama/Llama-3.2-1B, in layers of Qwen3",
}
TINY = {
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "num_hidden_layers": 4,
}
TINY_LINEAR = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}
SCORED = 8
"""One of this many tokens is trained on, as in agents' conversations."""
STEPS, WARM = 6, 2
GRPO_STEPS = 20


class Stages:
    """The stages. Each returns `figures` for the table, and whatever else later stages need."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.out: Path = options.out.absolute()
        self.device: str = options.device
        self.tiny: bool = options.tiny
        os.environ.setdefault("MCP_BENCH_HOME", str(self.out / "home"))

    def run(self, stage: str) -> dict[str, Any]:
        if stage in ("1b-16k", "1b-64k"):
            return self.long(16384 if stage == "1b-16k" else 65536)
        if stage.removeprefix("lora-") in LORA:
            return self.lora(stage.removeprefix("lora-"))
        if stage == "grpo-after":
            return self._measured(self.out / "grpo" / "model")
        found: dict[str, Any] = getattr(self, stage)()
        return found

    def machine(self) -> dict[str, Any]:
        """Measure the products of square matrices."""
        from importlib.metadata import PackageNotFoundError, version

        size = 256 if self.tiny else 8192 if self.device == "cuda" else 2048
        rates = {kind: self._product(size, kind) for kind in (torch.bfloat16, torch.float32)}
        software = []
        for package in ("torch", "transformers", "peft", "trl", "flash-attn", "vllm"):
            try:
                software.append(f"{package} {version(package)}")
            except PackageNotFoundError:
                software.append(f"no {package}")
        name = torch.cuda.get_device_name() if self.device == "cuda" else f"CPU, {os.cpu_count()} cores"
        figures = {str(kind)[6:]: f"{rate / 1e12:.3g} TFLOP/s" for kind, rate in rates.items()}
        return {
            "name": name,
            "software": ", ".join(software),
            "peak": rates[torch.bfloat16],
            "figures": figures,
        }

    def base(self) -> dict[str, Any]:
        """Write SmolLM2 as a folder, in 32 bits, which hold its dequantised weights exactly."""
        folder = self.out / "base"
        if self.tiny:
            return {**self._tiny_base(folder), "figures": {"base": "tiny, random weights"}}
        if self.options.base is None:
            raise NotHereError("--base is not given")
        if find_spec("gguf") is None:  # transformers reads the file with it
            raise NotHereError("gguf is not installed")
        from transformers import AutoModelForCausalLM, AutoTokenizer

        file = join(self.options.base)
        place = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
        loaded = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32)
        # a new model, since the loaded one refuses to be saved as anything but what it was
        config = loaded.config.to_dict()
        config.pop("quantization_config", None)
        plain = AutoModelForCausalLM.from_config(type(loaded.config)(**config), dtype=torch.float32)
        plain.load_state_dict(loaded.state_dict())
        plain.save_pretrained(folder)
        AutoTokenizer.from_pretrained(**place).save_pretrained(folder)
        return {"folder": str(folder), "figures": {"parameters": f"{_count(plain):,}"}}

    def before(self) -> dict[str, Any]:
        return self._measured(self.out / "base")

    def after(self) -> dict[str, Any]:
        return self._measured(self.out / "train" / "model")

    def train(self) -> dict[str, Any]:
        """Train with the project's own command, or without TRL by the plain loop of `gpu_plain.py`.

        With the command, a run that was cut off continues.
        """
        data = self.options.data or (self.out / "rows.jsonl" if self.tiny else None)
        if data is None:
            raise NotHereError("--data is not given")
        run, base = self.out / "train", str(self.out / "base")
        recipe = "tiny-cpu" if self.tiny else "smollm2-135m-gpu"
        overrides = [f"model.base={base}", f"hardware.device={self.device}", "training.save_every=20"]
        plain = [name for name in ("trl", "datasets") if find_spec(name) is None]
        if plain:
            from gpu_plain import train_plainly

            from mcp_bench.trainer.recipe import load_recipe

            train_plainly(load_recipe(recipe, overrides)[1], base, [data], run)
        else:
            new = [recipe, "--data", str(data), "--out", str(run)]
            new += [word for one in overrides for word in ("--set", one)]
            _bench("train", "sft", *(["--resume", str(run)] if (run / "data.json").is_file() else new))
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        memory = max(line["memory_bytes"] for line in lines)
        figures = {
            "with": f"a plain loop ({', '.join(plain)} not installed)" if plain else "train sft",
            "steps": len(lines),
            "loss": f"{lines[0]['loss']:.3f} to {lines[-1]['loss']:.3f}",
            "tokens/s": f"{median(line['tokens_per_second'] for line in lines):,.0f}",
            "memory": f"{memory / GIB:.1f} GiB",
        }
        return {"figures": figures}

    def grpo(self) -> dict[str, Any]:
        """Let the trained model learn from reward. A run that was cut off continues."""
        run, ids = self.out / "grpo", self.out / "grpo-tasks.txt"
        new = ["smollm2-135m-grpo", "--steps", str(GRPO_STEPS), "--jobs", "16"]
        overrides = [f"hardware.device={self.device}", "rl.save_every=2"]
        if self.tiny:
            new = ["tiny-cpu-grpo", "--steps", "2", "--jobs", "1"]
            overrides += [f"rl.{one}" for one in ("groups=1", "attempts=2", "max_tokens=12", "guards.cut=1")]
        if not (run / "settings.json").is_file():
            from mcp_bench.servers.registry import load

            chosen = _chosen(load("benchmark", "saasworld"), "train", (1,), 1 if self.tiny else 500)
            ids.write_text("\n".join(chosen))
            new += ["--start", str(self.out / "train" / "model"), "--tasks", str(ids), "--out", str(run)]
            new += [word for one in overrides for word in ("--set", one)]
        else:
            new = ["--resume", str(run)]
        _bench("train", "rl", *new)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        seconds = sum(line["seconds"] for line in lines)
        rewards = [line["reward"] for line in lines if line["reward"] is not None]
        figures = {
            "steps": f"{len(lines)} ({sum('loss' in line for line in lines)} with an update)",
            "reward": f"{rewards[0]:.3f} to {rewards[-1]:.3f}" if rewards else "none",
            "episodes/s": f"{sum(line['episodes'] for line in lines) / seconds:.2f}",
            "tokens/s": f"{sum(line.get('tokens', 0) for line in lines) / seconds:,.0f}",
            "rollouts": f"{sum(line['rollout_seconds'] for line in lines) / seconds:.0%} of the time",
        }
        return {"figures": figures}

    def long(self, tokens: int) -> dict[str, Any]:
        """Train a model of 1.2 billion parameters on one long sequence a step, all weights."""
        from mcp_bench.trainer.recipe import Recipe

        tokens, sizes = (128, {**LLAMA_1B, **TINY}) if self.tiny else (tokens, LLAMA_1B)
        recipe = Recipe.model_validate(
            {
                "summary": "benchmark",
                "model": {"base": None, "architecture": sizes},
                "data": {"max_length": tokens},
                "training": {"learning_rate": 1e-5, "precision": "bf16-mixed", "checkpointing": "on"},
                "hardware": {"device": self.device, "memory_gib": 79},
            }
        )
        return self._steps(recipe, tokens)

    def lora(self, name: str) -> dict[str, Any]:
        """Train a LoRA recipe for a few steps, on random weights of its sizes."""
        from mcp_bench.trainer.recipe import load_recipe

        over = []
        if self.tiny:
            known: Any = load_recipe(name)[1].model.architecture
            sizes = {**TINY, **(TINY_LINEAR if known.model_type == "qwen3_5_text" else {})}
            sizes |= {"num_local_experts": 4} if known.model_type == "gpt_oss" else {}
            over = [f"model.architecture.{key}={value}" for key, value in sizes.items()]
            over.append("data.max_length=128")
        _, recipe = load_recipe(name, over)
        return self._steps(recipe, recipe.data.max_length)

    def _steps(self, recipe: Any, tokens: int) -> dict[str, Any]:
        """Train on random tokens and return speed, memory against the plan, and the share of the peak."""
        from mcp_bench.trainer.memory import device_memory

        model = self._model(recipe).train()
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=recipe.training.learning_rate, fused=True)
        took = list(self._paces(model, optimizer, tokens, recipe.model.architecture.vocab_size))[WARM:]
        speed = tokens / median(took)
        planned = sum(device_memory(recipe).values())
        peak = json.loads((self.out / "state.json").read_text()).get("machine", {}).get("peak")
        figures = {"parameters": f"{_count(model):,}", "tokens": tokens, "tokens/s": f"{speed:,.0f}"}
        if self.device == "cuda":
            figures["memory"] = f"{torch.cuda.max_memory_allocated() / GIB:.1f} GiB"
        figures["planned"] = f"{planned / GIB:.1f} GiB"
        if peak and not recipe.lora:
            # six operations for each token and weight of the layers, those of the head, and of attention
            size = recipe.model.architecture
            head = size.vocab_size * size.hidden_size
            work = 6 * ((_count(model) - head) + head / SCORED)
            work += 6 * size.num_hidden_layers * size.num_attention_heads * size.head_dim * tokens
            figures["share of the peak"] = f"{work * speed / peak:.0%}"
        return {"figures": figures}

    def _model(self, recipe: Any) -> Any:
        from transformers import AutoConfig, AutoModelForCausalLM

        sizes = recipe.model.architecture
        kind = torch.bfloat16 if recipe.lora else torch.float32
        # FlashAttention may be missing: the recipe's kernel is what a user would install
        attention = recipe.training.attention if recipe.training.attention == "eager" else "sdpa"
        config = AutoConfig.for_model(sizes.model_type, **sizes.configuration())
        with torch.device(self.device):
            model = AutoModelForCausalLM.from_config(config, dtype=kind, attn_implementation=attention)
        if recipe.lora:
            from peft import LoraConfig, get_peft_model

            targets = list(recipe.lora.targets)
            model.enable_input_require_grads()  # else checkpointing has nothing to go back to
            model = get_peft_model(
                model, LoraConfig(r=recipe.lora.rank, lora_alpha=recipe.lora.alpha, target_modules=targets)
            )
        model.activation_checkpointing_enable({"use_reentrant": False})
        return model

    def _paces(self, model: Any, optimizer: Any, tokens: int, vocabulary: int) -> Iterator[float]:
        """Make steps and yield the seconds of each. One of `SCORED` tokens is scored, as by `train sft`."""
        inner = model.get_base_model() if hasattr(model, "get_base_model") else model
        ids = torch.randint(vocabulary, (1, tokens), device=self.device)
        for _ in range(STEPS):
            self._wait()
            began = time.perf_counter()
            with torch.autocast(self.device, dtype=torch.bfloat16):
                hidden = inner.model(input_ids=ids, use_cache=False).last_hidden_state[0, :-1:SCORED]
                logits = inner.lm_head(hidden).float()
                loss = torch.nn.functional.cross_entropy(logits, ids[0, 1::SCORED][: len(logits)])
            torch.autograd.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            self._wait()
            yield time.perf_counter() - began

    def _measured(self, model: Path) -> dict[str, Any]:
        """Serve a model, record it on dev and test tasks, and return its scores.

        This is all that knows how a model is served and asked.
        """
        from mcp_bench.servers.registry import load
        from mcp_bench.trainer.trial.measuring import served, tasks
        from mcp_bench.trainer.trial.recordings import record
        from mcp_bench.trainer.trial.scores import scores_by_group
        from mcp_bench.trainer.trial.settings import TrialSettings

        levels, most = ((1,), 1) if self.tiny else ((1, 2, 3), 40)
        groups: dict[str, str] = {}
        ids = {
            split: list(_chosen(load("benchmark", "saasworld"), split, levels, most))
            for split in ("dev", "test")
        }
        settings = TrialSettings(
            recipe="", benchmark="saasworld", dev=ids["dev"], max_tokens=12 if self.tiny else 200, jobs=16
        )
        name = model.parent.name if model.name == "model" else model.name
        with served(model, name, self.out / f"{name}.port", settings) as endpoint:
            for split, wanted in ids.items():
                named = tasks("saasworld", wanted, settings.jobs)
                found = scores_by_group(record(self.out / f"{name}-{split}.begun", [*endpoint, *named]), ())
                for group, score in found["groups"].items():
                    words = group.partition(",")[0]
                    groups[f"{split} {words}"] = f"{score['strict']:.3f} strict of {score['tasks']}"
        return {"figures": groups}

    def _tiny_base(self, folder: Path) -> dict[str, Any]:
        """Make a base by the project's commands: the oracle's rows, and a model with their vocabulary."""
        task = "simple-contact-details.1.train.0"
        rows = self.out / "rows.jsonl"
        _bench("record", "--agent", "oracle", "--task", task)
        _bench("export", "--out", str(rows), "--force")
        _bench("train", "tiny-base", "--data", str(rows), "--out", str(folder), "--steps", "2")
        return {"folder": str(folder)}

    def _product(self, size: int, kind: torch.dtype) -> float:
        """Return the operations per second of the product of two square matrices, the best of several."""
        one = torch.randn(size, size, dtype=kind, device=self.device)
        seconds = []
        for _ in range(3 if self.tiny else 10):
            self._wait()
            began = time.perf_counter()
            one @ one
            self._wait()
            seconds.append(time.perf_counter() - began)
        return float(2 * size**3 / min(seconds))

    def _wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


class NotHereError(Exception):
    """Something that a stage needs was not given."""


def _chosen(benchmark: Any, split: str, levels: Sequence[int], most: int) -> Iterator[str]:
    """Yield so many tasks of each level, from different families while there are any."""
    for level in levels:
        found = [task.id for task in benchmark.tasks(split) if f"level-{level}" in task.tags]
        yield from found[:most]


def _bench(*arguments: str) -> None:
    """Run a command of mcp-bench."""
    subprocess.run([sys.executable, "-m", "mcp_bench.bridge.cli.root", *arguments], check=True)


def _count(model: Any) -> int:
    return sum(weight.numel() for weight in model.parameters())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage")
    parser.add_argument("result", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--base", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--device", required=True)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    try:
        found = Stages(options).run(options.stage)
    except ModuleNotFoundError as error:
        print(f"{error.name} is not installed")
        sys.exit(NOT_HERE)
    except NotHereError as error:
        print(error)
        sys.exit(NOT_HERE)
    options.result.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
