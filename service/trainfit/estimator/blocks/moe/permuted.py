"""Rows that return from their experts are added up to tokens.

Source: megatron/core/transformer/moe/moe_utils.py (unpermute).
"""

from trainfit.estimator.ledger import Tensors
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.tensors import Tensor


def added_up(step: TransformerEngine, rows: Tensor) -> tuple[Tensors, Tensors]:
    """What adding up the rows [T, h] keeps of them for backward, and borrows. One kernel, and
    scatter_add, keep none; index_add, which deterministic_mode takes in place of that, keeps its
    source, and adds a copy of it, scaled by one. Sources: PyTorch's derivatives.yaml (index_add),
    aten/src/ATen/native/cuda/Indexing.cu (index_add_cuda_impl).
    """
    if step.run.routing.permute_fusion or not step.run.framework.deterministic_mode:
        return (), ()
    return (rows,), (step.tensor("scaled rows", *rows.shape),)
