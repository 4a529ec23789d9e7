"""What Megatron-Bridge's performance recipes say that its tables of throughput leave out.

Source: NVIDIA-NeMo/Megatron-Bridge, scripts/performance/configs of v0.2.0 to v0.4.1 and
src/megatron/bridge/perf_recipes at 067f987df03b, which agree on everything here.
"""

from __future__ import annotations

import re
from typing import Any

from tests.accuracy.outcomes import UnusableRowError
from trainfit.decisions.patch import apply, patch
from trainfit.specs.job import Job
from trainfit.specs.precision import Precision

Row = dict[str, Any]

MISPRINTED = (
    "bridge-perf-165-LLAMA3_70B-GB300-NVFP4",
    "bridge-perf-167-LLAMA3_70B-GB300-MXFP8",
)
"""Rows of a table that the recipe of its release contradicts: there they have micro-batches of 1
and 5 chunks per rank, as in the tables before and after it. They stand above the row of the same
model in fp8, which has their micro-batches of 2."""

RECOMPUTED = re.compile(r"bridge-perf-\d+-GPT-(GB200|B200|H100)-BF16")
"""Rows of recipes that recompute layernorm and moe_act."""


def completed(row: Row, job: Job) -> Job:
    """The job of a row of a table, with what its recipe adds: a fused loss, gradients in bf16,
    weights of linears in fp8 or fp4 only where the recipe gathers them so, and selective recompute.
    """
    if not row["id"].startswith(("bridge-perf-", "bridge-tab-")):
        return job
    if row["id"] in MISPRINTED:
        raise UnusableRowError("the recipe of its release says other than the row")
    precision = job.training.precision
    assert isinstance(precision, Precision)
    values: Row = {
        "/training/precision/gradients": "bf16",
        "/training/loss/cross_entropy": "te_fused",
    }
    if precision.fp8_recipe in ("mxfp8", "tensorwise"):
        values["/training/precision/fp8_param_gather"] = True
    if precision.fp4_recipe is not None:
        values["/training/precision/fp4_param_gather"] = True
    if RECOMPUTED.fullmatch(row["id"]):
        values["/training/recompute"] = {
            "granularity": "selective",
            "modules": ["layernorm", "moe_act"],
        }
    return apply(job, patch(job, values))
