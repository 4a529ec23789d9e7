"""Output layer and loss as modules of PyTorch. Symbols: estimator.legend.

Sources: transformers' loss/loss_utils.py (ForCausalLMLoss, at 4.46 and 4.49),
torch/distributed/tensor/parallel/loss.py, torchtitan's components/loss.py,
liger_kernel/ops/fused_linear_cross_entropy.py, TRL's trainer/sft_trainer.py
(_chunked_cross_entropy_loss) and trainer/reward_trainer.py, transformers' modeling_layers.py
(GenericForSequenceClassification), cut_cross_entropy's cce.py and cce_backward.py.
"""

from collections.abc import Sequence
from math import ceil

from trainfit.estimator.blocks.head import actor, preference
from trainfit.estimator.blocks.head import policy as policies
from trainfit.estimator.demands import Product
from trainfit.estimator.ledger import OperationKind, Tensors
from trainfit.estimator.operations.pytorch import Modules, Parts
from trainfit.estimator.operations.widths import FP32, INT32, INT64
from trainfit.estimator.program import highest
from trainfit.estimator.tensors import Tensor
from trainfit.resolve.pytorch.plan import PolicyLoss, PytorchStep


def head(step: Modules, x: Tensor, gathered: Tensor, *, in_forward: bool = False) -> None:
    """lm_head and the loss over its logits, from the final norm's output [n', h], which lm_head
    reads `gathered` from the tensor-parallel ranks [n, h]. The loss is computed in the model's
    forward, or outside.
    """
    if step.way.output_layer.scores_labels:
        _labels(step, gathered)
        return
    if (by := step.way.step.preference) is not None:
        if by.by == "trl-1.15":
            preference.tiled(step, gathered, step.sizes.n)
            preference.tiled_reference(step, by)
            return
        made = _output_layer(step, x, gathered, step.sizes.n)
        preference.log_probabilities(step, gathered, made, by)
        return
    if (policy := step.way.step.policy) is not None:
        _of_policy(step, x, gathered, policy)
        return
    kept = step.way.step.logits_kept
    n = kept * step.sizes.b // step.sizes.c if kept else step.sizes.n
    match step.way.step.cross_entropy:
        case "with_head":
            _with_head(step, x, n)
        case "cut":
            _cut(step, x, gathered, n)
        case "chunked":
            _chunked(step, x, n)
        case "checkpointed":
            _checkpointed(step, x, n)
        case "fused":
            _output_layer(step, x, gathered, n)
            _fused(step, n)
        case _:
            made = _output_layer(step, x, gathered, n)
            held = (gathered,) if in_forward and not step.keeps(gathered) else ()
            _cross_entropy(step, n, made, held)


def within_autocast(kinds: Sequence[OperationKind | None], step: PytorchStep) -> int | None:
    """How many of a head's operations of these `kinds` are over when autocast ends, and lets go of
    the weights that it has narrowed; None: all of them.

    transformers leaves autocast to accelerate, which wraps a model's forward in it: a loss of what
    the model answers is computed behind it, and a head in tiles is a part of the forward. TRL's
    trainers wrap their loss only where they have made 4-bit models' adapters bf16 before, of which
    autocast narrows none. verl's actor wraps all. Sources: accelerate's accelerator.py
    (prepare_model); transformers' trainer.py (autocast_smart_context_manager);
    torch/amp/autocast_mode.py (__exit__); TRL's trainer/dpo_trainer.py, kto_trainer.py,
    orpo_trainer.py, cpo_trainer.py (compute_loss) and grpo_trainer.py at 0.11 and every minor
    release since 0.16, trainer/utils.py (add_fused_lm_head); LLaMA-Factory's
    train/dpo/trainer.py and train/kto/trainer.py; ms-swift's rlhf_trainers/rlhf_mixin.py; verl's
    workers/engine/fsdp/transformer_impl.py (forward_step).
    """
    by = step.preference or step.policy
    if by is None or by.by.startswith("verl"):
        return None
    return kinds.index(OperationKind.LOSS) + (by.by == "trl-1.15")


