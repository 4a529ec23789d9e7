"""What PEFT trains for virtual tokens. Symbols: estimator.legend; p tokens, e the encoder's width.

A table has a row for each token. Prompt tuning puts its rows [p, h] before the embeddings of every
sample; P-tuning has an encoder between, which runs once for all samples. Prefix tuning has rows of
keys and values of all layers [p, 2 L g d], once for each sample. All of it is stored in fp32, and
narrowed to what the model computes in. Sources: peft's tuners/prompt_tuning, tuners/p_tuning and
tuners/prefix_tuning (model.py), peft_model.py (get_prompt); transformers' cache_utils.py
(DynamicLayer); torch.nn.LSTM.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from trainfit.estimator.blocks.linear.pytorch import linear
from trainfit.estimator.ledger import Operation, backward, forward, gradient, saved
from trainfit.estimator.legend import PytorchLegend
from trainfit.resolve.plan import PytorchPlan, VirtualTokens

FP32 = 4
"""Bytes of an element in fp32."""
GATES = 4
"""Of an LSTM: input, forget, cell and output."""


class Encoder(NamedTuple):
    """Width of the table, elements of an LSTM behind it, and linears by their (in, out)."""

    width: int
    lstm: int = 0
    linears: tuple[tuple[int, int], ...] = ()

    @property
    def output(self) -> int:
        """Features of a token."""
        return self.linears[-1][1] if self.linears else self.width


def encoder_of(tokens: VirtualTokens, plan: PytorchPlan) -> Encoder:
    """What makes the tokens, by the kind of them."""
    w, e = tokens.width, tokens.encoder_width
    keys_and_values = 2 * plan.model.num_layers * w
    match tokens.kind:
        case "embeddings":
            return Encoder(w)
        case "mlp":
            return Encoder(w, linears=((w, e), (e, e), (e, w)))
        case "lstm":
            return Encoder(w, _lstm(w, e, tokens.encoder_layers), ((2 * e, 2 * e), (2 * e, w)))
        case "keys_and_values":
            return Encoder(keys_and_values)
        case "projected_keys_and_values":
            return Encoder(w, linears=((w, e), (e, keys_and_values)))


def _lstm(inputs: int, width: int, layers: int) -> int:
    """Elements of an LSTM in both directions: matrices of the input and of the state, two biases.
    A further layer reads the outputs of both directions.
    """
    read = inputs + (layers - 1) * 2 * width
    return 2 * GATES * width * (read + layers * (width + 2))


def elements(plan: PytorchPlan) -> int:
    """How many are trained for the virtual tokens of a plan; 0 where there are none."""
    tokens = _tokens(plan)
    if tokens is None:
        return 0
    encoder = encoder_of(tokens, plan)
    of_linears = sum((inputs + 1) * outputs for inputs, outputs in encoder.linears)
    return tokens.count * encoder.width + encoder.lstm + of_linears


def _tokens(plan: PytorchPlan) -> VirtualTokens | None:
    return plan.step.adapters.virtual if plan.step.adapters is not None else None


def operations(sizes: PytorchLegend, plan: PytorchPlan) -> Iterator[Operation]:
    """Table, encoder, and the copies by which the tokens join a sample or a cache."""
    tokens = _tokens(plan)
    if tokens is None:
        return
    assert sizes.adapters is not None
    encoder, own = encoder_of(tokens, plan), _sizes_of_encoder(sizes)
    rows = tokens.count * (sizes.b if tokens.in_attention else 1)
    looked_up = rows * encoder.width * own.residual_bytes
    yield Operation(
        "virtual_tokens",
        (
            forward("rows of the table", looked_up),
            backward("gradient of the rows", looked_up),
            gradient("gradient", tokens.count * encoder.width * own.gradient_bytes),
        ),
    )
    if encoder.lstm:
        yield _recurrent(encoder, rows, own)
    for inputs, outputs in encoder.linears:
        yield linear("prompt_encoder", rows, inputs, outputs, own, reads="own", bias=True)
    yield _joined(tokens, rows * encoder.output, own, sizes)


def _sizes_of_encoder(sizes: PytorchLegend) -> PytorchLegend:
    """The legend of modules that are trained beside the model, in the type of adapters, which
    autocast narrows in products only.
    """
    assert sizes.adapters is not None
    read = sizes.adapters.element_bytes if sizes.autocast else sizes.adapter_bytes
    return replace(
        sizes,
        bytes=sizes.adapter_bytes,
        residual_bytes=read,
        gradient_bytes=read,
        adapters=None,
        float8_casts=0,
    )


def _recurrent(encoder: Encoder, rows: int, own: PytorchLegend) -> Operation:
    """cuDNN's LSTM: its weights are one buffer, and so are their gradients. Its reserve is of the
    size of the tokens, and not counted.
    """
    narrowed = encoder.lstm * own.bytes if own.narrows else 0
    return Operation(
        "prompt_encoder",
        (
            saved("input [p, h]", rows * encoder.width * own.bytes),
            saved("weights in the narrow type", narrowed),
            backward("weight gradients in the narrow type", narrowed),
            gradient("weight gradients", encoder.lstm * own.gradient_bytes),
        ),
    )


def _joined(
    tokens: VirtualTokens, made: int, own: PytorchLegend, sizes: PytorchLegend
) -> Operation:
    """What was `made` joins the samples. Embeddings are repeated for each. Keys and values are
    narrowed, and copied into the cache; in backward the gradients of all layers' are put together,
    and widened.
    """
    narrow, wide = made * sizes.residual_bytes, made * own.bytes
    if not tokens.in_attention:
        repeated = sizes.b * (narrow + wide)
        return Operation("repeat", (forward("tokens of every sample", repeated),))
    return Operation(
        "cache",
        (
            forward("keys and values, narrowed and in the cache", wide + 2 * narrow),
            backward("gradients of keys and values, put together, widened", wide + 2 * narrow),
        ),
    )
