"""How long kernels take by themselves: what the constants of a step's time stand for.

    python -m tests.device.kernels > KERNELS.jsonl

A line a kernel: its kind, the median of milliseconds by CUDA events, and what it was given. About a
minute on an H200. A kernel that this GPU or PyTorch does not have says so.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import torch
from torch.nn import functional

BF16, FP8, FP32 = torch.bfloat16, torch.float8_e4m3fn, torch.float32
MORE_THAN_A_CACHE = 2**28
MIB = 2**20
WIDTHS = (
    *((4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336), (10240, 8192), (8192, 8192)),
    *((57344, 8192), (8192, 28672), (1280, 8192), (8192, 1024), (7168, 8192), (8192, 3584)),
    *((2048, 7168), (7168, 2048), (1536, 2048), (2048, 768)),
)
"""Outputs and inputs of products of Llama's and of experts, whole and shared out."""
EXPERTS = (
    *((16, 8192, 1536, 2048), (16, 65536, 1536, 2048), (128, 65536, 1536, 2048)),
    *((128, 32768, 2048, 768), (8, 32768, 4096, 7168), (32, 32768, 4096, 7168)),
)
"""Experts, rows of all of them, outputs and inputs."""
ATTENTION = ((1, 32, 2048, 128), (1, 32, 4096, 128), (4, 32, 4096, 128), (1, 32, 8192, 128))
"""Samples, heads, tokens and channels; also of 64 channels, and 192 where a kernel has them."""


class Kernel(NamedTuple):
    """What is timed, so many times `each`, and what is said of it."""

    kind: str
    run: Callable[[], Any]
    given: dict[str, Any]
    each: int = 1


def random(*shape: int, dtype: torch.dtype = BF16) -> Any:
    return torch.randn(*shape, dtype=dtype, device="cuda")


def products() -> Iterator[Kernel]:
    """In bf16, and in fp8 scaled by tensor, with and without fast accumulation, or by row."""
    one = torch.ones((), device="cuda")
    for rows in (1024, 4096, 8192, 16384):
        for outputs, inputs in WIDTHS:
            given = {"m": rows, "n": outputs, "k": inputs}
            x, weight = random(rows, inputs), random(outputs, inputs)
            yield Kernel("bf16", partial(functional.linear, x, weight), given)
            narrow, by = x.to(FP8), weight.to(FP8).t()
            for fast in (True, False):
                yield _scaled("fp8 by tensor", narrow, by, one, one, {**given, "fast": fast})
            by_row = (torch.ones(rows, 1, device="cuda"), torch.ones(1, outputs, device="cuda"))
            yield _scaled("fp8 by row", narrow, by, *by_row, {**given, "fast": True})
    x, weight = random(8192, 8192), random(28672, 8192)

    def sustained() -> None:
        for _ in range(200):
            functional.linear(x, weight)

    yield Kernel("bf16, 200 on end", sustained, {"m": 8192, "n": 28672, "k": 8192}, 200)


def _scaled(kind: str, x: Any, weight: Any, a: Any, b: Any, given: dict[str, Any]) -> Kernel:
    def run() -> None:
        torch._scaled_mm(
            x, weight, scale_a=a, scale_b=b, out_dtype=BF16, use_fast_accum=given["fast"]
        )

    return Kernel(kind, run, given)


def experts() -> Iterator[Kernel]:
    """All in one kernel, and one after the other."""
    for count, rows, outputs, inputs in EXPERTS:
        given = {"experts": count, "rows": rows, "n": outputs, "k": inputs}
        x, weights = random(rows, inputs), random(count, outputs, inputs)
        each = rows // count
        ends = torch.arange(1, count + 1, device="cuda", dtype=torch.int32) * each

        def grouped(x: Any = x, weights: Any = weights, ends: Any = ends) -> None:
            torch._grouped_mm(x, weights.transpose(-2, -1), offs=ends)

        def one_by_one(x: Any = x, weights: Any = weights, each: int = each) -> None:
            for part, weight in zip(x.split(each), weights, strict=True):
                functional.linear(part, weight)

        yield Kernel("experts together", grouped, given)
        yield Kernel("experts one by one", one_by_one, given)


