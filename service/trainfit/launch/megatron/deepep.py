"""The dispatcher flex with DeepEP's kernels, by what an all-to-all of rows holds.

A rank gets each token once, however many of its experts want it, and makes a row for each of these:
where an all-to-all permutes rows before it sends them, T = n k of them, nothing is held, and no
more than T where they arrive. Beside them lies a buffer. Sources: megatron-core's
transformer/moe/token_dispatcher.py (_DeepepManager) and fused_a2a.py (get_buffer); DeepEP's
csrc/legacy/config.hpp and deep_ep/buffers/legacy.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainfit.launch.draft import Draft, Reading
from trainfit.launch.effects import Effect
from trainfit.launch.models import config_of
from trainfit.launch.values import whole

DISPATCHER = "/training/moe/token_dispatcher_type"
BACKEND = "/training/moe/flex_dispatcher_backend"
NODE = 8
"""Ranks that reach each other by NVLink; more come in whole nodes."""
IN_A_NODE: Mapping[int, int] = {8: 256, 64: 288, 96: 480, 128: 560, 160: 720}
"""Most tokens of a channel from each rank of a node, up to so many ranks."""
FROM_NODES = 140
"""Most tokens of a channel from each node, sent and received, as any number of ranks has them."""
BESIDE_BYTES = 8 + 16 + 128 * (8 + 4 + 4)
"""Of a token: its source, where it goes, and up to 128 experts, probabilities and scales."""
SMS = 20
"""Multiprocessors that exchange; each two have a channel."""


def read_deepep(reading: Reading) -> None:
    """Read the dispatcher as an all-to-all, with the buffer above it and the rows that are not
    permuted below, where both are known.
    """
    draft = reading.draft
    if draft.get(DISPATCHER) != "flex" or draft.get(BACKEND) not in (None, "deepep"):
        return
    setting = draft.origins.get(BACKEND) or draft.origins.get(DISPATCHER)
    size = _buffer_bytes(draft, reading.value("moe_deepep_num_sms", SMS, whole) or SMS)
    rows = _row_bytes(draft)
    if setting is None or not (size and rows):
        return
    draft.put(DISPATCHER, "alltoall", setting)
    effect = Effect(
        "DeepEP's kernels permute no rows before they send them, and have a buffer of their own",
        "either",
        "DeepEP's csrc/legacy/config.hpp, megatron/core/transformer/moe/fused_a2a.py",
        bytes=max(size, rows),
    )
    draft.leave_out(setting, effect)


def _row_bytes(draft: Draft) -> int:
    """Bytes of the rows [b s k / c, h] of a layer and their gradients; 0 where k is not known."""
    hidden, config = _hidden(draft), config_of(draft) or {}
    chosen = draft.get("/model/spec/moe_router_topk") or config.get("num_experts_per_tok") or 0
    samples = draft.get("/training/micro_batch_size") or 1
    tokens = samples * (draft.get("/training/seq_length") or 0)
    return int(2 * 2 * tokens * chosen * hidden // (draft.get("/parallelism/cp") or 1))


def _hidden(draft: Draft) -> int:
    return int(
        draft.get("/model/spec/hidden_size") or (config_of(draft) or {}).get("hidden_size") or 0
    )


def _buffer_bytes(draft: Draft, sms: int) -> int:
    """Bytes for the ranks that share the experts; 0 where they or the width are not known."""
    sizes = [draft.get(f"/parallelism/{name}") or 1 for name in ("ep", "etp")]
    ranks = sizes[0] * sizes[1]
    hidden = _hidden(draft)
    most = next((tokens for limit, tokens in IN_A_NODE.items() if ranks <= limit), None)
    if not hidden or most is None:
        return 0
    channels, token = sms // 2, 2 * hidden + BESIDE_BYTES
    nodes = ranks // NODE
    between = 2 * nodes * FROM_NODES * token if nodes > 1 else 0
    return int(channels * (min(ranks, NODE) * most * token + between))