def _of_policy(step: Modules, x: Tensor, gathered: Tensor, by: PolicyLoss) -> None:
    """Logits of what was generated, and of the token before; of all tokens in an actor of verl or
    OpenRLHF.
    """
    if by.by == "verl-fused":
        actor.fused(step, gathered, by)
        return
    if by.by.startswith(("verl", "openrlhf")):
        held = actor.answer(step, by)
        made = _output_layer(step, x, gathered, step.sizes.n)
        actor.log_probabilities(step, made, by, held)
        return
    tokens = policies.generated(step)
    if by.by == "trl-1.15":
        preference.tiled(step, gathered, step.sizes.b * tokens)
        return
    made = _output_layer(step, x, gathered, step.sizes.b * (tokens + 1))
    policies.log_probabilities(step, made, by)


def _labels(step: Modules, x: Tensor) -> None:
    """score makes the values [n, labels] of every token, of which the loss reads those of the last
    token of each sample that is no padding. It is known by its place among all, which are numbered
    beside a mask.
    """
    sizes = step.sizes
    step.receives("norm_output", x)
    values = step.linear("score", x, step.way.output_layer.rows)
    tokens = step.several("tokens that are no padding, their places", 2, sizes.n, width=INT32)
    step.operation(
        "loss",
        reads=(values,),
        saves=(step.tensor("places of the last tokens", sizes.b, width=INT64),),
        borrows=(tokens,),
        backward=(step.passed_back(values, "output gradient"),),
        kind=OperationKind.LOSS,
    )


def _output_layer(step: Modules, x: Tensor, gathered: Tensor, n: int) -> Tensor:
    """Logits [n, V / t]. A tied matrix leaves its gradient to the embedding, which adds its own.
    Where only the last tokens have logits, the gradient of the others is filled with zeros.
    DeepSpeed divides a matrix that is not tied, and gathers its logits.
    """
    sizes, way, parts = step.sizes, step.way, Parts()
    ranks = 1 if way.output_layer.tied and not way.divides_embedding else sizes.t
    features = sizes.V // ranks
    if way.traits.logits_softcap:
        parts.saves.append(step.tensor("capped logits", n, features))
    if ranks > 1 and not way.divides_embedding:
        name = "logits of all ranks, as gathered and in order"
        parts.borrows.append(step.several(name, 2, n, sizes.V))
    if n < sizes.n:
        name = "gradient of all tokens"
        parts.backward.append(step.tensor(name, *x.shape, width=x.width))
    step.receives("norm_output", gathered)
    bias = way.output_layer.bias
    logits = step.linear("lm_head", gathered, features, rows=n, beside=parts, bias=bias)
    return _scaled(step, logits) if way.traits.logits_scaled else logits


def _scaled(step: Modules, logits: Tensor) -> Tensor:
    """Logits times a number: they, and their gradients, are there twice for a moment."""
    scaled = step.tensor("scaled logits", *logits.shape)
    name = "output gradient"
    gradients = step.passed_back(scaled, name), step.passed_back(logits, name)
    step.operation("logits_scaling", reads=(logits,), output=scaled, backward=gradients)
    return scaled


def _rows(step: Modules) -> int:
    """V / t: rows of the vocabulary that the first of the tensor-parallel ranks has, which are the
    most (torch.chunk).
    """
    rows, rest = step.sizes.V // step.sizes.t, step.sizes.V % step.sizes.t
    return rows + (rest > 0)


