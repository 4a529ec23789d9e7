"""FlashAttention under axolotl's context parallelism, which is not accelerate's.

Sources: axolotl/utils/ctx_managers/sequence_parallel.py, axolotl/monkeypatch/ring_attn/patch.py;
ring_flash_attn's llama3_flash_attn_varlen.py and ring_flash_attn.py.
"""

from __future__ import annotations

from trainfit.launch.effects import Effect
from trainfit.launch.models import text_config_of
from trainfit.launch.transformers.run import TrainerRun
from trainfit.launch.transformers.step import LENGTH, MICRO_BATCH

BACKEND = "/training/attention/backend"
NAMED = ("attn_implementation", "flash_attention")
WHY = "FlashAttention's ring gathers keys and values of the whole sequence"


def put_ring(run: TrainerRun) -> None:
    """A ring keeps of a rank's part of a sequence what accelerate's ring of sdpa keeps. It gathers
    keys and values of some heads at a time, at most [b s, g d] each in 2 bytes, while it fetches
    the next, and in backward their gradients as well.
    """
    named = [each for key in NAMED if (each := run.arguments.get(key)) is not None]
    ranks = run.draft.get("/parallelism/cp") or 1
    if ranks == 1 or run.draft.get(BACKEND) != "flash" or not named:
        return
    run.draft.put(BACKEND, "sdpa", named[0])
    length, width = run.draft.get(LENGTH), _width(run)
    if not (length and width):
        run.draft.leave_out(named[0], f"{WHY}, which is not modelled")
        return
    gathered = 2 * 2 * (run.draft.get(MICRO_BATCH) or 1) * length * width
    source = "ring_flash_attn/llama3_flash_attn_varlen.py: kv_buffer, dkv_buffer"
    run.draft.leave_out(named[0], Effect(WHY, "raises", source, bytes=4 * gathered))


def _width(run: TrainerRun) -> int:
    """g d: the width of the keys of a token; 0 where it is not known."""
    config = text_config_of(run.draft)
    heads, hidden = config.get("num_attention_heads"), config.get("hidden_size")
    if not (heads and hidden):
        return 0
    head = config.get("head_dim") or hidden // heads
    return int(head * (config.get("num_key_value_heads") or heads))
