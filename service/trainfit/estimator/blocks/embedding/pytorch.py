"""Token embedding as a module of PyTorch, and what layers share: tables of positions, masks.

Symbols: estimator.legend. Source: torch.nn.functional.embedding, transformers' modeling files
(rotary_emb) and masking_utils.py (eager_mask), torch/distributed/tensor/_ops/_embedding_ops.py.
"""

from trainfit.estimator.legend import PytorchLegend
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.operations.widths import BYTE, INT64
from trainfit.estimator.tensors import Tensor
from trainfit.resolve.pytorch.plan import PytorchStep
from trainfit.specs.architecture import Embedding, Traits


def lookup(step: Modules, embedding: Embedding, rotated: int, masks: int) -> None:
    """The lookup [n, h]. `rotated` are the dimensions of a head that turn by position, `masks` are
    those [b, 1, s, s] that attention adds to its scores: checkpointed layers keep them.
    """
    sizes, way = step.sizes, step.way
    n, (h, d), width = sizes.n, step.named(h=embedding.width, d=rotated), sizes.residual_bytes
    saves = [
        step.tensor("token ids", n, width=INT64),
        step.several("cos and sin", 2, sizes.s, d, width=width),
    ]
    if way.traits.embedding_dropout and way.step.hidden_dropout:
        saves.append(step.tensor("dropout mask", n, h, width=BYTE))
    if _made_anew(sizes, way.traits, embedding) and takes_gradient(way.step):
        taken = sizes.embedding_bytes
        saves.append(step.tensor("embeddings that take a gradient", n, h, width=taken))
    keys = sizes.c * (sizes.s + sizes.prefix)
    mask = step.tensor("masks of attention", masks, sizes.b, 1, sizes.s, keys, width=width)
    if way.step.checkpointing.kind == "none":
        step.cache(mask)
    else:
        saves.append(mask)
    trained = sizes.trains("embed_tokens")
    backward, leaves = _gradients(step, h) if trained else ((), ())
    if trained:
        shape = (embedding.position_rows, embedding.position_width or h)
        name = "gradient of positions"
        leaves = (*leaves, step.tensor(name, *shape, width=sizes.gradient_bytes))
    step.operation(
        "embedding",
        saves=saves,
        borrows=(step.several("embeddings and positions", 2, n, h, width=width),)
        * bool(embedding.position_rows),
        backward=backward,
        leaves=leaves,
    )


def _made_anew(sizes: PytorchLegend, traits: Traits, embedding: Embedding) -> bool:
    """Whether frozen embeddings are not what the first layer reads: tokens are put before them,
    positions are added, or they are multiplied. Those that take a gradient then stay beside it,
    since the end of their graph owns them (torch/csrc/autograd/functions/accumulate_grad.h).
    """
    if sizes.adapters is None or sizes.trains("embed_tokens"):
        return False
    positions = embedding.position_rows > 0
    return sizes.adapters.virtual is not None or positions or traits.embedding_scaled


def _gradients(step: Modules, h: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """What backward borrows and leaves. The gradient of the matrix is dense. Over tensor-parallel
    ranks it is made whole, [V, h], and a rank's share stays a part of that unless FSDP copies it. A
    tied matrix has the head's gradient waiting: the new one and their sum are there beside it.
    """
    way, rows, width = step.way, step.sizes.V, step.sizes.gradient_bytes
    ranks = step.sizes.t if way.divides_embedding else 1
    whole = step.tensor("gradient of the whole matrix", rows, h, width=width)
    share = step.tensor("weight gradient", rows // ranks, h, width=width)
    copied = ranks > 1 and way.shards_parameters
    borrowed = (whole,) if copied else ()
    if way.output_layer.tied:
        both = step.several("new gradient and sum", 2, *share.shape, width=width)
        return (*borrowed, both), ()
    return borrowed, (share if copied else whole,)


def takes_gradient(step: PytorchStep) -> bool:
    """Whether frozen embeddings take a gradient, and so are kept: transformers' own checkpointing
    has them (gradient_checkpointing_enable), not that by which accelerate wraps layers under FSDP,
    nor LLaMA-Factory's. Reentrant layers have a backward only where their input takes one.
    """
    wrapped = step.data_parallelism.engine in ("fsdp1", "fsdp2")
    policy = step.checkpointing
    its_own = policy.reentrant or (policy.frozen and not wrapped)
    return policy.kind != "none" and its_own
