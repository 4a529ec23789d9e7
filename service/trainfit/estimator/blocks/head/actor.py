"""Log-probabilities of what a policy has generated, as verl's actor and OpenRLHF's compute them: of
logits of all tokens of a micro-batch, packed without padding, or of samples that were padded.
Symbols: estimator.legend; R the tokens of a sample that were generated, C a chunk of tokens.

flash-attn's kernel reads logits as they are. Of verl's, where no entropy reads them too, it writes
their gradient in their place. Sources: verl's workers/actor/dp_actor.py at v0.2 to v0.7.1
(_forward_micro_batch), workers/engine/fsdp/transformer_impl.py at v0.8 and v0.9
(prepare_model_outputs), utils/torch_functional.py (logprobs_from_logits, entropy_from_logits),
utils/experimental/torch_functional.py (FusedLinearForPPOFunction); OpenRLHF's models/actor.py
(forward), models/utils.py (log_probs_from_logits, compute_entropy) and trainer/ray/ppo_actor.py
(training_step) at v0.6.4, v0.7.5, v0.8.5, v0.9.10 and 3c3be62; flash-attn's
ops/triton/cross_entropy.py; torch/csrc/autograd/functions/tensor.cpp (CopySlices::apply),
FunctionsManual.cpp (as_strided_backward, logsumexp_backward), ATen/autocast_mode.h.
"""

from typing import NamedTuple

from trainfit.estimator.demands import Product
from trainfit.estimator.ledger import OperationKind, Tensors
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.operations.widths import FP32, INT64
from trainfit.estimator.program import highest
from trainfit.estimator.tensors import Tensor
from trainfit.resolve.pytorch.plan import PolicyLoss

FUSED_TOKENS = 512
"""Tokens whose logits are there at once where head and log-probabilities are one."""


def answer(step: Modules, by: PolicyLoss) -> Tensor | None:
    """Logits in fp32 [n, V], where the loop holds them as the model's answer: they are there until
    all that the head does runs backward, and behind that until the step is over.
    """
    if not by.holds_answer:
        return None
    held = step.tensor("logits in fp32", step.sizes.n, step.sizes.V, width=FP32)
    step.operation("answer", saves=(held,))
    return held


def log_probabilities(
    step: Modules, made: Tensor, by: PolicyLoss, held: Tensor | None = None
) -> None:
    """From logits `made` [n, V] to the loss."""
    of: _ActorLogits
    if held is not None:
        of = _Widened(step, made, by, held)
    else:
        of = _Padded(step, made, by) if by.by == "verl-padded" else _Packed(step, made, by)
    entropy = of.entropy()
    kept = of.kept(entropy)
    step.operation(
        "log_probabilities",
        saves=(*kept, *of.by_token()),
        borrows=highest(*of.forward(entropy), saved=kept),
        backward=highest(*of.backward(entropy), saved=kept),
        kind=OperationKind.LOSS,
    )


class _Entropy(NamedTuple):
    """What an entropy of logits saves, what it reads while it does, and its moments in backward,
    which leave the gradient of the logits.
    """

    saved: Tensors
    forward: list[Tensors]
    backward: list[Tensors]
    left: Tensors


