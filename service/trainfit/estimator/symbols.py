"""The symbols of formulas with one job's numbers: those that all tables share, and a block's."""

from collections.abc import Container, Iterable
from itertools import chain

from trainfit.estimator.ledger import Group
from trainfit.estimator.legend import Legend
from trainfit.estimator.tensors import Size
from trainfit.specs.blocks import (
    Attention,
    Block,
    Experts,
    LatentAttention,
    Mlp,
    Recurrence,
)


def shared_symbols(sizes: Legend) -> dict[str, int]:
    """What every table of operations may name."""
    return {
        "b": sizes.b,
        "s": sizes.s,
        "n": sizes.n,
        "n'": sizes.n_shard,
        "h": sizes.h,
        "V": sizes.V,
        "t": sizes.t,
        "c": sizes.c,
        "e": sizes.e,
        "x": sizes.x,
        "streams": sizes.streams,
    }


def symbols_of(groups: Iterable[Group], shared: Container[str]) -> dict[str, int]:
    """What the shapes of these operations name besides the shared symbols."""
    named: dict[str, int] = {}
    for operation in chain.from_iterable(groups):
        for row in operation.tensors:
            for size in row.tensor.shape if row.tensor is not None else ():
                if isinstance(size, Size):
                    named |= size.symbols
    return {name: value for name, value in named.items() if name not in shared}


def block_symbols(block: Block, sizes: Legend) -> dict[str, int]:
    """What the tables of PyTorch's blocks name besides."""
    match block:
        case Attention():
            values = block.v_head_dim or block.head_dim
            return {"a": block.heads, "g": block.kv_heads, "d": block.head_dim, "d_v": values}
        case LatentAttention():
            latent = {} if block.q_lora_rank is None else {"r_q": block.q_lora_rank}
            return latent | {
                "a": block.heads,
                "r_kv": block.kv_lora_rank,
                "d_n": block.qk_nope_head_dim,
                "d_r": block.qk_rope_head_dim,
                "d_v": block.v_head_dim,
            }
        case Mlp():
            return {"f": block.ffn}
        case Experts():
            # The table of the shared experts is that of a feed-forward network of their width.
            width = block.shared_ffn
            shared = {} if width is None else {"f": width, "f_s": width}
            routed = {"E": block.experts, "k": block.top_k, "f_e": block.ffn} | shared
            tokens = sizes.n_shard if sizes.e > 1 else sizes.n
            return routed | {"T": tokens * block.top_k}
        case Recurrence():
            return {
                "projected": block.projected_width,
                "convolved": block.convolved_width,
                "inner": block.inner_width,
            }
        case _:
            return {}
