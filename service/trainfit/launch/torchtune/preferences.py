"""Losses of preferences: recipes/lora_dpo_single_device.py, lora_dpo_distributed.py and
full_dpo_distributed.py from 0.4 to 0.6, rlhf/loss/dpo.py.
"""

from __future__ import annotations

from trainfit.launch.draft import Draft, Reading
from trainfit.launch.settings import Setting

LOSS, BATCH = "/training/loss", "/training/micro_batch_size"
OF_LOSS = "loss._component_"
COMPONENTS = ("torchtune.rlhf.loss.DPOLoss", "torchtune.rlhf.loss.RSOLoss")


def is_preference(setting: Setting | None) -> bool:
    """Whether a loss compares pairs with a reference."""
    return setting is not None and str(setting.value) in COMPONENTS


def put_pairs(reading: Reading, draft: Draft) -> None:
    """Count both samples of each pair, of which a batch of such a loss is."""
    setting, size = reading.get("batch_size"), draft.get(BATCH)
    if setting is not None and isinstance(size, int) and is_preference(reading.get(OF_LOSS)):
        draft.put(BATCH, 2 * size, setting)


def put_preference(reading: Reading, draft: Draft, loss: Setting, *, compiled: bool) -> None:
    """Set what is compared: with the base without its adapters, or with a second model."""
    adapters = draft.get("/training/peft") is not None
    draft.put(f"{LOSS}/objective", "preference", loss)
    draft.put(f"{LOSS}/reference", "base" if adapters else "copy", loss)
    kind = "lora" if adapters else "full"
    draft.default(f"{LOSS}/log_probs_by", f"torchtune-{kind}", "torchtune")
    for key in ("beta", "label_smoothing", "gamma"):
        reading.get(f"loss.{key}")
    if compiled:
        draft.leave_out(loss, "a compiled model beside a loss of preferences is not modelled")
