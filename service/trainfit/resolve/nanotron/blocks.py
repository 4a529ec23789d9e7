"""Which models nanotron has, and how it shares their blocks out over pipeline ranks.

Sources: nanotron's models/llama.py (LlamaModel, get_block_compute_costs), models/base.py
(build_model).
"""

from collections.abc import Iterator
from typing import NamedTuple

from trainfit.resolve.findings import Findings, put
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Mlp, Sublayer


class BlockSplit(NamedTuple):
    """Layers of each pipeline rank, and the ranks of what comes behind the layers."""

    layers: tuple[int, ...]
    final_norm: int
    head: int
    loss: int

    @property
    def ends_together(self) -> bool:
        """Whether final norm, head and loss stand on the last rank."""
        return self.final_norm == self.head == self.loss == len(self.layers) - 1


def shares_of(model: ModelSpec, rows: int, stages: int) -> BlockSplit | None:
    """Blocks go to a rank until their costs exceed its share of all costs: a layer's is 4 a d h +
    3 f h, the head's V h with V = `rows`, of the rest nothing. None where layers are not Llama's.
    """
    h, costs = model.hidden_size, []
    for kind in model.pattern:
        widths = [block.ffn for block in model.layer_kinds[kind].blocks if isinstance(block, Mlp)]
        if len(widths) != 1:
            return None
        costs.append(4 * h * h + 3 * widths[0] * h)
    total = sum(costs) + rows * h
    layers, rank, passed = [0] * stages, 0, 0

    def place(cost: int) -> int:
        nonlocal rank, passed
        here, passed = rank, passed + cost
        rank += passed > total * ((here + 1) / stages)
        return here

    place(0)
    for cost in costs:
        layers[place(cost)] += 1
    return BlockSplit(tuple(layers), place(0), place(rows * h), place(0))


def check_shares(model: ModelSpec, rows: int, stages: int, findings: Findings) -> None:
    """Logits that are sent from rank to rank, or a norm apart from its head, are not modelled."""
    shares = shares_of(model, rows, stages)
    if shares is None or shares.ends_together:
        return
    fewer = range(stages - 1, 0, -1)
    fits = next(p for p in fewer if (own := shares_of(model, rows, p)) and own.ends_together)
    message = (
        f"nanotron shares blocks out by their costs, which leaves the head or the loss apart from "
        f"the last of {stages} ranks; of {fits} it does not"
    )
    findings.add("/parallelism/pp", "not_modelled", message, put("/parallelism/pp", fits))


def check_model(model: ModelSpec, findings: Findings) -> None:
    """A finding for what Llama has not. nanotron has Qwen2 and StarCoder2 as well."""
    for what in dict.fromkeys(_beside_llama(model)):
        message = f"of nanotron's models Llama is modelled, and it has no {what}"
        findings.add("/model", "not_modelled", message)


def _beside_llama(model: ModelSpec) -> Iterator[str]:
    if model.embedding.position_rows:
        yield "learned positions"
    if model.embedding.norms or model.residual_streams > 1:
        yield "norm of the embedding or residual streams"
    if model.output_layer.bias or model.output_layer.scores_labels:
        yield "bias or labels of the head"
    if model.extras or model.encoder_parameters:
        yield "weights beside embedding, layers and head"
    if model.traits.activation != "silu":
        yield f"activation but silu ({model.traits.activation})"
    if any(norm.kind != "rmsnorm" for norm in model.final_norms):
        yield "LayerNorm"
    for kind in model.layer_kinds:
        for sublayer in kind.sublayers:
            yield from _beside_llamas_layer(sublayer, model.hidden_size)


def _beside_llamas_layer(sublayer: Sublayer, h: int) -> Iterator[str]:
    if len(sublayer.norms) != 1 or sublayer.post_norms or len(sublayer.blocks) != 1:
        yield "sublayer but of one norm before one block"
    if any(norm.kind != "rmsnorm" for norm in sublayer.norms):
        yield "LayerNorm"
    for block in sublayer.blocks:
        match block:
            case Attention():
                d = h // block.heads
                plain = Attention(heads=block.heads, kv_heads=block.kv_heads, head_dim=d)
                if block != plain:
                    yield "attention with biases, norms, gates, windows or heads of another width"
            case Mlp():
                if block != Mlp(ffn=block.ffn):
                    yield "feed-forward network but a gated one without biases"
            case _:
                yield f"{block.kind}"