def attention() -> Iterator[Kernel]:
    """Causal, forward and backward, by each kernel."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    for samples, heads, tokens, channels in (*ATTENTION, (2, 64, 4096, 64), (1, 32, 4096, 192)):
        given = {"b": samples, "a": heads, "s": tokens, "d": channels}
        q, k, v = (random(samples, heads, tokens, channels).requires_grad_() for _ in range(3))
        gradient = random(samples, heads, tokens, channels)
        for name in ("FLASH_ATTENTION", "CUDNN_ATTENTION"):

            def forward(name: str = name, q: Any = q, k: Any = k, v: Any = v) -> Any:
                with sdpa_kernel(getattr(SDPBackend, name)):
                    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

            yield Kernel(f"{name} forward", forward, given)
            try:
                made = forward()
            except RuntimeError:
                continue
            inputs = (q, k, v)

            def backward(
                made: Any = made, inputs: Any = inputs, given_back: Any = gradient
            ) -> None:
                torch.autograd.grad(made, inputs, given_back, retain_graph=True)

            yield Kernel(f"{name} backward", backward, given)


def swiglu(gate: Any, up: Any) -> Any:
    return functional.silu(gate) * up


def moved() -> Iterator[Kernel]:
    """What only moves memory, by the bytes that it reads and writes."""
    for size in (4, 16, 64, 256, 1024):
        nbytes = size * MIB
        x, y = (random(nbytes // 8192, 4096) for _ in range(2))
        norm = torch.ones(4096, device="cuda", dtype=BF16)
        yield Kernel("copy", x.clone, {"bytes": 2 * nbytes})
        yield Kernel("sum", partial(torch.add, x, y), {"bytes": 3 * nbytes})
        yield Kernel("SwiGLU", partial(swiglu, x, y), {"bytes": 5 * nbytes})
        yield Kernel(
            "RMSNorm", partial(functional.rms_norm, x, (4096,), norm), {"bytes": 2 * nbytes}
        )
        yield Kernel("to fp8", partial(x.to, FP8), {"bytes": nbytes * 3 // 2})
        yield Kernel("transpose", x.t().contiguous, {"bytes": 2 * nbytes})
    host = torch.empty(2**30, dtype=torch.int8, pin_memory=True)
    here = torch.empty(2**30, dtype=torch.int8, device="cuda")
    yield Kernel("to the GPU", lambda: here.copy_(host, non_blocking=True), {"bytes": 2**30})
    yield Kernel("to the host", lambda: host.copy_(here, non_blocking=True), {"bytes": 2**30})


def optimizers() -> Iterator[Kernel]:
    """A step of AdamW of 800 million parameters."""
    for dtype, width in ((FP32, 4), (BF16, 2)):
        weights = [torch.nn.Parameter(random(50_000_000, dtype=dtype)) for _ in range(16)]
        for weight in weights:
            weight.grad = torch.randn_like(weight)
        for implementation in ("fused", "foreach"):
            step = torch.optim.AdamW(weights, lr=1e-6, **{implementation: True}).step
            given = {"dtype": str(dtype), "bytes": 7 * width * 800_000_000}
            yield Kernel(f"AdamW {implementation}", step, given)


def launches() -> Iterator[tuple[str, float]]:
    """Milliseconds of the host for an operation in place, and for a linear of a layer forward and
    backward, while the GPU has next to nothing to do.
    """
    x, weight = random(16, 16), random(16, 16).requires_grad_()

    def linears() -> None:
        y = x
        for _ in range(100):
            y = functional.linear(y, weight)
        y.sum().backward()

    for kind, run, operations in (("x += y", lambda: x.add_(x), 1), ("linears", linears, 100)):
        taken = []
        for _ in range(50):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            run()
            taken.append((time.perf_counter() - begun) * 1e3 / operations)
        yield kind, median(taken)


def milliseconds(kernel: Kernel, flush: Any) -> float:
    """The median of a dozen runs, each with cold caches."""
    for _ in range(3):
        kernel.run()
    pairs = []
    for _ in range(12 if kernel.each == 1 else 3):
        flush.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        kernel.run()
        end.record()
        pairs.append((begin, end))
    torch.cuda.synchronize()
    taken: list[float] = [begin.elapsed_time(end) for begin, end in pairs]
    return median(taken) / kernel.each


def main() -> None:
    flush = torch.empty(MORE_THAN_A_CACHE, dtype=torch.int8, device="cuda")
    print(json.dumps({"torch": torch.__version__, "gpu": torch.cuda.get_device_name()}))
    for kind, taken in launches():
        print(json.dumps({"kind": f"host: {kind}", "ms": round(taken, 6)}))
    for group in (products, experts, attention, moved, optimizers):
        for kernel in group():
            row: dict[str, Any] = {"kind": kernel.kind, **kernel.given}
            try:
                row["ms"] = round(milliseconds(kernel, flush), 5)
            except RuntimeError as error:
                row["failed"] = str(error).splitlines()[0][:200]
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
