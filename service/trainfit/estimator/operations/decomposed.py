"""Low-rank adapters that learn the length of each row of their matrix beside its direction (DoRA).

Symbols: estimator.legend; r the rank. Sources: peft/tuners/lora/dora.py (DoraLinearLayer),
variants.py (DoraLinearVariant) and layer.py; torch/csrc/autograd (derivatives.yaml: mul, linear).
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from trainfit.estimator.demands import Product
from trainfit.estimator.ledger import OperationPeak, Tensors
from trainfit.estimator.legend import PytorchLegend
from trainfit.estimator.program import Program, highest
from trainfit.estimator.tensors import Tensor
from trainfit.resolve.pytorch.plan import Adapters

Width = int | Fraction


class Copies(NamedTuple):
    """Matrices that a norm of rows is made of: the identity as it is made, those that are there
    until the function returns, those of the sum, and what is kept for backward.
    """

    identity: Tensors
    alive: Tensors
    of_sum: Tensors
    kept: Tensors


class Gradients(NamedTuple):
    """The gradients of a sum `above` it, and of the first of its parts."""

    above: Tensors
    of_base: Tensors


def gradient_of_base(step: Program, sizes: PytorchLegend, base: Tensor, above: Tensors) -> Tensors:
    """What a sum of wider parts hands back to the narrow one is a tensor of its own."""
    assert sizes.adapters is not None
    is_wide = _stored(sizes, sizes.adapters) > base.width
    return (step.passed_back(base, "output gradient"),) if is_wide else above


def decompose(
    step: Program,
    sizes: PytorchLegend,
    module: str,
    x: Tensor,
    base: Tensor,
    y: Tensor,
    gradients: Gradients,
    later: Iterable[Tensor],
) -> None:
    """y [n, out] = m / |W + BA| (W x + BA x), of the `base` W x [n, out] and lengths m [out].

    Norms are of the rows of a sum [out, in], whose second part the adapter makes of an identity
    [in, in]; it is all there until the function returns. Products with the scaled lengths keep W x
    and BA x. Behind a dropout W x is made again of what that leaves, and a copy of W is kept for
    its gradient. What the adapter's own products keep comes `later` than the norms.
    """
    adapters = sizes.adapters
    assert adapters is not None
    (rows, features), inputs = y.shape, x.shape[-1]
    read = _read(sizes, adapters, module, x)
    wide, made = max(_stored(sizes, adapters), base.width), adapters.computed_bytes
    low = step.tensor("adapter's output", rows, features, width=made)
    kept = base
    if adapters.dropout:
        kept = step.tensor("product of what a dropout leaves", rows, features, width=made)
    vectors = step.several("norms, and lengths by them", 3, features, width=wide)
    copies = _copies(step, sizes, module, (features, inputs), read)
    saves = (kept, low, vectors, *copies.kept, *later)
    in_turn = [
        step.tensor(name, rows, features, width=wide)
        for name in ("product by its length", "adapter's output by its length", "the same, scaled")
    ]
    summed = step.several("sum, and that with the product", 2, rows, features, width=wide)
    moments = (
        (base, *copies.identity),
        (base, *copies.alive, *copies.of_sum),
        (base, *saves, *copies.alive, *in_turn),
        (base, *saves, summed),
    )
    inputs_alive = _inputs(step, sizes, x, read)
    if not step.is_kept_elsewhere(x):
        inputs_alive += (Tensor("input", x.shape, x.width, (), of=x.of or x),)
    step.operation(
        f"{module}.lengths",
        reads=(base,),
        saves=saves,
        borrows=highest(*map(_once, moments), saved=saves).beside(*inputs_alive),
        backward=_backward(step, base, low, wide, gradients, saves),
        leaves=(step.tensor("gradient of lengths", features, width=adapters.element_bytes),),
        output=y,
        demands=(
            Product(inputs, adapters.rank, features, 0, 0, narrow=False),
            *(Product(rows, inputs, features, 0, 1, narrow=False),) * adapters.dropout,
        ),
    )


def _stored(sizes: PytorchLegend, adapters: Adapters) -> int:
    """Bytes of an element of adapters and lengths as a forward finds them: what autocast narrows
    it finds whole.
    """
    return adapters.element_bytes if sizes.autocast else adapters.computed_bytes


def _read(sizes: PytorchLegend, adapters: Adapters, module: str, x: Tensor) -> Width:
    """Bytes of an element of x as adapters read it, and of weights beside it. Under autocast the
    modules of bitsandbytes do not widen it (bnb.py).
    """
    if sizes.autocast and sizes.is_quantised(module):
        return x.width
    return _stored(sizes, adapters)


def _copies(
    step: Program, sizes: PytorchLegend, module: str, weight: tuple[int, int], read: Width
) -> Copies:
    """A weight is copied that is quantised, or of another type than what reads it. Behind a dropout
    the product keeps that copy, or autocast's narrow one of it.
    """
    adapters = sizes.adapters
    assert adapters is not None
    (features, inputs), made = weight, adapters.computed_bytes
    stored = sizes.residual_bytes if sizes.autocast else sizes.bytes
    copied = sizes.is_quantised(module) or stored != read
    own = (step.tensor("weight as x is", features, inputs, width=read),) * copied
    eye = step.tensor("identity", inputs, inputs, width=made)
    narrowed = _stored(sizes, adapters) > made
    plain = step.tensor("identity as it is made", inputs, inputs, width=_stored(sizes, adapters))
    low = step.tensor("identity behind A", inputs, adapters.rank, width=made)
    product = step.tensor("product of the adapter", features, inputs, width=read)
    of_sum = [
        step.tensor(name, features, inputs, width=read)
        for name in ("scaled product", "sum of both")
    ]
    narrow: Tensors = ()
    if sizes.autocast and read > made:
        narrow = (step.tensor("weight in the narrow type", features, inputs, width=made),)
    return Copies(
        identity=(plain, *(eye,) * narrowed),
        alive=(eye, low, product, *own),
        of_sum=tuple(of_sum),
        kept=(narrow or own) if adapters.dropout else (),
    )


def _inputs(step: Program, sizes: PytorchLegend, x: Tensor, read: Width) -> Tensors:
    """Copies of x that nobody keeps, and that are there until the function returns: as wide as
    adapters, and what a dropout leaves of that.
    """
    adapters = sizes.adapters
    assert adapters is not None
    copy = step.tensor("input as wide as adapters", *x.shape, width=read)
    dropped = step.tensor("what a dropout leaves of it", *x.shape, width=read)
    unkept = adapters.dropout or sizes.autocast
    return (copy,) * (read != x.width and unkept) + (dropped,) * (
        adapters.dropout and read > adapters.computed_bytes
    )


def _once(moment: Tensors) -> Tensors:
    return tuple(dict.fromkeys(moment))


def _backward(
    step: Program, base: Tensor, low: Tensor, wide: Width, gradients: Gradients, saves: Tensors
) -> OperationPeak:
    """The gradient of y is widened, handed to W x as it was, and multiplied once for each factor
    of the adapter's part, then of the other. What a product has kept goes with it.
    """
    shape, of_base = base.shape, gradients.of_base
    whole = of_base
    if wide > base.width:
        whole = (step.tensor("gradient in the type of lengths", *shape, width=wide),)
    scaled, of_low, of_length, of_product, again = (
        step.tensor(f"gradient of {name}", *shape, width=wide)
        for name in (
            "the adapter's output by its length",
            "the adapter's output",
            "its lengths",
            "the product",
            "its lengths there",
        )
    )
    narrowed = of_low
    if low.width < wide:
        name = "gradient of the adapter's output, narrowed"
        narrowed = step.tensor(name, *shape, width=low.width)
    later = [each for each in saves if each is not low]
    moments = (
        (*gradients.above, *whole, *of_base, scaled),
        (*saves, *whole, *of_base, scaled, of_low, of_length),
        (*later, *whole, *of_base, narrowed, of_product, again),
    )
    return highest(*map(_once, moments), saved=saves)
