"""Rows with a configuration that is known to run, or to run out of memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.accuracy import bridge_recipes, measured, performance_recipes
from tests.accuracy.cards import card_of
from tests.accuracy.outcomes import Fit, NotStatedError, UnusableRowError
from trainfit.decisions.verdict import verdict
from trainfit.questions.estimate import price as price_job
from trainfit.specs.job import Job

Row = dict[str, Any]

REPEATED = re.compile(
    r"mixed_precision(\.grad_reduce_in_fp32)?|tokenizer\.vocab_size|dataset\..*|train\..*"
    r"|ddp\.(grad_reduce_in_fp32|use_distributed_optimizer)|optimizer\.use_distributed_optimizer"
    r"|model\.(\w+_parallel(_size)?|seq_length|recompute_\w+|should_pad_vocab)"
    r"|model\.pipeline_model_parallel_layout|model\.moe_(token_dispatcher_type|flex_\w+)"
)
"""Overrides of a preset that the row's own fields repeat."""

WITHOUT_EFFECT = re.compile(
    r"dist\.enable_megatron_core_experimental|(comm_overlap|ddp)\.overlap_grad_reduce"
    r"|comm_overlap\.tp_comm_overlap_cfg"
    r"|model\.(bias_activation_fusion|moe_router_fusion|moe_router_force_load_balancing|qk_clip)"
)
"""Overrides that do not change memory."""


def group(row: Row) -> str:
    near = " near" if row.get("near_complete") and not row["complete"] else ""
    return f"runs-{row['id'].split('-')[0]}{near}"


def price(row: Row, folder: Path) -> dict[str, Fit]:  # noqa: ARG001
    """The service's verdict beside what happened."""
    measured.check_usable(row)
    card = card_of(row["gpu"])
    if card is None:
        raise UnusableRowError(f"the catalogue has no {row['gpu']['type']}")
    estimate = price_job(job_of(row))
    needed = estimate.binding.device_bytes
    return {
        "": Fit(
            fits=row["fits"],
            verdict=verdict(estimate, card.reported_bytes),
            capacity_bytes=card.reported_bytes,
            low_bytes=needed.low,
            expected_bytes=needed.expected,
            high_bytes=needed.high,
        )
    }


def job_of(row: Row) -> Job:
    """As the recipe of the row has it, where it is known which, else as the row has it."""
    job = bridge_recipes.job_of(row)
    if job is not None:
        return bridge_recipes.checked(job)
    check_expressible(row)
    return performance_recipes.completed(row, measured.job_of(row))


def check_expressible(row: Row) -> None:
    """Raise UnusableRowError where a preset says what a job cannot."""
    training, tp = row["training"], row["parallelism"]["tp"]
    if training.get("task") in ("peft", "LoRA Performance"):
        raise NotStatedError("the adapters are not stated")
    unknown = sorted(
        name
        for name, value in (training.get("overrides") or {}).items()
        if value not in (None, False)
        and not REPEATED.fullmatch(name)
        and not WITHOUT_EFFECT.fullmatch(name)
        and not (name == "comm_overlap" and _overlaps_nothing(value, tp))
    )
    if unknown:
        raise UnusableRowError(f"a job has no field for {', '.join(unknown)}")


def _overlaps_nothing(overlap: str, tp: int) -> bool:
    """Tensor-parallel communication is there to overlap only where tp > 1."""
    return "=True" not in (overlap if tp > 1 else overlap.replace("tp_comm_overlap=True", ""))