class _ActorLogits:
    """Logits [n, V] of all tokens, and the `read` ones, whose log-probabilities are wanted."""

    def __init__(self, step: Modules, made: Tensor, by: PolicyLoss, rows: int) -> None:
        self._step, self._made, self._by, self._rows = step, made, by, rows
        self._features, self._width = made.shape[1], made.width

    def entropy(self) -> _Entropy:
        """A compiled one reads logits and makes their gradient in one kernel each. Else autocast
        widens what softmax and the log-sum-exp read, and these and the product are made whole; all
        that is saved of it may be made again in backward instead.
        """
        kind = self._by.entropy
        of_logits = (self._part("gradient of the logits by the entropy"),)
        if kind == "none":
            return _Entropy((), [], [], ())
        if kind == "compiled":
            return _Entropy((), [], [of_logits], of_logits)
        probabilities, wide = self._wide("probabilities"), self._wide("logits in fp32")
        temporary = self._wide("exponentials")
        saved = (probabilities, wide)
        of_probabilities = self._wide("gradient of the probabilities")
        of_wide = self._wide("gradient of the logits by the product")
        by_sum = [self._wide(name) for name in ("differences", "exponentials", "their gradient")]
        forward: list[Tensors] = [(*saved, temporary)]
        moments: list[Tensors] = [
            (*saved, of_probabilities, of_wide, *of_logits),
            (*saved, of_probabilities, *of_logits, *by_sum),
        ]
        if kind == "remade":
            return _Entropy((), forward, [*forward, *moments], of_logits)
        return _Entropy(saved, forward, moments, of_logits)

    def by_token(self) -> Tensors:
        """Labels, and what the kernel knows of each row [n']."""
        rows = self._rows
        labels = self._step.tensor("labels", rows, width=INT64)
        return labels, self._step.tensor("log-sum-exp", rows, width=FP32)

    def _part(self, name: str) -> Tensor:
        """Of the tokens that are read, in the type of the logits."""
        return self._step.tensor(name, self._rows, self._features, width=self._width)

    def _wide(self, name: str) -> Tensor:
        return self._step.tensor(name, self._rows, self._features, width=FP32)

    def _all(self, name: str) -> Tensor:
        return self._step.tensor(name, *self._made.shape, width=self._made.width)


class _Packed(_ActorLogits):
    """Of all tokens. Up to v0.8 they are divided by a temperature in place, as a part of what the
    model has made: their gradient is spread over that, copied, and in the copy that of the part.
    """

    def __init__(self, step: Modules, made: Tensor, by: PolicyLoss) -> None:
        super().__init__(step, made, by, made.shape[0])
        self._divides = by.by == "verl-0.9"
        self._read = self._all("logits over the temperature") if self._divides else made

    def kept(self, entropy: _Entropy) -> Tensors:
        return (self._read, *entropy.saved)

    def forward(self, entropy: _Entropy) -> list[Tensors]:
        """The model's output is there as long as they are looked at."""
        there = tuple(dict.fromkeys((self._made, self._read)))
        return [there, *[(*there, *moment) for moment in entropy.forward]]

    def backward(self, entropy: _Entropy) -> list[Tensors]:
        last = self._step.passed_back(self._made, "output gradient")
        read, left = self._read, entropy.left
        moments: list[Tensors] = [(read, *moment) for moment in entropy.backward]
        apart = (self._all("gradient of the log-probabilities"),) if left else ()
        moments.append((read, *left, *apart))
        joined = left[0] if left else read
        if self._divides:
            return [*moments, (joined, last)]
        spread = self._all("gradient spread over what was made")
        names = "gradient of the part", "the same, divided"
        return [*moments, (joined, spread), (spread, last, *map(self._all, names))]


class _Padded(_ActorLogits):
    """Of the tokens that were generated [b R, V], which are copied where several samples are. The
    entropy is not compiled, and reads a part of all logits, which its product keeps, or whatever is
    to make it again, until that has its gradients.
    """

    def __init__(self, step: Modules, made: Tensor, by: PolicyLoss) -> None:
        sizes = step.sizes
        generated = min(step.way.step.logits_kept or sizes.s, sizes.s - 1)
        super().__init__(step, made, by, sizes.b * generated)
        several = sizes.b > 1
        self._read = self._part("logits of what was generated") if several else made

    def kept(self, entropy: _Entropy) -> Tensors:
        all_of_them = (self._made,) if entropy.left else ()
        return (*dict.fromkeys((*all_of_them, self._read)), *entropy.saved)

    def forward(self, entropy: _Entropy) -> list[Tensors]:
        there = tuple(dict.fromkeys((self._made, self._read)))
        return [there, *[(*there, *moment) for moment in entropy.forward]]

    def backward(self, entropy: _Entropy) -> list[Tensors]:
        last = self._step.passed_back(self._made, "output gradient")
        read, left, whole = self._read, entropy.left, self._all("gradient of all logits")
        count = len(entropy.backward) if self._by.entropy == "remade" else 1
        keeps = [(self._made,) if number < count else () for number in range(len(entropy.backward))]
        moments = [
            (*dict.fromkeys((*kept, read)), *moment)
            for kept, moment in zip(keeps, entropy.backward, strict=True)
        ]
        moments.append((read, *left))
        return [*moments, ((left[0] if left else read), whole), (whole, last)]


