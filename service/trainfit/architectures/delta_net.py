"""Linear attention by the delta rule: gated DeltaNet and Kimi Delta Attention (KDA).

Symbols: h hidden, H heads, d head width.
"""

from trainfit.architectures.decoder import rms
from trainfit.architectures.weights import depthwise_convolution, linear, weight
from trainfit.specs.blocks import NamedWeight, Recurrence


def gated_delta_net(
    hidden: int,
    *,
    key_heads: int,
    value_heads: int,
    key_dim: int,
    value_dim: int,
    kernel: int,
) -> Recurrence:
    """A decay and a step for each value head, an output gate as wide as the values.

    Sources: transformers/models/qwen3_next/modeling_qwen3_next.py, olmo_hybrid and qwen3_5
    (which split the same projections differently).
    """
    keys, values = key_heads * key_dim, value_heads * value_dim
    convolved = 2 * keys + values
    return Recurrence(
        flavour="gated_delta_net",
        weights=(
            *linear("in_proj_qkv", convolved, hidden),
            *linear("in_proj_z", values, hidden),
            *linear("in_proj_ba", 2 * value_heads, hidden),
            *depthwise_convolution("conv1d", convolved, kernel),
            weight("dt_bias", value_heads),
            weight("A_log", value_heads),
            *linear("out_proj", hidden, values),
        ),
        norms=(rms(value_dim),),
        projected_width=convolved + values + 2 * value_heads,
        convolved_width=convolved,
        inner_width=values,
    )


def kimi_delta_attention(
    hidden: int, *, heads: int, head_dim: int, kernel: int, low_rank_gates: str
) -> Recurrence:
    """A decay for each feature. Projections count as attention, the decay's own parameters do not.

    Of the decay f and the output gate g, those of `low_rank_gates` come through d features, the
    others straight from h.

    Sources: transformers/models/kimi_linear/modeling_kimi_linear.py, bailing_hybrid.
    """
    width = heads * head_dim
    ranks = {gate: head_dim if gate in low_rank_gates else None for gate in "fg"}
    gates = [_gate(name, width, hidden, rank) for name, rank in ranks.items()]
    return Recurrence(
        flavour="kimi_delta_attention",
        weights=(
            *linear("qkv_proj", 3 * width, hidden),
            *depthwise_convolution("conv1d", 3 * width, kernel),
            *(weight for gate in gates for weight in gate),
            weight("dt_bias", width, bucket="linear_attention"),
            weight("A_log", heads, bucket="linear_attention"),
            *linear("b_proj", heads, hidden),
            *linear("o_proj", hidden, width),
        ),
        norms=(rms(head_dim),),
        projected_width=5 * width + len(low_rank_gates) * head_dim + heads,
        convolved_width=3 * width,
        inner_width=width,
        bucket="attention",
    )


def _gate(name: str, width: int, hidden: int, rank: int | None) -> tuple[NamedWeight, ...]:
    if rank is None:
        return linear(f"{name}_proj", width, hidden)
    return (*linear(f"{name}_a_proj", rank, hidden), *linear(f"{name}_b_proj", width, rank))
