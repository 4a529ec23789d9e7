"""The activations of PyTorch's modules, and what they are multiplied with.

Symbols: estimator.legend. Sources: torch/csrc/autograd (derivatives.yaml: mul, sigmoid, relu),
transformers' activations.py, liger_kernel/ops/swiglu.py, torch/_functorch/partitioners.py
(is_materialized_backwards).
"""

from trainfit.estimator.ledger import Tensors
from trainfit.estimator.legend import PytorchLegend
from trainfit.estimator.program import Program
from trainfit.estimator.run import PytorchWay
from trainfit.estimator.tensors import Tensor

BESIDE_INPUT = {
    "gelu_new": 3,
    "gelu_fast": 5,
    "quick_gelu": 1,
    "relu2": 0,
    "xielu": 4,
    "clamped_swiglu": 3,
}
"""Tensors that a written-out activation keeps besides its input and its output: half of the input,
tanh and 1 + tanh of gelu_new; the sigmoid of quick_gelu; relu2's relu stands in for its input; the
clamped gate, its sigmoid and their product of gpt-oss's experts."""


class Activations(Program):
    """Runs activations as modules of PyTorch do, in one kernel or written out."""

    sizes: PytorchLegend

    def __init__(self, sizes: PytorchLegend, way: PytorchWay) -> None:
        super().__init__(sizes)
        self.sizes = sizes
        self.way = way

    def activation(
        self, x: Tensor, times: Tensor | None = None, *, name: str = "activation", kind: str = ""
    ) -> Tensor:
        """act(x), or act(x) * times, of a `kind` that the model says unless it is given. A function
        that is one kernel keeps its input; those that transformers writes out keep more. A fused
        product of activation and gate keeps its two inputs, and the product behind keeps its
        output: torch.compile makes nothing again that a product in backward has to read from
        memory.
        """
        kind = kind or self.way.traits.activation
        y = self.tensor("activation output", *x.shape, width=x.width)
        beside = 0 if self.sizes.fused else BESIDE_INPUT.get(kind, 0)
        saves: Tensors = (x,)
        if kind == "relu" and times is None and not self.sizes.fused:
            saves = ()
        if beside:
            name_of = "what its steps make"
            saves += (self.several(name_of, beside, *x.shape, width=x.width),)
        if times is not None:
            saves += (times,)
            if not self.sizes.fused:
                saves += (self.tensor("activated", *x.shape, width=x.width),)
        made = 2 + (times is not None) + (beside > 0)
        borrows = () if self.sizes.fused else (y,)
        if x.width > self.sizes.bytes:
            name_of = "gradients of output and inputs"
            gradients: Tensors = (self.several(name_of, made, *x.shape, width=x.width),)
        else:
            gradients = (
                self.passed_back(y, "output gradient"),
                self.passed_back(x, "input gradient"),
                *[self.passed_back(each, "input gradient") for each in (times,) if each],
                *[self.gradient(x)] * (beside > 0),
            )
        self.operation(name, saves=saves, borrows=borrows, backward=gradients, reads=(x,), output=y)
        return y

    @property
    def activates_apart(self) -> bool:
        """Whether an activation is a kernel of its own, which runs before the other factor is made
        and keeps no more than its input.
        """
        return not (self.sizes.fused or self.way.traits.activation in BESIDE_INPUT)

    def activated(self, x: Tensor) -> Tensor:
        """act(x), kept for the gradient of what it is multiplied with."""
        y = self.tensor("activated", *x.shape, width=x.width)
        gradients = self.passed_back(y, "output gradient"), self.passed_back(x, "input gradient")
        self.operation("activation", saves=(x, y), backward=gradients)
        return y

    def gated(self, x: Tensor, times: Tensor) -> Tensor:
        """x * times, of which both are kept."""
        y = self.tensor("activation output", *x.shape, width=x.width)
        gradients = [
            self.passed_back(y, "output gradient"),
            *[self.passed_back(each, "input gradient") for each in (x, times)],
        ]
        self.operation(
            "gating",
            saves=(times,),
            borrows=(y,),
            backward=tuple(gradients),
            reads=(x,),
            output=y,
        )
        return y
