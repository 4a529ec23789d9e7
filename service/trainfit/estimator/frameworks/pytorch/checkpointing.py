"""Selective checkpointing by operations, as torchtitan does it.

Of a layer the outputs of attention and of every second matrix product are kept, those of all
products with a bias, which are other operations, and what expert-parallel ranks exchange; all else
is made again, and attention by a kernel that the list of what is kept does not name. The output of
a layer's last product goes to the residual stream and nobody in the layer's backward reads it: a
compiled graph drops it, eager modules keep it. Source: torchtitan's
distributed/activation_checkpoint.py; torch/utils/checkpoint.py (_CachingTorchDispatchMode).
"""

from collections.abc import Iterator

from trainfit.estimator.ledger import BlockOperation, Group, OperationKind
from trainfit.estimator.tensors import Role, Tensor
from trainfit.resolve.pytorch.plan import PytorchStep


def kept_outputs(groups: tuple[Group, ...], step: PytorchStep) -> int:
    """Bytes of the outputs that are kept: those of the first product, the third, and so on."""
    kept = sum(product.output_bytes for product in _kept_products(groups, step))
    for operation in _operations(groups):
        if operation.kind is OperationKind.EXCHANGE:
            kept += operation.output_bytes
    return kept + sum(each.bytes for each in _of_kernels(groups, step))


def kept_tensors(groups: tuple[Group, ...], step: PytorchStep) -> list[Tensor]:
    """What is kept as tensors, where programs tell which they are."""
    products = [product.output for product in _kept_products(groups, step)]
    return [*[each for each in products if each is not None], *_of_kernels(groups, step)]


def remade(groups: tuple[Group, ...], step: PytorchStep) -> list[BlockOperation]:
    """The operations whose outputs are made again."""
    kept = list(_kept_products(groups, step))
    elsewise = {OperationKind.EXCHANGE}
    if not step.checkpointing.attention_again:
        elsewise.add(OperationKind.ATTENTION)
    return [each for each in _operations(groups) if each.kind not in elsewise and each not in kept]


def _of_kernels(groups: tuple[Group, ...], step: PytorchStep) -> list[Tensor]:
    """What attention's kernels make."""
    rows = [row for operation in _operations(groups) for row in operation.tensors]
    kept = not step.checkpointing.attention_again
    return [row.tensor for row in rows if kept and row.role is Role.KERNEL_OUTPUT]


def _kept_products(groups: tuple[Group, ...], step: PytorchStep) -> Iterator[BlockOperation]:
    products = [each for each in _operations(groups) if each.kind is OperationKind.PRODUCT]
    biased = [each for each in products if each.bias]
    for each in (*[each for each in products if not each.bias][::2], *biased):
        if not (step.compiled and each is products[-1]):
            yield each


def _operations(groups: tuple[Group, ...]) -> list[BlockOperation]:
    return [operation for group in groups for operation in group]
