"""What PEFT trains for virtual tokens. Symbols: estimator.legend; p tokens, e the encoder's width.

A table has a row for each token. Prompt tuning puts its rows [p, h] before the embeddings of every
sample; P-tuning has an encoder between, which runs once for all samples. Prefix tuning has rows of
keys and values of all layers [p, 2 L g d], once for each sample. All of it is stored in fp32, and
narrowed to what the model computes in. Sources: peft's tuners/prompt_tuning, tuners/p_tuning and
tuners/prefix_tuning (model.py), peft_model.py (get_prompt); transformers' cache_utils.py
(DynamicLayer); torch.nn.LSTM.
"""

from dataclasses import replace
from typing import NamedTuple

from trainfit.estimator.ledger import Group
from trainfit.estimator.legend import PytorchLegend
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.run import PytorchWay
from trainfit.resolve.pytorch.plan import PytorchPlan, PytorchStep, VirtualTokens

GATES = 4
"""Of an LSTM: input, forget, cell and output."""


class PromptEncoder(NamedTuple):
    """Width of the table, elements of an LSTM behind it, and linears by their (in, out)."""

    width: int
    lstm: int = 0
    linears: tuple[tuple[int, int], ...] = ()

    @property
    def output(self) -> int:
        """Features of a token."""
        return self.linears[-1][1] if self.linears else self.width


def encoder_of(tokens: VirtualTokens, num_layers: int) -> PromptEncoder:
    """What makes the tokens, by the kind of them."""
    w, e = tokens.width, tokens.encoder_width
    keys_and_values = 2 * num_layers * w
    match tokens.kind:
        case "embeddings":
            return PromptEncoder(w)
        case "mlp":
            return PromptEncoder(w, linears=((w, e), (e, e), (e, w)))
        case "lstm":
            return PromptEncoder(
                w, _lstm(w, e, tokens.encoder_layers), ((2 * e, 2 * e), (2 * e, w))
            )
        case "keys_and_values":
            return PromptEncoder(keys_and_values)
        case "projected_keys_and_values":
            return PromptEncoder(w, linears=((w, e), (e, keys_and_values)))


def _lstm(inputs: int, width: int, layers: int) -> int:
    """Elements of an LSTM in both directions: matrices of the input and of the state, two biases.
    A further layer reads the outputs of both directions.
    """
    read = inputs + (layers - 1) * 2 * width
    return 2 * GATES * width * (read + layers * (width + 2))


def elements(plan: PytorchPlan) -> int:
    """How many are trained for the virtual tokens of a plan; 0 where there are none."""
    tokens = _tokens(plan.step)
    if tokens is None:
        return 0
    encoder = encoder_of(tokens, plan.model.num_layers)
    of_linears = sum((inputs + 1) * outputs for inputs, outputs in encoder.linears)
    return tokens.count * encoder.width + encoder.lstm + of_linears


def _tokens(step: PytorchStep) -> VirtualTokens | None:
    return step.adapters.virtual if step.adapters is not None else None


def virtual_tokens(sizes: PytorchLegend, way: PytorchWay) -> Group:
    """Table, encoder, and the copies by which the tokens join a sample or a cache."""
    tokens = _tokens(way.step)
    if tokens is None:
        return ()
    step = Modules(_sizes_of_encoder(sizes), way)
    encoder = encoder_of(tokens, way.num_layers)
    (p,) = step.named(p=tokens.count)
    rows = p * step.sizes.b if tokens.in_attention else p
    _lookup(step, p, rows, encoder.width)
    if encoder.lstm:
        _recurrent(step, rows, encoder)
    for inputs, outputs in encoder.linears:
        x = step.tensor("input", rows, inputs)
        step.linear("prompt_encoder", x, outputs, bias=True)
    _join(step, tokens, rows, encoder.output, sizes.residual_bytes)
    return step.group()


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
        narrow=None,
    )


def _lookup(step: Modules, tokens: int, rows: int, width: int) -> None:
    """Rows of the table, in the type in which it is stored."""
    stored = step.sizes.residual_bytes
    looked_up = step.tensor("rows of the table", rows, width, width=stored)
    gradient = step.tensor("gradient", tokens, width, width=step.sizes.gradient_bytes)
    step.operation(
        "virtual_tokens", borrows=(looked_up,), backward=(looked_up,), leaves=(gradient,)
    )


def _recurrent(step: Modules, rows: int, encoder: PromptEncoder) -> None:
    """cuDNN's LSTM: its weights are one buffer, and so are their gradients. Its reserve is of the
    size of the tokens, and not counted.
    """
    narrow = (step.tensor("weights in the narrow type", encoder.lstm),) * step.sizes.narrows
    step.operation(
        "prompt_encoder",
        saves=(step.tensor("input", rows, encoder.width), *narrow),
        backward=narrow,
        leaves=(step.tensor("gradients", encoder.lstm, width=step.sizes.gradient_bytes),),
    )


def _join(step: Modules, tokens: VirtualTokens, rows: int, features: int, narrow: int) -> None:
    """What was made joins the samples. Embeddings are repeated for each. Keys and values are
    narrowed, and copied into the cache; in backward the gradients of all layers' are put together,
    and widened.
    """
    made = step.tensor("tokens", rows, features)
    if not tokens.in_attention:
        shape = (step.sizes.b, *made.shape)
        repeated = step.tensor("of every sample", *shape)
        step.operation("repeat", borrows=(repeated, step.tensor("narrowed", *shape, width=narrow)))
        return
    both = (made, step.several("narrowed, and in the cache", 2, *made.shape, width=narrow))
    step.operation("cache", borrows=both, backward=both)
