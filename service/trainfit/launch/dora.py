"""What decomposed adapters (DoRA) take besides, at most.

A linear [o, i] learns o magnitudes, and makes its weights anew to know the norms of their rows: in
the type of its input, the frozen weight [o, i], the adapters' product [o, i] of an identity [i, i],
and their scaled sum. Its second product keeps that copy of the weight, its input [T, i], and what
each of the two factors multiplies, [T, o]. Widths are those of fp32. Source: PEFT's
tuners/lora/dora.py (DoraLinearLayer), torchtune's modules/peft/dora.py.
"""

from __future__ import annotations

from typing import NamedTuple

from trainfit.launch.draft import Draft
from trainfit.launch.effects import Effect
from trainfit.launch.models import experts_of, text_config_of
from trainfit.launch.settings import Setting

SOURCE = "peft/tuners/lora/dora.py: DoraLinearLayer"
WHY = "magnitudes of decomposed adapters, and the weights that are made for their norms"
FP32 = 4
STATE_BYTES = 20
"""Of a magnitude: itself, its gradient, two moments, what the step borrows."""
MADE = 4
"""Matrices [o, i] that are there for a norm at once."""
AT_WORK = 6
"""Tensors [T, o] of the linear at work: parts of its sum, and their gradients."""


class Linear(NamedTuple):
    """A linear that may be adapted."""

    rows: int
    columns: int


def put_dora(draft: Draft, setting: Setting) -> None:
    """Bound what a switch that is on adds to adapters on all linears of layers."""
    linears, layers = _linears(draft)
    samples, length = (
        draft.settled(f"/training/{each}") for each in ("micro_batch_size", "seq_length")
    )
    targets = draft.settled("/training/peft/target_modules") or ()
    wider = not {"lm_head", "embed_tokens"}.isdisjoint(targets)
    if not linears or not samples or not length or wider or experts_of(draft):
        draft.leave_out(setting, Effect(f"{WHY}, are not modelled", "raises", SOURCE))
        return
    tokens = samples * length
    again = draft.settled("/training/recompute/granularity") == "full"
    kept = sum(
        tokens * (2 * each.rows + each.columns) + each.rows * each.columns for each in linears
    )
    made = max(MADE * each.rows * each.columns + each.columns**2 for each in linears)
    at_work = AT_WORK * tokens * max(each.rows for each in linears)
    magnitudes = STATE_BYTES * layers * sum(each.rows for each in linears)
    size = FP32 * ((1 if again else layers) * kept + made + at_work) + magnitudes
    draft.leave_out(setting, Effect(WHY, "raises", SOURCE, bytes=size))


def _linears(draft: Draft) -> tuple[list[Linear], int]:
    """The linears of a layer of a plain decoder, and its layers; none where its sizes are not
    known.
    """
    config = text_config_of(draft)
    names = ("hidden_size", "num_attention_heads", "intermediate_size", "num_hidden_layers")
    hidden, heads, width, layers = (config.get(name) for name in names)
    if not (hidden and heads and width and layers):
        return [], 0
    head = config.get("head_dim") or hidden // heads
    groups = config.get("num_key_value_heads") or heads
    queries, keys = heads * head, groups * head
    found = [
        Linear(queries, hidden),
        Linear(keys, hidden),
        Linear(keys, hidden),
        Linear(hidden, queries),
        Linear(width, hidden),
        Linear(width, hidden),
        Linear(hidden, width),
    ]
    return found, layers
