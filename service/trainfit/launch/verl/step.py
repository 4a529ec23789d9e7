"""What the actor keeps of a step: types, the optimizer, recompute and the loss."""

from __future__ import annotations

from collections.abc import Sequence

from trainfit.launch.draft import Draft, Reading
from trainfit.launch.effects import Effect
from trainfit.launch.settings import Setting
from trainfit.launch.values import flag, size, word
from trainfit.launch.verl.beside import leave_out
from trainfit.launch.verl.keys import (
    ACTOR,
    ALWAYS_ENTROPY,
    BY_ENGINES,
    DIVIDES_APART,
    DTYPES,
    FSDP,
    MODEL,
    OPTIMIZER,
    PADS,
)
from trainfit.launch.verl.layout import SAMPLE


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


def read_loss(reading: Reading, draft: Draft, release: str, *, alone: bool) -> None:
    """Log-probabilities by flash-attn's kernel, of packed tokens or of padded samples, or with the
    head in one, and an entropy unless a trainer is `alone`.
    """
    whose = f"verl {release}"
    draft.default("/training/loss/objective", "policy", whose)
    padding = (f"{MODEL}.use_remove_padding", f"{ACTOR}.use_remove_padding")
    removes = _first(reading, padding)
    padded = not removes[0] if removes else release in PADS
    fused = (f"{MODEL}.use_fused_kernels", f"{ACTOR}.use_fused_kernels")
    in_one = [
        each for key in fused if reading.value(key, False, flag) and (each := reading.get(key))
    ]
    packed = "verl-0.9" if release == DIVIDES_APART else "verl"
    by = "verl-fused" if in_one else "verl-padded" if padded else packed
    if in_one or removes:
        draft.put(LOG_PROBS_BY, by, *(in_one or removes[1:]))
    else:
        draft.default(LOG_PROBS_BY, by, whose)
    if by == "verl-padded" and release in BY_ENGINES:
        why = f"what verl {release} makes of the logits of padded samples is not modelled"
        leave_out(reading, draft, padding, why)
    if by == "verl-padded":
        response = "data.max_response_length"
        if (setting := reading.get(response)) is not None:
            draft.put("/training/loss/logits_to_keep", reading.value(response, 512, size), setting)
        else:
            draft.default("/training/loss/logits_to_keep", SAMPLE[response], whose)
    if in_one and reading.value(f"{MODEL}.{BACKEND}", "torch", word) == "triton":
        draft.leave_out(reading.settings[f"{MODEL}.{BACKEND}"], TILES)
    if not alone:
        _read_entropy(reading, draft, release, by)


LOG_PROBS_BY = "/training/loss/log_probs_by"
BACKEND = "fused_kernel_options.impl_backend"
TILES = Effect(
    "its Triton kernels make tiles of logits, and in backward those of a part of the vocabulary",
    "either",
    "verl/utils/kernel/kernels.py: efficient_entropy_backward",
    within={LOG_PROBS_BY: "verl"},
)


def _first(reading: Reading, keys: Sequence[str]) -> tuple[bool, Setting] | tuple[()]:
    """The first of these switches that is given."""
    found = [(reading.value(key, None, flag), reading.get(key)) for key in keys]
    told = [(value, setting) for value, setting in found if setting and value is not None]
    return told[0] if told else ()


def _read_entropy(reading: Reading, draft: Draft, release: str, by: str) -> None:
    """Of packed tokens a compiled one, unless it is told not to be; of padded samples that of all
    at once. Releases before v0.4.0 compute it whatever its coefficient is.
    """
    asked, keys = _entropy_asked(reading)
    sections = (ACTOR, FSDP)
    compiled = _first(reading, [f"{section}.use_torch_compile" for section in sections])
    remade = [f"{section}.entropy_checkpointing" for section in sections]
    chunks = [f"{section}.entropy_from_logits_with_chunking" for section in sections]
    again, parts = _first(reading, remade), _first(reading, chunks)
    if not (asked or release in ALWAYS_ENTROPY):
        return
    pointer, whole = "/training/loss/entropy", not compiled or compiled[0]
    is_packed = by not in ("verl-fused", "verl-padded")
    if by == "verl-fused" or (is_packed and whole):
        kind, told = "compiled", compiled[1:]
    else:
        kind, told = ("remade", again[1:]) if again and again[0] else ("whole", compiled[1:])
        if parts and parts[0] and is_packed:
            draft.leave_out(parts[1], "an entropy in chunks that is not compiled is not modelled")
    given = [setting for key in keys if (setting := reading.get(key)) is not None]
    if given or told:
        draft.put(pointer, kind, *given, *told)
    else:
        draft.default(pointer, kind, f"verl {release}")


def _entropy_asked(reading: Reading) -> tuple[bool, Sequence[str]]:
    """Whether an entropy is a part of the loss, or told, and the keys that say so."""
    keys = (f"{ACTOR}.entropy_coeff", f"{ACTOR}.calculate_entropy")
    asked = reading.value(keys[1], False, flag)
    coefficient = reading.value(keys[0], 0)
    return bool(asked or coefficient), keys[::-1] if asked else keys


def read_megatrons_loss(reading: Reading, draft: Draft, whose: str) -> None:
    """Log-probabilities by Megatron's cross entropy, and an entropy, or both by kernels that have
    the head in one.
    """
    fused = (f"{MODEL}.use_fused_kernels", f"{ACTOR}.use_fused_kernels")
    on = [each for key in fused if reading.value(key, False, flag) and (each := reading.get(key))]
    asked, keys = _entropy_asked(reading)
    given = [setting for key in keys if (setting := reading.get(key)) is not None]
    draft.default("/training/loss/objective", "policy", whose)
    if on:
        draft.put(LOG_PROBS_BY, "verl-fused", *on)
        return
    draft.default(LOG_PROBS_BY, "verl", whose)
    if asked:
        draft.put("/training/loss/entropy", "whole", *given)