class _Widened(_ActorLogits):
    """Of all tokens, in fp32 in the place of what the model has made. They are held, so that their
    gradient is apart; divided, as they were in place, it is there twice for a moment.
    """

    def __init__(self, step: Modules, made: Tensor, by: PolicyLoss, held: Tensor) -> None:
        super().__init__(step, made, by, step.sizes.n)
        self._features, self._width = step.sizes.V, FP32
        self._read = held

    def kept(self, entropy: _Entropy) -> Tensors:
        return (self._read, *entropy.saved)

    def forward(self, entropy: _Entropy) -> list[Tensors]:
        return [(self._made, self._read), *[(self._read, *moment) for moment in entropy.forward]]

    def backward(self, entropy: _Entropy) -> list[Tensors]:
        read, left = self._read, entropy.left
        last = self._step.passed_back(self._made, "output gradient")
        of_read = self._part("gradient of the log-probabilities")
        moments: list[Tensors] = [(read, *moment) for moment in entropy.backward]
        moments.append((read, *left, of_read))
        if self._by.by == "openrlhf-divided":
            moments.append((read, of_read, self._part("the same, divided")))
        return [*moments, (read, of_read, last)]


def fused(step: Modules, x: Tensor, by: PolicyLoss) -> None:
    """Head and log-probabilities of some tokens [C] after the others, whose logits in fp32 are made
    again in backward. Gradients add up in the types of what was read, and the head's of the chunk
    before waits until that of the next is there.
    """
    sizes, h = step.sizes, step.sizes.h
    n, trained = sizes.n, sizes.trains("lm_head")
    chunk = min(n, FUSED_TOKENS)
    step.receives("norm_output", x)

    def wide(name: str, count: int) -> Tensor:
        return step.several(name, count, chunk, sizes.V, width=FP32)

    made = wide("logits, probabilities, their logarithms and product", 4)
    again = wide(
        "logits, probabilities, labels and their gradients", 5 if by.entropy == "none" else 7
    )
    held = wide("logits, probabilities and labels", 3)
    gradients = step.several("gradients of logits", 2, chunk, sizes.V, width=x.width)
    of_input = step.tensor("gradient of the hidden state", *x.shape, width=x.width)
    of_chunk = step.tensor("gradient of a chunk's hidden state", chunk, h, width=x.width)
    gradient = step.tensor("weight gradient", sizes.V, h, width=sizes.gradient_bytes)
    names = "weight gradient of the chunk before", "weight gradient of a chunk"
    before, own = (step.tensor(name, sizes.V, h, width=sizes.bytes) for name in names)
    waits = (before,) * (trained and n > chunk)
    step.operation(
        "log_probabilities",
        reads=(x,),
        saves=(step.keep(x, n), step.tensor("labels", n, width=INT64)),
        borrows=(made,),
        backward=highest(
            (of_input, *waits, of_chunk, again),
            (of_input, *waits, of_chunk, held, gradients, *(own,) * trained),
        ),
        leaves=(gradient,) * trained,
        kind=OperationKind.LOSS,
        demands=(Product(n, h, sizes.V, 0, 2 + trained, narrow=False),),
    )