def _cross_entropy(step: Modules, n: int, made: Tensor, held: Tensors) -> None:
    """fp32 log-probabilities of the logits, kept, and in backward their gradient and that of the
    logits. Over logits that ranks share, the log-probabilities are made again beside both.

    Where logits are shifted, a copy of them in fp32 is read. A model that widens its own logits for
    this lets go of the narrow ones (transformers 4.45's modeling_llama.py). A loss that the
    model's forward computes has what the head has read `held` beside it.
    """
    sizes, shifted = step.sizes, step.way.step.shifted
    shared = step.way.step.loss_parallel and sizes.t > 1
    shape = (n, _rows(step) if shared else sizes.V)
    as_made = made if made.shape == shape else step.tensor("logits", *shape)
    names = "logits in fp32", "shifted logits", "log-probabilities"
    wide, copy, kept = (step.tensor(name, *shape, width=FP32) for name in names)
    is_wide = sizes.bytes == FP32
    read = (as_made,) if is_wide else (as_made, wide)
    widened = (wide,) if shifted == "fp32_logits" else read
    copied = () if shifted == "labels" else (copy,)
    names = "gradient of the log-probabilities", "gradient in fp32", "the same, not shifted"
    of_kept, of_copy, of_wide = (step.tensor(name, *shape, width=FP32) for name in names)
    again = (step.tensor("probabilities", *shape, width=FP32),) if shared else ()
    *_, of_read = of_gradients = (of_copy, *(of_wide,) * bool(copied))
    narrowed = () if is_wide else (step.passed_back(made, "output gradient"),)
    step.operation(
        "loss",
        saves=(kept, step.tensor("labels", n, width=INT64)),
        borrows=highest(read, (*widened, *copied), (*widened, *copied, kept), saved=(kept,)).beside(
            *held
        ),
        backward=highest(
            (kept, of_kept, of_copy, *again), of_gradients, (of_read, *narrowed), saved=(kept,)
        ),
        kind=OperationKind.LOSS,
    )


def _fused(step: Modules, n: int) -> None:
    """One kernel reads the logits as they are, keeps them unless a pipeline does, and makes their
    gradient.
    """
    logits = step.tensor("logits", n, _rows(step))
    logsumexp = step.tensor("logsumexp", n, width=FP32)
    labels = step.tensor("labels", n, width=INT64)
    step.operation(
        "loss",
        saves=(logsumexp, labels, *((logits,) if not step.way.pipelined else ())),
        backward=(step.gradient(logits),),
        kind=OperationKind.LOSS,
    )


