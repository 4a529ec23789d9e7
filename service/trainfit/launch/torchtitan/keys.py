"""What becomes of each key of torchtitan, under the names of `releases.RENAMED`.

Keys that decide together with others are in no table here: `read` asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainfit.specs.optimizers import choices

COPIED: Mapping[str, str] = {
    "training.seq_len": "/training/seq_length",
    "parallelism.tensor_parallel_degree": "/parallelism/tp",
    "parallelism.context_parallel_degree": "/parallelism/cp",
    "parallelism.pipeline_parallel_degree": "/parallelism/pp",
    "parallelism.expert_parallel_degree": "/parallelism/ep",
    "parallelism.enable_sequence_parallel": "/parallelism/sequence_parallel",
    "parallelism.fsdp_reshard_after_forward": "/framework/fsdp_reshard_after_forward",
    "optimizer.early_step_in_backward": "/training/optimizer/in_backward",
    "loss.num_chunks": "/training/loss/num_chunks",
}
"""A key -> the field of a job that means the same."""

DEFAULTS: Mapping[str, Any] = {
    "/training/seq_length": 2048,
    "/parallelism/tp": 1,
    "/parallelism/cp": 1,
    "/parallelism/pp": 1,
}
"""torchtitan's defaults of fields that keys are copied to."""

OPTIMIZERS = choices("torchtitan")
"""torchtitan's names -> the service's."""

ROTATE_METHODS: Mapping[str, str] = {"allgather": "all_gather", "alltoall": "p2p"}
"""How context-parallel ranks come by each other's keys: all at once, or in turn."""

SINGLE_STAGE_SCHEDULES: Mapping[str, str] = {"1F1B": "1f1b", "GPipe": "gpipe"}
MULTI_STAGE_SCHEDULES: Mapping[str, str] = {
    "Interleaved1F1B": "interleaved",
    "LoopedBFS": "looped-bfs",
    "InterleavedZeroBubble": "interleaved-zb",
    "ZBVZeroBubble": "zb-v",
    "DualPipeV": "dualpipe-v",
}
"""Schedules of torch.distributed.pipelining -> the service's. Where no key says how many stages a
rank has, it has two of the latter."""

FLOAT8 = ("float8", "quantize.linear.float8")
"""Names of the converter to torchao's float8."""
MXFP8 = ("mx", "quantize.linear.mx")
"""Names of the converter to torchao's mxfp8."""
EXPERTS_IN_MXFP8 = "quantize.grouped_mm.mx"
"""That of the converter of grouped products to mxfp8."""
MXFP8_RECIPES = ("mxfp8", "mxfp8_rceil", "mxfp8_cublas", "mxfp8_cublas_rceil")
"""Its recipes that run as they are: others are emulated."""
NO_LINEARS_OF_LAYERS = {"output", "lm_head", "router.gate", "moe.router.gate"}
"""Modules that a converter may leave out, as none of them is a linear that narrows."""
DEFAULT_RECIPE = "tensorwise"
FLOAT8_RECIPES: Mapping[str, str] = {"tensorwise": "tensorwise", "rowwise": "rowwise"}
"""How linears scale what they multiply, where a key says so, and where none does."""

DTYPES: Mapping[str, str] = {"float32": "fp32", "bfloat16": "bf16"}
