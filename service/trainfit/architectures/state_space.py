"""The mixers of Mamba 1 and Mamba 2, which many hybrids share under key names of their own.

Symbols: h hidden, i inner width, n state size, r rank of the time step, k convolution kernel.
"""

from math import ceil

from trainfit.architectures.config import Config
from trainfit.architectures.weights import depthwise_convolution, linear, weight
from trainfit.specs.blocks import Norm, Recurrence


def time_step_rank(config: Config, key: str) -> int:
    """The rank r under `key`; "auto" is a sixteenth of the hidden size."""
    if config.get(key) == "auto":
        return ceil(config.int("hidden_size") / 16)
    return config.int(key)


def mamba_mixer(
    hidden: int,
    *,
    inner: int,
    state: int,
    rank: int,
    kernel: int,
    bias: bool,
    conv_bias: bool,
    norms: tuple[Norm, ...] = (),
) -> Recurrence:
    """Mamba 1: a decay for every feature and state; `norms` are those of time step, B and C.

    Source: transformers/models/mamba/modeling_mamba.py.
    """
    return Recurrence(
        flavour="mamba",
        weights=(
            *linear("in_proj", 2 * inner, hidden, bias=bias),
            *depthwise_convolution("conv1d", inner, kernel, bias=conv_bias),
            *linear("x_proj", rank + 2 * state, inner),
            *linear("dt_proj", inner, rank, bias=True),
            weight("A_log", inner, state),
            weight("D", inner),
            *linear("out_proj", hidden, inner, bias=bias),
        ),
        norms=norms,
        projected_width=2 * inner + rank + 2 * state + inner,
        convolved_width=inner,
        inner_width=inner,
    )


def mamba2_mixer(
    hidden: int,
    *,
    inner: int,
    heads: int,
    groups: int,
    state: int,
    kernel: int,
    in_bias: bool,
    out_bias: bool,
    conv_bias: bool,
    gated_norm: bool = True,
) -> Recurrence:
    """Mamba 2: a decay per head; B and C, one pair per group, pass the convolution too.

    Sources: transformers/models/mamba2/modeling_mamba2.py, mamba_ssm/ops/triton/ssd_combined.py
    (MambaSplitConv1dScanCombinedFn).
    """
    convolved = inner + 2 * groups * state
    projected = inner + convolved + heads
    return Recurrence(
        flavour="mamba2",
        weights=(
            *linear("in_proj", projected, hidden, bias=in_bias),
            *depthwise_convolution("conv1d", convolved, kernel, bias=conv_bias),
            weight("dt_bias", heads),
            weight("A_log", heads),
            weight("D", heads),
            *linear("out_proj", hidden, inner, bias=out_bias),
        ),
        norms=(Norm(width=inner),) if gated_norm else (),
        projected_width=projected,
        convolved_width=convolved,
        convolves_in_scan=True,
        inner_width=inner,
    )
