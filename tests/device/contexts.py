"""What a process holds of a GPU outside PyTorch's allocator, as one library after another is used.

python -m tests.device.contexts -o CONTEXTS.jsonl
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.device.measuring import on_the_device


def tensor(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Any:
    return torch.randn(*shape, dtype=dtype, device="cuda", requires_grad=True)


def attention(kernel: str) -> Callable[[], None]:
    def run() -> None:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        q, k, v = (tensor(2, 16, 1024, 128) for _ in range(3))
        with sdpa_kernel(getattr(SDPBackend, kernel)):
            attend = torch.nn.functional.scaled_dot_product_attention
            attend(q, k, v, is_causal=True).sum().backward()

    return run


def product(dtype: torch.dtype, bias: bool = False) -> Callable[[], None]:
    def run() -> None:
        layer = torch.nn.Linear(2048, 4096, bias=bias, device="cuda", dtype=dtype)
        layer(tensor(2, 1024, 2048, dtype=dtype)).sum().backward()

    return run


def grouped() -> None:
    ends = torch.tensor([256, 512, 768, 1024], device="cuda", dtype=torch.int32)
    torch._grouped_mm(tensor(1024, 512), tensor(4, 512, 1024), offs=ends).sum().backward()


def adam(**implementation: bool) -> Callable[[], None]:
    def run() -> None:
        weights = [torch.nn.Parameter(torch.ones(1024, 1024, device="cuda")) for _ in range(4)]
        optimizer = torch.optim.AdamW(weights, **implementation)
        for weight in weights:
            weight.grad = torch.ones_like(weight)
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()

    return run


def loss() -> None:
    logits = tensor(1024, 32000).float()
    target = torch.randint(32000, (1024,), device="cuda")
    torch.nn.functional.cross_entropy(logits, target).backward()


def embedding() -> None:
    table = torch.nn.Embedding(32000, 1024, device="cuda", dtype=torch.bfloat16)
    table(torch.randint(32000, (2, 1024), device="cuda")).sum().backward()


def convolution() -> None:
    torch.nn.functional.conv1d(tensor(2, 512, 1024), tensor(512, 1, 4), groups=512).sum().backward()


def compiled() -> None:
    torch.compile(lambda x: torch.nn.functional.silu(x) * x)(tensor(1024, 1024)).sum().backward()


def one_communicator() -> None:
    import torch.distributed as dist

    with tempfile.NamedTemporaryFile(delete=False) as file:
        dist.init_process_group(
            "nccl",
            init_method=f"file://{file.name}",
            rank=0,
            world_size=1,
            device_id=torch.device("cuda", 0),
        )
    dist.all_reduce(torch.ones(2**22, device="cuda"))


def another_communicator() -> None:
    import torch.distributed as dist

    group = dist.new_group([0])
    dist.all_reduce(torch.ones(2**22, device="cuda"), group=group)


def graph() -> None:
    x = torch.randn(1024, 1024, device="cuda")
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        x.add_(1)
    captured.replay()


STAGES: dict[str, Callable[[], Any]] = {
    "first tensor": lambda: torch.ones(1, device="cuda"),
    "elementwise": lambda: tensor(1024, 1024).sum().backward(),
    "embedding": embedding,
    "product bf16": product(torch.bfloat16),
    "product bf16 with bias": product(torch.bfloat16, bias=True),
    "product fp32": product(torch.float32),
    "product fp16": product(torch.float16),
    "grouped products": grouped,
    "attention flash": attention("FLASH_ATTENTION"),
    "attention memory-efficient": attention("EFFICIENT_ATTENTION"),
    "attention cuDNN": attention("CUDNN_ATTENTION"),
    "attention by formula": attention("MATH"),
    "loss": loss,
    "convolution": convolution,
    "AdamW for-loop": adam(foreach=False),
    "AdamW foreach": adam(foreach=True),
    "AdamW fused": adam(fused=True),
    "random": lambda: torch.nn.functional.dropout(tensor(1024, 1024), 0.1).sum().backward(),
    "sort": lambda: torch.randn(65536, device="cuda").sort(),
    "compiled": compiled,
    "graph": graph,
    "NCCL, one rank": one_communicator,
    "NCCL, another group": another_communicator,
}


def held(mode: str) -> list[dict[str, Any]]:
    """What lies outside the allocator, and what the allocator keeps, after each stage."""
    rows = []
    for name, stage in STAGES.items():
        row: dict[str, Any] = {"modules": mode, "after": name}
        try:
            stage()
        except Exception as error:
            row["failed"] = repr(error)[:300]
        torch.cuda.synchronize()
        row["kept_allocated_bytes"] = torch.cuda.memory_allocated()
        torch.cuda.empty_cache()
        row["outside_bytes"] = on_the_device() - torch.cuda.memory_reserved()
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.device.contexts", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    for mode in ("LAZY", "EAGER"):
        if os.fork() == 0:
            os.environ["CUDA_MODULE_LOADING"] = mode
            with options.output.open("a") as file:
                for row in held(mode):
                    file.write(json.dumps({"torch": torch.__version__, **row}) + "\n")
            os._exit(0)
        os.wait()


if __name__ == "__main__":
    main()
