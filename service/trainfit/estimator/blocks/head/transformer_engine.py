"""Final norm, output layer and cross entropy in Megatron. Symbols: estimator.legend.

Sources: tensor_parallel/layers.py (linear_with_grad_accumulation_and_async_allreduce),
tensor_parallel/cross_entropy.py, fusions/fused_cross_entropy.py, transformer/module.py
(Float16Module.forward), TransformerEngine's triton/cross_entropy.py; verl's
workers/actor/megatron_actor.py from v0.4.0 to v0.7.1 (logits_processor) and
workers/engine/megatron/transformer_impl.py since (_lm_head_logits_processor),
utils/megatron/tensor_parallel.py (_VocabParallelEntropy), models/mcore/model_forward_fused.py and
utils/kernel/kernels.py (efficient_entropy_forward, efficient_entropy_backward); slime's
utils/ppo_utils.py (_VocabParallelLogProbEntropy) and backends/megatron_utils/loss.py
(get_log_probs_and_entropy) since v0.3.1; ms-swift's megatron/trainers/grpo_trainer.py
(forward_step) and vocab_parallel_utils.py; NeMo-RL's distributed/model_utils.py
(DistributedLogprob).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from trainfit.estimator.demands import Product
from trainfit.estimator.ledger import Tensors
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.operations.widths import FP32, INT64
from trainfit.estimator.program import highest
from trainfit.estimator.tensors import Tensor
from trainfit.resolve.megatron.plan import ActorLoss


def head(step: TransformerEngine) -> None:
    """Logits [n, V / t] from the final norm's output, which that norm keeps, and their loss."""
    actor = step.run.step.actor
    if actor is not None and actor.by == "verl-fused":
        with_head(step)
        return
    sizes = step.sizes
    logits = step.tensor("logits", sizes.n, sizes.V // sizes.t)
    of_logits = logits if is_in_place(step, logits) else step.of_output(logits)
    of_x = step.tensor("input gradient", sizes.n, sizes.h)
    reduced = step.tensor("reduced input gradient", sizes.n_gathered and sizes.n_shard, sizes.h)
    weights = step.weight_gradient(sizes.V // sizes.t, sizes.h)
    step.operation(
        "output_layer",
        makes=(logits,),
        backward=highest(
            (of_logits, of_x), (of_logits, of_x, reduced), (of_logits, *weights, of_x, reduced)
        ),
        weight=(sizes.V // sizes.t, sizes.h),
        demands=(
            Product(
                *(sizes.n, sizes.h, sizes.V // sizes.t),
                gradients=1 if step.is_frozen else 2,
                narrow=False,
            ),
            *step.into_columns(sizes.h),
        ),
    )
    if actor is None:
        cross_entropy(step, logits)
    else:
        log_probabilities(step, logits, actor)


def is_in_place(step: TransformerEngine, logits: Tensor) -> bool:
    """Whether the loss turns the logits into their gradient: te_fused does, and unfused where they
    are in fp32, so that there is no copy.
    """
    kind = step.run.step.cross_entropy
    if step.run.step.actor is not None:
        return False
    return kind == "te_fused" or (kind == "unfused" and logits.width == FP32)


def cross_entropy(step: TransformerEngine, logits: Tensor) -> None:
    """The loss over vocabulary-parallel logits, element by element of [n, V / t].

    te_fused turns the logits into their gradient in place. unfused keeps an fp32 softmax, made in
    place of the fp32 copy of the logits, or of logits in fp32. native_fused compiles the
    exponential, which then does not run in place.
    """
    kind = step.run.step.cross_entropy
    if is_in_place(step, logits):
        kept = step.tensor("maximum, sum and loss", 3, step.sizes.n, width=FP32)
        step.operation("loss", saves=(logits, kept))
        return
    softmax = step.tensor("softmax", *logits.shape, width=FP32)
    exponential = step.tensor("exponential", *logits.shape, width=FP32)
    borrows = (logits, exponential) if kind == "native_fused" else (logits,)
    step.operation("loss", saves=(softmax,), borrows=borrows, backward=(step.of_output(logits),))


def log_probabilities(step: TransformerEngine, logits: Tensor, actor: ActorLoss) -> None:
    """Those of logits, which the model answers in fp32."""

    def wide(name: str) -> Tensor:
        return step.tensor(name, *logits.shape, width=FP32)

    answer = logits if logits.width == FP32 else wide("logits in fp32")
    if actor.by == "ms-swift":
        moments = _ms_swift(answer, wide, ranks=step.sizes.t)
    elif actor.by == "nemo-rl":
        moments = _nemo_rl(answer, wide)
    else:
        way = {"slime": _slime, "slime-divided": _slime_divided}.get(actor.by, _verl)
        moments = way(answer, wide, entropy=actor.entropy)
    saved = moments.saved
    widening = tuple(dict.fromkeys((logits, answer)))
    narrowing = (moments.gradient, step.of_output(logits))
    step.operation(
        "log_probabilities",
        saves=saved,
        borrows=highest(widening, *moments.forward, saved=saved),
        backward=highest(*moments.backward, narrowing, saved=saved),
    )


class Moments(NamedTuple):
    """What log-probabilities save, what is there at once in forward and in backward, and the
    gradient that is left of the logits in fp32.
    """

    saved: Tensors
    forward: Sequence[Tensors]
    backward: Sequence[Tensors]
    gradient: Tensor


Wide = Callable[[str], Tensor]


def _verl(answer: Tensor, wide: Wide, *, entropy: bool) -> Moments:
    """Logits are divided by a temperature in place, and the plain cross entropy makes its softmax
    in their place, and its gradient in that of the softmax; only what divides it makes another. An
    entropy reads logits that are kept, with a softmax of its own, and the cross entropy a copy.
    """
    apart = (wide("softmax of the entropy"), wide("copy of the logits, and its softmax"))
    saved = (answer, *apart * entropy)
    divided = wide("gradient of the logits in fp32")
    return Moments(saved, (saved,), (saved, (answer, divided)), divided)


def _slime(answer: Tensor, wide: Wide, *, entropy: bool) -> Moments:
    """A softmax apart from the logits, which who calls holds until it is made, and whose place its
    gradient takes. An entropy that is learnt keeps the logits, and its gradient is another.
    """
    softmax, learnt = wide("softmax"), wide("gradient of the entropy")
    saved = (softmax, *(answer,) * entropy)
    return Moments(saved, ((answer, softmax),), ((*saved, *(learnt,) * entropy),), softmax)


def _slime_divided(answer: Tensor, wide: Wide, *, entropy: bool) -> Moments:
    """Logits over a temperature are others, and so is their gradient over it."""
    over = wide("logits over the temperature")
    _, forward, backward, softmax = moments = _slime(over, wide, entropy=entropy)
    divided = wide("gradient over the temperature")
    before = tuple((answer, *each) for each in forward)
    return Moments(moments.saved, before, (*backward, (softmax, divided)), divided)


def _ms_swift(answer: Tensor, wide: Wide, *, ranks: int) -> Moments:
    """A log-softmax of logits that were divided in place. The gradient of what is gathered of it is
    as large, and that of the logits another. Where `ranks` share the vocabulary, operation after
    operation makes it: exponentials are kept, logits less their maximum made beside them, and two
    gradients meet at the logits.
    """
    of_all, gathered = wide("log-probabilities of all rows"), wide("gradient of what is gathered")
    if ranks == 1:
        gradient = wide("gradient of the logits in fp32")
        return Moments((of_all,), ((answer, of_all),), ((of_all, gathered, gradient),), gradient)
    kept, less = wide("exponentials"), wide("logits less their maximum")
    of_sum = wide("gradient of the exponentials")
    forward, backward = ((answer, kept, less, of_all),), ((kept, gathered, of_sum),)
    return Moments((kept,), forward, backward, gathered)


def _nemo_rl(answer: Tensor, wide: Wide) -> Moments:
    """A log-softmax of logits that were divided in place, made of logits less their maximum, and
    the softmax of it, which is kept. Its gradient is another.
    """
    less, exponentials = wide("logits less their maximum"), wide("exponentials")
    of_all, softmax = wide("log-probabilities of all rows"), wide("softmax")
    gradient = wide("gradient of the logits in fp32")
    forward = ((answer, less, exponentials), (answer, less, of_all), (answer, of_all, softmax))
    return Moments((softmax,), forward, ((softmax, gradient),), gradient)


LOOKED_AT, AT_ONCE = 1024, 9504
"""Rows of the vocabulary of which forward keeps a value each, and for whose gradients backward has
room at once, be there as many or not (vocab_per_split).
"""


def with_head(step: TransformerEngine) -> None:
    """Tiles of logits, whose maximum, sum and entropy by parts of the vocabulary are joined; in
    backward a part of their gradient [n, C] after the other, the two gradients that come of it, and
    what is added to one. The last part is copied where it has fewer rows than there is room for.
    Ranks that share the sequence gather what is read, and it is kept.
    """
    sizes, rows = step.sizes, step.sizes.V // step.sizes.t
    gathered = step.tensor("gathered hidden state", sizes.n_gathered, sizes.h)
    parts = -(-rows // LOOKED_AT)
    by_part = step.several("maximum, sum and entropy of parts", 3, sizes.n, parts, width=FP32)
    of_x, added = (step.tensor(name, sizes.n, sizes.h) for name in ("input gradient", "addend"))
    whole, rest = rows // AT_ONCE, rows % AT_ONCE
    part = step.tensor("gradient of some logits", sizes.n, AT_ONCE)
    last = step.tensor("gradient of the last logits", sizes.n, rest)
    reduced = step.tensor("reduced input gradient", sizes.n_gathered and sizes.n_shard, sizes.h)
    of_weight = step.tensor("weight gradient", rows, sizes.h)
    moments: list[Tensors] = [(part, added) if whole > 1 else (part,)]
    if rest:
        moments += [(part, last), (last, added) if whole else (last,)]
    moments.append((reduced,))
    step.operation(
        "log_probabilities",
        saves=(gathered, step.tensor("labels", sizes.n, width=INT64)),
        borrows=(by_part,),
        backward=highest(*[(of_x, of_weight, *each) for each in moments]),
        weight=(rows, sizes.h),
        demands=(
            Product(sizes.n, sizes.h, rows, 0, 3, narrow=False),
            *step.into_columns(sizes.h),
        ),
    )
