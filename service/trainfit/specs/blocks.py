"""The building blocks of a layer, as dimensions only.

A layer is a sequence of sublayers; each adds its blocks' outputs to the residual stream. A block
says what it is made of; what it owns and what it keeps in memory stands in `estimator.blocks`.
Widths left out are the model's hidden size.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from trainfit.specs.part import Count, Dimension, Part, Width

Bucket = Literal[
    "embedding",
    "position_embedding",
    "attention",
    "linear_attention",
    "dense_mlp",
    "routed_experts",
    "shared_experts",
    "router",
    "norm",
    "output_layer",
    "mtp",
    "vision",
    "other",
]
"""What a parameter belongs to when parameters are added up."""


@dataclass(frozen=True, slots=True)
class Makes:
    """Metadata of a field that has a block make activations of its own where it is set: what makes
    them, as an answer names it. A program says in `HONOURS` whose activations it follows.
    """

    what: str


@cache
def _making(block: type[Part]) -> tuple[tuple[str, Any, str], ...]:
    return tuple(
        [
            (name, field.default, made.what)
            for name, field in block.model_fields.items()
            for made in field.metadata
            if isinstance(made, Makes)
        ]
    )


def making(block: Part) -> Iterator[tuple[str, str]]:
    """The fields of a block that are set and make activations, and what of it makes them."""
    for name, unset, what in _making(type(block)):
        if getattr(block, name) != unset:
            yield name, what


class Norm(Part):
    """A normalisation with `copies` sets of `width` weights (and as many biases)."""

    kind: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    width: Width
    copies: Count = 1
    weight: bool = True
    bias: bool = False


class NamedWeight(Part):
    """A parameter given by name and shape, for blocks that are described by their weights."""

    name: str
    shape: tuple[Dimension, ...]
    trainable: bool = True
    bucket: Bucket | None = None
    """What the parameter is added up under, where that is not the bucket of its block."""


class Attention(Part):
    """Softmax attention with `heads` query heads and `kv_heads` key and value heads (a, g, d)."""

    kind: Literal["attention"] = "attention"
    heads: Count
    kv_heads: Count
    head_dim: Width
    v_head_dim: Width | None = None
    input_size: Width | None = None
    output_size: Width | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    q_norm: Annotated[Norm | None, Makes("norm of queries")] = None
    k_norm: Annotated[Norm | None, Makes("norm of keys")] = None
    gate_width: Annotated[int, Field(ge=0, le=4_194_304), Makes("gate of attention")] = 0
    """Output features of a gate projected beside the queries; 0 where there is none."""
    gate_bias: bool = False
    sinks: Annotated[bool, Makes("attention sinks")] = False
    window: Count | None = None
    rope: bool = True
    key_is_value: bool = False
    """One projection serves as key and value: no value weights."""
    owns_kv: bool = True
    """False where keys and values are those of an earlier layer."""
    reuses_weights: bool = False
    """True where the whole block is an earlier layer's, run again."""
    q_lora_rank: Annotated[Width | None, Makes("latent of queries")] = None
    """Queries grow from a normed latent of this rank."""
    out_lora_rank: Annotated[Width | None, Makes("latent of attention's output")] = None
    """The output passes a latent of this rank for each of `out_groups` groups of heads."""
    out_groups: Count = 1
    query_experts: Annotated[Count | None, Makes("mixture of attention heads")] = None
    """In a mixture of attention heads, how many query and output projections a key-value head
    has; heads / kv_heads of them serve a token."""
    bucket: Bucket = "attention"


class Indexer(Part):
    """The scorer of sparse attention: which keys a query attends to."""

    heads: Count
    head_dim: Width


class LatentAttention(Part):
    """Multi-head latent attention (MLA): queries, keys and values grow from low-rank latents."""

    kind: Literal["mla"] = "mla"
    heads: Count
    q_lora_rank: Width | None
    kv_lora_rank: Width
    qk_nope_head_dim: Width
    qk_rope_head_dim: Annotated[int, Field(ge=0, le=4_194_304)]
    v_head_dim: Width
    down_bias: bool = False
    """Biases on both down projections."""
    out_bias: bool = False
    latent_norms: Literal["rmsnorm", "layernorm"] | None = "rmsnorm"
    gate_width: Annotated[int, Field(ge=0, le=4_194_304), Makes("gate of attention")] = 0
    """Output features of a gate projected from the hidden state; 0 where there is none."""
    sinks: Annotated[bool, Makes("attention sinks")] = False
    window: Count | None = None
    indexer: Annotated[Indexer | None, Makes("indexer of sparse attention")] = None
    owns_kv_latent: bool = True
    """False where keys and values grow from an earlier layer's latent."""