def _chunked(step: Modules, x: Tensor, n: int) -> None:
    """Head and loss of one part of the sequence after the other in forward, each with its backward
    at once. The gradient of the hidden state adds up in fp32 and waits in the narrow type, that of
    the head adds up whole: under FSDP in the type in which it is reduced, at the end.
    """
    sizes, way, states = step.sizes, step.way, step.way.step.states
    chunk, rows = ceil(n / way.step.loss_chunks), _rows(step)
    logits = step.tensor("logits of a chunk", chunk, rows)
    in_fp32 = step.several("logits in fp32, their softmax and gradient", 3, chunk, rows, width=FP32)
    gradient = step.tensor("gradient of the hidden state", *x.shape, width=x.width)
    adding = step.tensor("gradient of the hidden state in fp32", n, sizes.h, width=FP32)
    new = step.tensor("weight gradient", rows, sizes.h, width=sizes.gradient_bytes)
    trained = sizes.trains("lm_head")
    apart = trained and way.shards_parameters
    whole = step.tensor("weight gradient, whole", rows, sizes.h, width=states.reduced)
    left = step.tensor("reduced", rows * sizes.h // sizes.shards, width=states.gradients)
    input_of_it = step.tensor("reduce-scatter input", rows, sizes.h, width=states.reduced)
    step.operation(
        "loss",
        saves=(gradient, *((new,) if trained and not apart else ())),
        borrows=highest(
            (adding, logits, in_fp32, *(whole,) * apart),
            (adding, logits, *(step.tensor(new.name, *new.shape, width=new.width),) * trained)
            + (whole, input_of_it, left) * apart,
            saved=(gradient,),
        ).beside(x),
        leaves=(new,) if trained and not apart else (),
        kind=OperationKind.LOSS,
        demands=(Product(n, sizes.h, rows, 0, 1 + trained, narrow=False),),
    )


def _checkpointed(step: Modules, x: Tensor, n: int) -> None:
    """TRL's chunks: head, loss and entropy in fp32 of one part of the tokens after the other, made
    again in backward. Each copies the whole head to fp32, and to the narrow type under autocast.
    """
    sizes, h = step.sizes, step.sizes.h
    stored = sizes.residual_bytes if sizes.narrows_head else sizes.bytes
    read = sizes.bytes if sizes.autocast else FP32
    chunk = ceil(n / step.way.step.loss_chunks)

    def matrix(name: str, width: int) -> Tensor:
        return step.tensor(name, sizes.V, h, width=width)

    widened = (matrix("head in fp32", FP32),) if stored < FP32 else ()
    narrowed = (matrix("head in the narrow type", read),) if sizes.autocast else ()
    copies = widened + narrowed
    kept = copies[-1:]
    product = step.tensor("logits of a chunk", chunk, sizes.V, width=read)
    in_fp32 = step.several(
        "logits in fp32, their softmax and product", 3, chunk, sizes.V, width=FP32
    )
    at_product, at_entropy = (*copies, product), (product, in_fp32)
    trained = sizes.trains("lm_head")
    if trained:
        kept += (step.tensor("input of a chunk", chunk, h, width=read),)
        of_head = matrix("gradient of the head as it is read", read)
        in_each = tuple(matrix("gradient of the head", width) for width in {FP32, read, stored})
        again = highest((*kept, *at_entropy), (*kept, product, of_head), in_each)
    else:
        again = highest(at_product, (*kept, *at_entropy))
    gradient = step.tensor("gradient of the hidden state", *x.shape, width=x.width)
    copy = step.tensor("input of the head, tokens with a loss first", *x.shape, width=x.width)
    step.operation(
        "loss",
        saves=(copy,),
        borrows=highest(at_product, at_entropy).beside(x),
        backward=again.beside(gradient),
        leaves=(matrix("weight gradient", sizes.gradient_bytes),) * trained,
        kind=OperationKind.LOSS,
        demands=(Product(n, h, sizes.V, 0, 2 + trained, narrow=False),),
    )


def _with_head(step: Modules, x: Tensor, n: int) -> None:
    """Liger's kernel makes the gradients in forward, over chunks of about h / V of the tokens. A
    chunk's weight gradient is copied to fp32 before it is added. Autocast keeps a narrow copy of
    the head meanwhile.
    """
    sizes, h = step.sizes, step.sizes.h
    chunk = 1 << (ceil(n / ceil(sizes.V / h)) - 1).bit_length()
    shape = (_rows(step), h)
    made = step.tensor("weight gradient, made in forward", *shape, width=sizes.gradient_bytes)
    of_chunk = (
        step.tensor("weight gradient of a chunk", *shape),
        step.tensor("weight gradient of a chunk in fp32", *shape, width=FP32),
    )
    trained = sizes.trains("lm_head")
    step.operation(
        "loss",
        saves=(step.tensor("gradient of the hidden state", n, h), *(made,) * trained),
        borrows=(
            x,
            step.tensor("logits of a chunk", min(chunk, n), shape[0]),
            *of_chunk * trained,
            *(step.tensor("head in the narrow type", *shape),) * sizes.narrows_head,
        ),
        leaves=(made,) * trained,
        kind=OperationKind.LOSS,
        demands=(Product(n, h, shape[0], 0, 1 + trained, narrow=False),),
    )


def _cut(step: Modules, x: Tensor, gathered: Tensor, n: int) -> None:
    """Cut Cross-Entropy multiplies and adds up a tile of the logits at a time, and makes each tile
    again in backward: what it keeps are its inputs, a log-sum-exp for a token and an average logit
    for a row of the vocabulary. Gradients add up in the type of what was read, and are widened at
    the end where autocast had narrowed that.
    """
    sizes, h = step.sizes, step.sizes.h
    rows, trained = _rows(step), sizes.trains("lm_head")
    step.receives("norm_output", gathered)
    of_input = [step.passed_back(gathered, "input gradient")]
    if gathered.width > sizes.bytes:
        of_input.append(step.tensor("input gradient in the narrow type", n, h))
    if n < sizes.n:
        of_input.append(step.tensor("gradient of all tokens", *x.shape, width=x.width))
    gradient = step.tensor("weight gradient", rows, h, width=sizes.gradient_bytes)
    narrow = (step.tensor("weight gradient in the narrow type", rows, h),) * sizes.narrows_head
    step.operation(
        "loss",
        reads=(gathered,),
        saves=(
            step.keep(gathered, n),
            *(step.tensor("head in the narrow type", rows, h),) * sizes.narrows_head,
            step.tensor("logsumexp", n, width=FP32),
            step.tensor("average logits", rows, width=FP32),
            step.tensor("labels", n, width=INT64),
        ),
        backward=(*of_input, *narrow * trained),
        leaves=(gradient,) * trained,
        kind=OperationKind.LOSS,
        demands=(Product(n, h, rows, 0, 2 + trained, narrow=False),),
    )
