"""Token embedding as a module of PyTorch, and the tables of positions that layers share.

Symbols: estimator.legend. Source: torch.nn.functional.embedding, transformers' modeling files
(rotary_emb), torch/distributed/tensor/_ops/_embedding_ops.py.
"""

from trainfit.estimator.ledger import Operation, backward, forward, gradient, saved
from trainfit.estimator.legend import PytorchLegend
from trainfit.resolve.plan import PytorchPlan
from trainfit.specs.architecture import Embedding

TOKEN_BYTES = 8
"""Token ids are int64."""


def operation(
    embedding: Embedding, rotated: int, sizes: PytorchLegend, plan: PytorchPlan
) -> Operation:
    """The lookup [n, h]. Its weight gradient is dense. Over tensor-parallel ranks it is made whole,
    [V, h], and a rank's share stays a part of that unless FSDP copies it. A tied matrix has the
    head's gradient waiting: the new one and their sum are there beside it. `rotated` are the
    dimensions of a head that turn by position.
    """
    n, h, width = sizes.n, embedding.width, sizes.residual_bytes
    trained = sizes.trains("embed_tokens")
    whole = sizes.V * h * sizes.gradient_bytes if trained else 0
    ranks = sizes.t if plan.layout.divides_embedding else 1
    share = whole // ranks
    tied = plan.model.output_layer.tied
    copied = ranks > 1 and plan.layout.sharding == "optim_grads_params"
    left = 0 if tied else share if copied else whole
    position = embedding.position_rows * (embedding.position_width or h)
    mask = n * h if plan.model.traits.embedding_dropout and plan.step.hidden_dropout else 0
    joined = sizes.adapters is not None and sizes.adapters.virtual is not None
    takes = joined and takes_gradient(plan)
    return Operation(
        "embedding",
        (
            saved("token ids [n]", TOKEN_BYTES * n),
            saved("cos and sin [s, d]", 2 * width * sizes.s * rotated),
            saved("dropout mask [n, h]", mask),
            saved("embeddings that take a gradient [n, h]", h * n * width if takes else 0),
            forward("embeddings and positions [n, h]", 2 * h * n * width),
            backward("gradient of the whole matrix [V, h]", whole if copied else 0),
            backward("new gradient and sum [V / t, h]", 2 * share if tied else 0),
            gradient("weight gradient [V / t, h]", left),
            gradient("gradient of positions", position * sizes.gradient_bytes if trained else 0),
        ),
    )


def takes_gradient(plan: PytorchPlan) -> bool:
    """Whether frozen embeddings take a gradient, and so are kept: transformers' own checkpointing
    has them (gradient_checkpointing_enable), not that by which accelerate wraps layers under FSDP,
    nor LLaMA-Factory's.
    """
    wrapped = plan.step.data_parallelism.engine in ("fsdp1", "fsdp2")
    policy = plan.step.checkpointing
    return policy.kind != "none" and policy.frozen and not wrapped
