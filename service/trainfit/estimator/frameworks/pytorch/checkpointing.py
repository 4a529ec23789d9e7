"""Selective checkpointing by operations, as torchtitan does it.

Of a layer the outputs of attention and of every second matrix product are kept, those of all
products with a bias, which are other operations, and what expert-parallel ranks exchange; all else
is made again. The output of a layer's last product goes to the residual stream and nobody in the
layer's backward reads it: a compiled graph drops it, eager modules keep it. Source: torchtitan's
distributed/activation_checkpoint.py; torch/utils/checkpoint.py (_CachingTorchDispatchMode).
"""

from trainfit.estimator.ledger import Group, Kind
from trainfit.estimator.tensors import Role


def kept_outputs(groups: tuple[Group, ...], *, compiled: bool) -> int:
    """Bytes of the outputs that are kept: those of the first product, the third, and so on."""
    operations = [operation for group in groups for operation in group]
    products = [each for each in operations if each.kind is Kind.PRODUCT]
    biased = [each for each in products if each.bias]
    chosen = [*[each for each in products if not each.bias][::2], *biased]
    if compiled:
        chosen = [each for each in chosen if each is not products[-1]]
    kept = sum(product.output for product in chosen)
    for operation in operations:
        if operation.kind is Kind.EXCHANGE:
            kept += operation.output
        kept += sum(row.bytes for row in operation.tensors if row.role is Role.KERNEL_OUTPUT)
    return kept
