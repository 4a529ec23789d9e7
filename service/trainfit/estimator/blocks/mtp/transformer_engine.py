"""Multi-token prediction in megatron-core, besides its layer and its head.

Symbols: estimator.legend. Source: megatron/core/transformer/multi_token_prediction.py.
"""

from trainfit.estimator.demands import Product
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.tensors import Role
from trainfit.specs.architecture import MultiTokenPrediction


def projection(step: TransformerEngine, mtp: MultiTokenPrediction) -> None:
    """Both norms, their concatenation, and eh_proj [h, 2h], whose output is gathered."""
    sizes = step.sizes
    n, h = sizes.n, sizes.h
    given = Role.BLOCK_INPUT
    embedding = step.tensor("embedding of the next token", sizes.n_shard, h, role=given)
    hidden = step.tensor("hidden state", sizes.n_shard, h, role=given)
    gathered = step.tensor("gathered concatenation", sizes.n_gathered, 2 * h)
    step.operation(
        "eh_proj",
        saves=(
            *(embedding, step.statistics(mtp.norms[0].kind, embedding)),
            *(hidden, step.statistics(mtp.norms[1].kind, hidden)),
            step.tensor("concatenation", sizes.n_shard, 2 * h),
        ),
        borrows=(gathered, step.tensor("output before it is scattered", n, h)),
        backward=(
            gathered,
            step.tensor("input gradient", n, 2 * h),
            step.tensor("embedding's weight gradient", sizes.V // sizes.t, h),
        ),
        weight=(h // sizes.t, 2 * h),
        demands=(Product(n, 2 * h, h // sizes.t), *step.into_columns(2 * h)),
    )
