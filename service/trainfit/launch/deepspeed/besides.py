"""What DeepSpeed's config adds to what a rank holds, bounded by the model's parameters."""

from __future__ import annotations

from dataclasses import replace

from trainfit.launch.effects import SHARING, Effect
from trainfit.launch.models import most_parameters
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.run import TrainerRun
from trainfit.launch.transformers.source import as_int

ACCUMULATED = "data_types.grad_accum_dtype"
WITHIN_A_NODE = "zero_optimization.zero_hpz_partition_size"
ENGINE = "DeepSpeed's runtime/engine.py (get_data_types), runtime/zero/stage3.py"
SHARDS = "DeepSpeed's runtime/zero/partition_parameters.py (ds_secondary_tensor)"
WIDE = ("fp32", "float32")
WIDENED = 2
"""Bytes that a gradient in bf16 or fp16 grows by, as it waits in fp32 for the optimizer."""
NARROW = 2
"""Bytes of a weight in bf16 or fp16."""


def bound_besides(run: TrainerRun) -> None:
    """Bound gradients that wait in fp32, and second shards of weights within a node."""
    source = run.deepspeed
    if source is None:
        return
    strategy = run.draft.settled(SHARING)
    ranks = run.draft.settled("/parallelism/num_gpus") or 1
    accumulated, shards = source.settings.get(ACCUMULATED), source.settings.get(WITHIN_A_NODE)
    if accumulated is not None and str(accumulated.value) in WIDE:
        of = ranks if strategy in ("optim_grads", "optim_grads_params") else 1
        why = "gradients wait for the optimizer in fp32, not in the type of the weights"
        _bound(run, source.get(ACCUMULATED), Effect(why, "raises", ENGINE), WIDENED, of)
    if shards is not None and (count := as_int(shards.value)) is not None and count > 1:
        if strategy == "optim_grads_params":
            why = "weights are shared out once more among the ranks of a node"
            _bound(run, source.get(WITHIN_A_NODE), Effect(why, "raises", SHARDS), NARROW, count)
        elif (idle := source.get(WITHIN_A_NODE)) is not None:
            run.draft.ignore(idle)


def _bound(run: TrainerRun, setting: Setting | None, effect: Effect, each: int, ranks: int) -> None:
    """Leave out a setting that adds so many bytes for each parameter, shared by so many ranks."""
    assert setting is not None
    parameters = most_parameters(run.draft)
    size = 0 if parameters is None else -(-each * parameters // ranks)
    run.draft.leave_out(setting, replace(effect, bytes=size))
