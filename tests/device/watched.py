"""A training loop that MemoryWatch looks at: what it reads, foretells, costs and leaves of errors.

    python -m tests.device.watched -o FOLDER

The folder gets `watch.json`, `question.json`, which is a body of POST /v1/reconcile, what the watch
writes where no room was found, and two steps in a `snapshot.pickle` for `trainfit snapshot
summarize`. Where Pydantic is installed, figures are compared with what is predicted.
"""

from __future__ import annotations

import argparse
import json
import pickle
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from trainfit.watch import MemoryWatch

SAMPLES, TOKENS, STEPS = 2, 4096, 40
CONFIG: dict[str, Any] = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
"""Of Llama-3.2-1B."""
JOB = {
    "model": {"hf_config": {"model_type": "llama", **CONFIG}},
    "parallelism": {"num_gpus": 1},
    "training": {
        "micro_batch_size": SAMPLES,
        "num_microbatches": 1,
        "seq_length": TOKENS,
        "precision": "bf16-pure",
    },
    "framework": {"name": "transformers"},
    "gpu": "H200",
}


class Loop:
    """A model, its optimizer, and one batch."""

    def __init__(self) -> None:
        torch.set_default_dtype(torch.bfloat16)
        with torch.device("cuda"):
            self.model = LlamaForCausalLM(LlamaConfig(**CONFIG, use_cache=False))
            self.ids = torch.randint(CONFIG["vocab_size"], (SAMPLES, TOKENS))
        torch.set_default_dtype(torch.float32)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()

    def step(self, watch: MemoryWatch | None = None) -> None:
        self.model(input_ids=self.ids, labels=self.ids).loss.backward()
        if watch is not None:
            watch.before_optimizer()
        self.optimizer.step()
        self.optimizer.zero_grad()


class Cost(NamedTuple):
    """Microseconds of the watch after a step."""

    mean: float
    median: float
    highest: float


def watched(loop: Loop, watch: MemoryWatch) -> Cost:
    """Steps of which each is looked at, and what that costs beside kernels that run."""
    taken = []
    watch.moment("model")
    for number in range(1, STEPS + 1):
        loop.step(watch)
        begun = time.perf_counter()
        watch.step_end(number)
        taken.append((time.perf_counter() - begun) * 1e6)
    return Cost(*(round(each, 2) for each in (mean(taken), median(taken), max(taken))))


def recorded(loop: Loop, path: Path) -> int:
    """Two steps in a snapshot of PyTorch's, and its bytes."""
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=200_000)
    loop.step()
    loop.step()
    path.write_bytes(pickle.dumps(torch.cuda.memory._snapshot()))
    torch.cuda.memory._record_memory_history(None)
    return path.stat().st_size


def filled(loop: Loop, watch: MemoryWatch) -> str:
    """The error of a step for which nothing was left, which the watch sees on its way."""
    held = []
    try:
        with watch:
            while True:
                held.append(torch.empty(2**30, dtype=torch.uint8, device="cuda"))
                loop.step()
    except torch.OutOfMemoryError as error:
        return str(error)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.device.watched", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    folder = parser.parse_args().output
    job = JOB if find_spec("pydantic") else None
    watch, loop = MemoryWatch(job, rank=0, folder=folder), Loop()
    found: dict[str, Any] = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name()}
    found["microseconds of a step"] = watched(loop, watch)._asdict()
    found["foretold"], found["report"] = str(watch.foretold), str(watch.report()).splitlines()
    (folder / "question.json").write_text(json.dumps(watch.question()))
    found["bytes of the snapshot"] = recorded(loop, folder / "snapshot.pickle")
    found["error"] = filled(loop, watch)
    found["left of it"] = sorted(path.name for path in folder.iterdir())
    (folder / "watch.json").write_text(json.dumps(found, indent=1))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
