"""Log-probabilities of the tokens that a policy has generated, by which GRPO and its kin weight
them. Symbols: estimator.legend; n' the tokens of a micro-batch that were generated.

Logits are made of these and of the token before, whose place is cut off the end. Log-probabilities
of a reference, and of the policy before the step, were computed when the samples were made: nothing
of that is there by then but a second model. Sources: TRL's trainer/grpo_trainer.py at every minor
release since 0.16 (_get_per_token_logps_and_entropies, _full_logits_logps, _compute_loss),
trainer/utils.py (selective_log_softmax, entropy_from_logits), kernels/logprob_entropy.py;
torch/csrc/autograd/functions/tensor.cpp (CopySlices::apply).
"""

from typing import Literal, NamedTuple

from trainfit.estimator.ledger import OperationKind, OperationPeak, Tensors
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.operations.widths import FP32, INT64
from trainfit.estimator.program import highest
from trainfit.estimator.tensors import Tensor
from trainfit.resolve.pytorch.plan import PolicyLoss


class PolicyWay(NamedTuple):
    """How a release comes from logits to log-probabilities.

    Logits are `divided` by a temperature as a copy, in place, or by the kernel that reads them.
    `entropy` is computed of one sample at a time, or of so many tokens. The model's output is
    `held` until then.
    """

    divided: Literal["copy", "in_place", "kernel"]
    entropy: Literal["no", "sample", "tokens"] = "tokens"
    held: bool = False


BY = {
    "trl-grpo-0.16": PolicyWay("copy", entropy="no"),
    "trl-grpo-0.20": PolicyWay("copy", entropy="sample"),
    "trl-grpo-0.23": PolicyWay("copy"),
    "trl-grpo-1.0": PolicyWay("in_place"),
    "trl-grpo-1.10": PolicyWay("copy", held=True),
    "trl-grpo-1.14": PolicyWay("kernel", entropy="no"),
}
ENTROPY_TOKENS = 128


def generated(step: Modules) -> int:
    """Tokens of a sample that have log-probabilities: the first of all has none."""
    return min(step.way.step.logits_kept or step.sizes.s, step.sizes.s - 1)


def log_probabilities(step: Modules, made: Tensor, by: PolicyLoss) -> None:
    """From logits `made` [n' + b, V], which accelerate widens behind a model under autocast, to the
    loss.
    """
    of = _Generated(step, made, BY[by.by])
    step.operation(
        "log_probabilities",
        saves=(of.kept, step.tensor("labels", of.rows, width=INT64)),
        borrows=highest(*of.forward(), saved=(of.kept,)),
        backward=of.backward(),
        kind=OperationKind.LOSS,
    )


class _Generated:
    def __init__(self, step: Modules, made: Tensor, way: PolicyWay) -> None:
        sizes = step.sizes
        self._step, self._made, self._way = step, made, way
        self._sample, self._features = generated(step), made.shape[1]
        self._samples = sizes.b
        self.rows = sizes.b * self._sample
        self._wide = sizes.autocast or made.width == FP32
        self._width = FP32 if self._wide else made.width
        self._logits = self._all("logits in fp32") if self._width > made.width else made
        by_copy = way.divided == "copy"
        self._read = self._whole("logits over the temperature") if by_copy else self._logits
        by_kernel = way.divided == "kernel"
        self.kept = self._read if self._wide or by_kernel else self._whole("log-probabilities")

    def forward(self) -> list[Tensors]:
        """Narrow log-probabilities are those of one sample behind another, of wide logits the
        exponentials of one are there at a time.
        """
        made, way = self._made, self._way
        moments: list[Tensors] = [(made,)] if self._logits is made else [(made, self._logits)]
        if self._read is not self._logits:
            moments.append((self._logits, self._read))
        held = (self._logits,) if way.held else ()
        there = tuple(dict.fromkeys((*held, self._read, self.kept)))
        if way.divided != "kernel":
            temporaries = self._row("exponentials of a sample") if self._wide else ()
            moments.append((*there, *temporaries))
        if way.entropy != "no":
            moments.append((*there, *self._looked_at()))
        return moments

    def _looked_at(self) -> Tensors:
        """Log-probabilities, probabilities and their product, beside a copy of several samples'
        logits that are a part of others.
        """
        rows = self._sample if self._way.entropy == "sample" else min(ENTROPY_TOKENS, self.rows)
        name = "log-probabilities, probabilities and product"
        part = self._step.several(name, 3, rows, self._features, width=self._width)
        copied = self._way.divided == "in_place" and self._samples > 1
        return (part, *(self._whole("logits without the last token's"),) * copied)

    def backward(self) -> OperationPeak:
        """Gradients of what was picked and of the logits that it came of, those of single samples
        joined, divided as the logits were, put where no token is cut off, and narrowed. What was
        divided in place is a part of what the model has made: its gradient is copied whole, and
        in it that of the part.
        """
        kept, narrows = self.kept, self._logits is not self._made
        last = self._step.passed_back(self._made, "output gradient")
        whole = self._all("gradient of all logits") if narrows else last
        joined = self._whole("gradient of the logits over the temperature")
        names = "zeros", "gradient of what is picked"
        if self._way.divided == "kernel":
            moments: list[Tensors] = [(kept, joined)]
        elif self._wide:
            of_rows = self._whole("gradients of the samples")
            temporaries = self._row("exponentials of a sample") * 2
            moments = [(kept, of_rows, *temporaries), (kept, of_rows, joined)]
            moments.append((kept, joined, *map(self._whole, names)))
        else:
            of_rows = self._whole("gradients of the samples")
            moments = [(kept, *[row for name in names for row in self._row(name)])]
            moments.append((of_rows, joined))
        if self._way.divided == "in_place":
            flat = self._all("gradient of what is divided in place")
            names = "gradient of the part", "the same, divided"
            moments += [(joined, flat), (flat, whole, *map(self._whole, names))]
        elif self._way.divided == "copy":
            apart = self._whole("gradient of the logits")
            moments += [(joined, apart), (apart, whole)]
        else:
            moments.append((joined, whole))
        if narrows:
            moments.append((whole, last))
        return highest(*moments, saved=(kept,))

    def _row(self, name: str) -> Tensors:
        """Of one sample."""
        return (self._step.tensor(name, self._sample, self._features, width=self._width),)

    def _whole(self, name: str) -> Tensor:
        """Of what is generated [n', V]."""
        return self._step.tensor(name, self.rows, self._features, width=self._width)

    def _all(self, name: str) -> Tensor:
        """Of all logits [n' + b, V]."""
        return self._step.tensor(name, *self._made.shape, width=self._width)