class Recurrence(Part):
    """A mixer whose cost is linear in the sequence: state space, linear attention, convolution.

    `weights` are its parameters; the widths, in features per token, decide its activations.
    """

    kind: Literal["recurrence"] = "recurrence"
    flavour: str
    weights: tuple[NamedWeight, ...]
    norms: tuple[Norm, ...] = ()
    projected_width: Width
    """Features that the projections before the output projection make, all together."""
    convolved_width: Annotated[int, Field(ge=0, le=4_194_304)] = 0
    """Features that pass a short convolution; 0 where there is none."""
    convolves_in_scan: bool = False
    """Whether one kernel convolves and scans, and convolves again in backward."""
    inner_width: Width
    """Features that enter the output projection."""
    reuses_weights: bool = False
    bucket: Bucket = "linear_attention"


class Mlp(Part):
    """A feed-forward network of width f, gated (two input projections) or plain."""

    kind: Literal["mlp"] = "mlp"
    ffn: Width
    gated: bool = True
    clamped: Annotated[bool, Makes("clamped gate")] = False
    """Whether the factors of the gate are clamped."""
    bias: bool = False
    input_size: Width | None = None
    output_size: Width | None = None
    reuses_weights: bool = False
    bucket: Bucket = "dense_mlp"


class Experts(Part):
    """A mixture of `experts` feed-forward networks of width f_e, `top_k` of them per token."""

    kind: Literal["moe"] = "moe"
    experts: Count
    top_k: Count
    ffn: Width
    gated: bool = True
    clamped: Annotated[bool, Makes("clamped gate of experts")] = False
    """Whether the factors of the gate are clamped; those of shared experts too."""
    bias: bool = False
    router_bias: bool = False
    correction_bias: bool = False
    """A load-balancing bias kept as a parameter without gradient; as a buffer it is none."""
    router_width: Count | None = None
    """Rows of the router where it scores more than the experts that own weights."""
    router_input: Annotated[Width | None, Makes("network before the router")] = None
    """Features that the router's matrix reads, where a network of its own comes before."""
    latent: Annotated[Width | None, Makes("latent projections of experts")] = None
    """Experts work at this width, between two replicated projections."""
    latent_bucket: Bucket = "other"
    latent_bias: bool = False
    shared_ffn: Annotated[Width | None, Makes("shared experts")] = None
    """Width of all shared experts together."""
    shared_gated: bool = True
    shared_bias: bool = False
    shared_gate: Annotated[bool, Makes("gate of shared experts")] = False


class Opaque(Part):
    """Weights that belong to no block above: counted to the digit, each matrix saving its input."""

    kind: Literal["opaque"] = "opaque"
    name: str
    bucket: Bucket
    weights: tuple[NamedWeight, ...]


Block = Annotated[
    Attention | LatentAttention | Recurrence | Mlp | Experts | Opaque,
    Field(discriminator="kind"),
]


class Sublayer(Part):
    """Blocks that read the same normalised input and are added to the residual together."""

    norms: tuple[Norm, ...] = ()
    blocks: tuple[Block, ...]
    post_norms: tuple[Norm, ...] = ()
    trainable: bool = True
    wide: bool = False
    """Whether it multiplies as wide as activations are where others do in fp8 or fp4."""


class Layer(Part):
    """One kind of layer."""

    sublayers: tuple[Sublayer, ...]

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of all sublayers, in forward order."""
        return tuple([block for sublayer in self.sublayers for block in sublayer.blocks])

    @cached_property
    def has_experts(self) -> bool:
        return any(isinstance(block, Experts) for block in self.blocks)

    def with_sublayers(self, **changes: bool) -> Self:
        """This layer with these fields of its sublayers."""
        sublayers = [each.model_copy(update=changes) for each in self.sublayers]
        return self.model_copy(update={"sublayers": tuple(sublayers)})

    @cached_property
    def is_wide(self) -> bool:
        return all(each.wide for each in self.sublayers)
