"""Compare our engine's speed with `model.generate`, on the same model, prompts and number of tokens.

    python benchmarks/speed/engine_speed.py [CHECKPOINT] [--concurrent 1 4 16] [--prompt 64] [--new 32]

Without CHECKPOINT, the model is a random one of SmolLM2-135M's sizes. All answers are greedy and have the
same length. `generate` gets all prompts as one batch, which a server cannot do, since requests do not arrive
together. `one by one` takes as long as `generate` for one request, times their number. Rounds alternate, so
that other load affects all alike; the medians are printed.
"""

import argparse
import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from mcp_bench.trainer.chat.calls import AnswerParser, find_format
from mcp_bench.trainer.engine.engine import Engine
from mcp_bench.trainer.engine.load import choose_caches, load
from mcp_bench.trainer.engine.sampling import Sampling
from mcp_bench.trainer.engine.sequence import Request

SMOLLM2 = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}


def random_model() -> Any:
    """Return a Llama of SmolLM2-135M's sizes with random weights."""
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **SMOLLM2)).float().eval()


def small_tokenizer(size: int) -> Any:
    """Return a tokenizer with one word for each token: the text does not matter here."""
    from tokenizers import Tokenizer, models

    words = {f"w{number} ": number for number in range(size)}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="w0 ")))


def bare(model: Any, prompts: list[list[int]], new: int) -> None:
    ids = torch.tensor(prompts)
    model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=new,
        min_new_tokens=new,
        do_sample=False,
        pad_token_id=0,
    )


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(model: Any, tokenizer: Any, concurrent: int, prompt: int, new: int, rounds: int) -> None:
    random = torch.Generator().manual_seed(concurrent)
    times: dict[str, list[float]] = {"one by one": [], "generate": [], "engine": []}
    parser = AnswerParser(find_format("hermes"), None)
    engine = Engine(choose_caches(model), tokenizer, (), parser, model.device)
    size = model.get_input_embeddings().weight.shape[0]
    with engine:
        for _ in range(rounds + 1):  # the first is for warming up
            prompts = torch.randint(size, (concurrent, prompt), generator=random).tolist()
            requests = [Request(one, Sampling(temperature=0), new) for one in prompts]
            times["engine"].append(seconds(lambda requests=requests: engine.complete(requests)))  # type: ignore[misc]
            times["generate"].append(seconds(lambda prompts=prompts: bare(model, prompts, new)))  # type: ignore[misc]
            one = seconds(lambda prompts=prompts: bare(model, prompts[:1], new))  # type: ignore[misc]
            times["one by one"].append(one * concurrent)
    speeds = {name: concurrent * new / median(taken[1:]) for name, taken in times.items()}
    shown = ", ".join(f"{name} {speed:.1f} tokens/s" for name, speed in speeds.items())
    print(f"{concurrent:3} at once: {shown}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", nargs="?")
    parser.add_argument("--concurrent", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--new", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    with torch.inference_mode():
        if options.checkpoint:
            loaded = load(options.checkpoint, calls="hermes", device="cpu")
            model, tokenizer = loaded.model, loaded.tokenizer
            model.generation_config.eos_token_id = None
        else:
            model = random_model()
            tokenizer = small_tokenizer(SMOLLM2["vocab_size"])
        print(
            f"{sum(one.numel() for one in model.parameters()):,} parameters, {model.dtype}, "
            f"{torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}"
        )
        for concurrent in options.concurrent:
            measure(model, tokenizer, concurrent, options.prompt, options.new, options.rounds)


if __name__ == "__main__":
    main()
