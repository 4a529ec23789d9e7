"""ModelSpec: a model as a list of layer kinds and their dimensions."""

from collections.abc import Callable, Collection
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainfit.specs.blocks import Block, Layer, Norm, Opaque
from trainfit.specs.encoder import Encoder
from trainfit.specs.part import MAX_SAFE_INTEGER, Count, Part, Width

MAX_LAYERS = 2048


class Embedding(Part):
    """Token embedding, with learned positions and norms where a model has them."""

    rows: Width
    width: Width
    position_rows: Annotated[int, Field(ge=0, le=16_777_216)] = 0
    position_width: Width | None = None
    """Width of the positions where it is not `width`."""
    norms: tuple[Norm, ...] = ()


class OutputLayer(Part):
    """The projection onto the vocabulary; a tied one owns no weight of its own."""

    rows: Width
    width: Width
    tied: bool = False
    bias: bool = False
    scores_labels: bool = False
    """True where the rows are labels of a classifier or reward model, not the vocabulary."""


class MultiTokenPrediction(Part):
    """Extra depths that each predict one token further: a projection of 2h to h and a layer."""

    num_layers: Count
    layer_kind: Annotated[int, Field(ge=0)]
    norms: tuple[Norm, ...]
    """Norms of the embedding, of the hidden state and before the head."""
    repeated: bool = False
    """All depths run the weights of one."""

    def built(self, depths: int) -> int:
        """How many have weights of their own, of so many `depths` that are trained."""
        return min(depths, 1) if self.repeated else depths


class Traits(Part):
    """What a config says beyond dimensions that decides which tensors a step keeps."""

    activation: str = "silu"
    """Of feed-forward networks and experts, by transformers' name."""
    attention_dropout: bool = False
    hidden_dropout: bool = False
    """Before each residual addition."""
    embedding_dropout: bool = False
    embedding_scaled: bool = False
    """The model multiplies what its embedding makes with a number, which makes it anew."""
    attention_softcap: bool = False
    logits_softcap: bool = False
    logits_scaled: bool = False
    """Logits are multiplied with a number, which makes them anew."""


class Implementation(Part):
    """What a family's modelling class computes in its own way, which no config.json says. Defaults
    are what Llama's does. Source: transformers' modeling and configuration files (5.23.0).
    """

    packed_qkv: bool = False
    """Queries, keys and values come from one product: one storage for the three."""
    partial_rotary: bool = False
    """Queries and keys are put together from a rotated and an unrotated part: the heads then lie
    before the tokens in memory, and the output is copied for the projection behind."""
    gate_projection: Literal["g_proj", "gate_proj", "q_proj"] = "g_proj"
    """What makes the gates of attention's output. q_proj makes the queries in the same product."""
    gate_activation: Literal["sigmoid", "softplus"] = "sigmoid"
    """Of the gates; a softplus is computed in fp32."""
    always_masks: bool = False
    """The kernel of attention is sent a mask even where causality is all that it says."""
    softmax_dtype: Literal["fp32", "input"] = "fp32"
    """In which eager attention makes its softmax: fp32, or the type of what it reads."""
    norm_scale_dtype: Literal["fp32", "input"] = "input"
    """In which an RMSNorm multiplies with its weight."""
    layer_norm: Literal["kernel", "kernel_in_fp32", "written_out"] = "kernel"
    """A LayerNorm is one kernel, reads a copy of its input in fp32, or is written out: the
    difference to the mean twice, and the normalised input, in fp32."""
    router_dtype: Literal["fp32", "input"] = "input"
    """In which a router multiplies; for fp32 it keeps a copy of its input."""
    experts_activation: str | None = None
    """Of experts, where it is another than the config names."""
    tp_plan: bool = False
    """`base_model_tp_plan` divides projections by columns, what follows them by rows, and the head
    with its output gathered. DeepSpeed rejects plans of experts and of latent attention."""
    ep_plan: bool = False
    """`base_model_ep_plan` divides the experts."""


class ModelSpec(Part):
    """A model. `pattern[i]` is the kind of layer i among `layer_kinds`."""

    name: str | None = None
    model_type: str
    hidden_size: Width
    embedding: Embedding
    layer_kinds: Annotated[tuple[Layer, ...], Field(max_length=256)]
    pattern: Annotated[tuple[int, ...], Field(min_length=1, max_length=MAX_LAYERS)]
    final_norms: tuple[Norm, ...]
    output_layer: OutputLayer
    mtp: MultiTokenPrediction | None = None
    extras: tuple[Opaque, ...] = ()
    """Weights outside the layers that are neither embedding, norm nor head."""
    encoder_parameters: Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)] = 0
    """Parameters of vision and audio towers with their projectors."""
    encoder_frozen_parameters: Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)] = 0
    """Those of them that the model's class never trains."""
    projector_parameters: Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)] | None = None
    """Those of them in what brings features to the text's width; None where they are not counted
    apart."""
    encoder: Encoder | None = None
    """The tower of images, where its activations are known too."""
    max_position_embeddings: Annotated[int, Field(ge=1, le=2**31)] | None = None
    traits: Traits = Traits()
    implementation: Implementation = Implementation()
    residual_streams: Count = 1
    """Hidden states that run side by side between the layers, joined by hyper-connections."""

    def __hash__(self) -> int:
        return self.hashed

    @cached_property
    def hashed(self) -> int:
        """The hash of every field, found once: a model is looked up with every plan that has it."""
        return hash(tuple([getattr(self, name) for name in ModelSpec.model_fields]))

    @property
    def num_layers(self) -> int:
        """L, without multi-token-prediction layers."""
        return len(self.pattern)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of every kind of layer."""
        return tuple([block for kind in self.layer_kinds for block in kind.blocks])

    def with_layers(self, places: Collection[int], change: Callable[[Layer], Layer]) -> Self:
        """The model with changed layers in these places, which are kinds of their own."""
        if not places:
            return self
        found = sorted({self.pattern[place] for place in places})
        changed = {kind: len(self.layer_kinds) + index for index, kind in enumerate(found)}
        kinds = (*self.layer_kinds, *(change(self.layer_kinds[kind]) for kind in found))
        pattern = [
            changed[kind] if place in places else kind for place, kind in enumerate(self.pattern)
        ]
        return self.model_copy(update={"layer_kinds": kinds, "pattern": tuple(pattern)})

    @property
    def has_experts(self) -> bool:
        """Whether any layer has."""
        return any(kind.has_experts for kind in self.layer_kinds)

    @model_validator(mode="after")
    def _pattern_names_kinds(self) -> Self:
        kinds = len(self.layer_kinds)
        if any(not 0 <= kind < kinds for kind in self.pattern):
            raise ValueError("pattern names a layer kind that is not listed")
        if self.mtp is not None and self.mtp.layer_kind >= kinds:
            raise ValueError("mtp.layer_kind names a layer kind that is not listed")
        return self
