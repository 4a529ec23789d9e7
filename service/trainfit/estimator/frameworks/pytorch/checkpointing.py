"""Selective checkpointing by operations, as torchtitan does it.

Of a layer the outputs of attention and of every second matrix product are kept, those of all
products with a bias, which are other operations, and what expert-parallel ranks exchange; all else
is made again. The output of a layer's last product goes to the residual stream and nobody in the
layer's backward reads it: a compiled graph drops it, eager modules keep it. Source: torchtitan's
distributed/activation_checkpoint.py; torch/utils/checkpoint.py (_CachingTorchDispatchMode).
"""

from collections.abc import Iterator

from trainfit.estimator.ledger import BlockOperation, Group, OperationKind
from trainfit.estimator.tensors import Role, Tensor


def kept_outputs(groups: tuple[Group, ...], *, compiled: bool) -> int:
    """Bytes of the outputs that are kept: those of the first product, the third, and so on."""
    kept = sum(product.output_bytes for product in _kept_products(groups, compiled=compiled))
    for operation in _operations(groups):
        if operation.kind is OperationKind.EXCHANGE:
            kept += operation.output_bytes
        kept += sum(row.bytes for row in operation.tensors if row.role is Role.KERNEL_OUTPUT)
    return kept


def kept_tensors(groups: tuple[Group, ...], *, compiled: bool) -> list[Tensor]:
    """What is kept as tensors, where programs tell which they are."""
    kept = [
        product.output
        for product in _kept_products(groups, compiled=compiled)
        if product.output is not None
    ]
    for operation in _operations(groups):
        kept += [row.tensor for row in operation.tensors if row.role is Role.KERNEL_OUTPUT]
    return kept


def remade(groups: tuple[Group, ...], *, compiled: bool) -> list[BlockOperation]:
    """The operations whose outputs are made again."""
    kept = list(_kept_products(groups, compiled=compiled))
    elsewise = OperationKind.ATTENTION, OperationKind.EXCHANGE
    return [each for each in _operations(groups) if each.kind not in elsewise and each not in kept]


def _kept_products(groups: tuple[Group, ...], *, compiled: bool) -> Iterator[BlockOperation]:
    products = [each for each in _operations(groups) if each.kind is OperationKind.PRODUCT]
    biased = [each for each in products if each.bias]
    for each in (*[each for each in products if not each.bias][::2], *biased):
        if not (compiled and each is products[-1]):
            yield each


def _operations(groups: tuple[Group, ...]) -> list[BlockOperation]:
    return [operation for group in groups for operation in group]
