"""Tensor parallelism from DeepSpeed's config (runtime/tensor_parallel/config.py)."""

from __future__ import annotations

from trainfit.launch.transformers.run import TrainerRun
from trainfit.launch.transformers.source import as_int

SIZE = "tensor_parallel.autotp_size"
OFF = (None, False, 0, 1)


def put_tensor_parallel(run: TrainerRun) -> int:
    """Set over how many ranks linears are divided; 1 where they are not."""
    setting = None if run.deepspeed is None else run.deepspeed.get(SIZE)
    if setting is None or setting.value in OFF:
        return 1
    size = as_int(setting.value)
    if size is None or size < 1:
        run.draft.complain(setting, f"{setting.value!r} is no number of ranks")
        return 1
    run.draft.put("/parallelism/tp", size, setting)
    return size
