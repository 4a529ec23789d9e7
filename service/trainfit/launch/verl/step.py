"""What the actor keeps of a step: types, the optimizer, recompute and the loss."""

from __future__ import annotations

from trainfit.launch.draft import Draft, Reading
from trainfit.launch.effects import Effect
from trainfit.launch.models import config_of
from trainfit.launch.settings import Setting
from trainfit.launch.values import flag
from trainfit.launch.verl.beside import leave_out
from trainfit.launch.verl.keys import (
    ACTOR,
    ALWAYS_ENTROPY,
    DTYPES,
    FSDP,
    MODEL,
    OPTIMIZER,
    PADS,
)


def read_precision(reading: Reading, draft: Draft, whose: str) -> None:
    """FSDP gathers in bf16 and reduces in fp32; the actor's own weights are fp32 unless set."""
    section = f"{FSDP}.mixed_precision"
    for key, field, usual in (
        (f"{FSDP}.model_dtype", "params", "fp32"),
        (f"{section}.param_dtype", "compute", "bf16"),
        (f"{section}.reduce_dtype", "gradients", "fp32"),
    ):
        pointer, setting = f"/training/precision/{field}", reading.get(key)
        if setting is None and field == "compute":
            setting = reading.get(f"{FSDP}.dtype")
        if setting is None:
            draft.default(pointer, usual, whose)
        elif str(setting.value) in DTYPES:
            draft.put(pointer, DTYPES[str(setting.value)], setting)
        else:
            draft.leave_out(setting, f"{setting.value} is not modelled")
    if (buffers := reading.get(f"{section}.buffer_dtype")) is not None:
        draft.ignore(buffers)


def read_optimizer(reading: Reading, draft: Draft) -> None:
    """torch's AdamW, which steps by lists of tensors."""
    setting = reading.get(f"{OPTIMIZER}.optimizer")
    if setting is not None and setting.value not in ("AdamW", "Adam"):
        draft.leave_out(setting, f"the optimizer {setting.value} of verl is not modelled")
    elif setting is not None:
        draft.put("/training/optimizer/name", "adam", setting)
    draft.default("/training/optimizer/implementation", "foreach", "PyTorch")


def read_recompute(reading: Reading, draft: Draft, release: str, *, usual: bool) -> None:
    """Whole layers, where that is asked for or `usual`."""
    key, pointer = f"{MODEL}.enable_gradient_checkpointing", "/training/recompute/granularity"
    enabled = reading.value(key, usual, flag)
    if (setting := reading.get(key)) is None:
        draft.default(pointer, "full" if enabled else None, f"verl {release}")
    elif enabled:
        draft.put(pointer, "full", setting)


def read_loss(reading: Reading, draft: Draft, release: str) -> None:
    """Log-probabilities by flash-attn's kernel over logits in their own type, without padding."""
    draft.default("/training/loss/cross_entropy", "fused", "verl with flash-attn")
    read_entropy(reading, draft, release, size=_logits(draft) * ENTROPY_BYTES)
    padding = (f"{MODEL}.use_remove_padding", f"{ACTOR}.use_remove_padding")
    usual = release not in PADS
    removed = [reading.value(key, None, flag) for key in padding]
    if not next((each for each in removed if each is not None), usual):
        why = "logits of padded samples are not modelled; set use_remove_padding"
        leave_out(reading, draft, padding, why)
    read_fused_kernels(reading, draft)


ENTROPY_BYTES = 4 + 4 + 16
"""Of a logit in fp32: the softmax and a wider copy, which wait for backward, and there at most four
gradients (verl/utils/torch_functional.py: entropy_from_logits; compiled or in chunks it is less).
"""


def _logits(draft: Draft) -> int:
    """Logits [b, s / c, V] that a rank makes at once; 0 where the vocabulary is not known."""
    rows = (config_of(draft) or {}).get("vocab_size") or 0
    length = draft.get("/training/seq_length") or 0
    samples = draft.get("/training/micro_batch_size") or 1
    return int(rows * samples * length // (draft.get("/parallelism/cp") or 1))


def read_entropy(reading: Reading, draft: Draft, release: str, *, size: int = 0) -> None:
    """Note an entropy of the logits, which takes so many bytes where that is known."""
    entropy = f"{ACTOR}.entropy_coeff"
    asked = reading.value(f"{ACTOR}.calculate_entropy", False, flag)
    coefficient = reading.value(entropy, 0)
    if asked or coefficient or release in ALWAYS_ENTROPY:
        why = "what the entropy keeps of the logits is not modelled"
        keys = (entropy, f"{ACTOR}.calculate_entropy")
        keys = keys[::-1] if asked else keys
        given = [setting for key in keys if (setting := reading.get(key)) is not None]
        if not size:
            leave_out(reading, draft, keys, why)
            return
        usual = Setting(entropy, 0.001, f"verl {release}", None)
        source = "verl/utils/torch_functional.py: entropy_from_logits"
        effect = Effect("an entropy of all logits besides", "raises", source, bytes=size)
        draft.leave_out(given[0] if given else usual, effect)


def read_fused_kernels(reading: Reading, draft: Draft) -> None:
    fused = (f"{MODEL}.use_fused_kernels", f"{ACTOR}.use_fused_kernels")
    on = [each for key in fused if reading.value(key, False, flag) and (each := reading.get(key))]
    for setting in on:
        draft.leave_out(setting, FUSED)


FUSED = Effect(
    "verl's fused kernels of head and loss make logits of 512 tokens at a time",
    "lowers",
    "verl/utils/experimental/torch_functional.py: FusedLinearForPPO",
    within={"/training/loss/cross_entropy": "liger"},
)
