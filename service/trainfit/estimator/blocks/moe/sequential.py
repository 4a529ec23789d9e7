"""Experts that run one after the other, each a feed-forward network of its own.

Symbols: estimator.legend; E_l experts of a rank, T_1 rows of each. An expert reads a part of the
rows, and what it makes of them waits until all are joined; backward the last one runs first, and
the gradients of its rows wait until all are. The first and the last expert are told by themselves,
those between at once, beside what one of them borrows. Source: megatron/core/transformer/moe/
experts.py (SequentialMLP).
"""

from typing import NamedTuple

from trainfit.estimator.ledger import Tensors
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.tensors import Tensor
from trainfit.specs.blocks import Experts


class ExpertTurn(NamedTuple):
    """So many experts, with the rows of each. `before` are what others have made of theirs,
    `behind` the gradients of the rows of those that ran backward before, `of_output` that of all
    that is made, which the `first` expert is the last to read.
    """

    experts: int
    rows: int
    first: bool
    before: Tensors
    behind: Tensors
    of_output: Tensor
    of_rows: Tensor


def run_in_turn(step: TransformerEngine, x: Tensor, block: Experts, output: Tensor) -> None:
    """What the experts of a rank, of which there are several, make of the rows [T_r, h]."""
    (local,) = step.named(E_l=block.experts // step.sizes.e)
    (rows,) = step.named(T_1=-(-x.shape[0] // local))
    counts = (1, local - 2, 1) if local > 2 else (1, 1)
    of_rows = [
        step.several("gradients of an expert's rows", count, rows, x.shape[1]) for count in counts
    ]
    of_output, made = step.gradient(output), list[Tensor]()
    step.operation("split_by_expert", backward=(*of_rows, step.gradient(x)))
    for number, count in enumerate(counts):
        behind = tuple(of_rows[number + 1 :])
        turn = ExpertTurn(count, rows, number == 0, tuple(made), behind, of_output, of_rows[number])
        made.append(_run(step, x, block, turn))
    step.operation("join_experts", borrows=(*made, output), backward=(of_output,))


def _run(step: TransformerEngine, x: Tensor, block: Experts, turn: ExpertTurn) -> Tensor:
    """fc1, activation, fc2."""
    count, rows, h = turn.experts, turn.rows, x.shape[1]
    (f_e,) = step.named(f_e=block.ffn)
    f = f_e // step.sizes.x
    read = step.part(x, "rows of an expert", count * rows, h)
    one = [step.tensor("fc1 output", rows, 2 * f if block.gated else f)]
    one.append(step.tensor("activation output", rows, f))
    projected, y = (
        step.tensor(each.name, count * rows, each.shape[1], storages=count) for each in one
    )
    output = step.tensor("output of an expert", count * rows, h, storages=count)
    of_projected, of_y = map(step.of_output, one)
    held = turn.behind if turn.first else (turn.of_output, *turn.behind)
    with step.waiting(turn.before, held):
        _product(step, "experts_fc1", read, projected, turn, (turn.of_rows, of_projected))
        width = step.run.routing.probability_bytes
        kept = [step.tensor("row probabilities", count * rows, width=width)]
        if not (block.gated and step.run.framework.bias_activation_fusion):
            name = "activation before its weight"
            kept.append(step.tensor(name, count * rows, f, storages=count))
        step.activation(
            "experts_activation",
            projected,
            y,
            *kept,
            gated=block.gated,
            clamped=block.clamped,
            one=(one[0], one[1]),
        )
    with step.waiting(turn.before, turn.behind):
        _product(step, "experts_fc2", y, output, turn, (of_y, turn.of_output))
    return output


def _product(
    step: TransformerEngine, name: str, x: Tensor, y: Tensor, turn: ExpertTurn, backward: Tensors
) -> None:
    """A product with the matrix of each of these experts."""
    weight = y.shape[1], x.shape[1]
    of_one = step.tensor("rows of one", turn.rows, x.shape[1])
    step.operation(
        name,
        makes=(y,),
        saves=step.reads(x),
        borrows=(*step.waits_for(x), *step.in_rows(of_one)),
        backward=(
            *step.input_gradient(name, *of_one.shape),
            *backward,
            *step.of_gradient(turn.rows, weight[0]),
            *step.weight_gradient(*weight),
        ),
        weight=weight,
        demands=(step.product(x.shape[0], weight[1], weight[0], turn.experts * step.sizes.e),),
    )
    step.adapter(name, x, y, step.gradient(y), weight)
