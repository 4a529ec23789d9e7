"""A tower of images before the text's embedding, as one stretch with it."""

from trainfit.estimator.blocks.tower import stretches
from trainfit.estimator.blocks.tower.stretches import one_after_another
from trainfit.estimator.legend import PytorchLegend, pytorch_legend_of
from trainfit.estimator.run import pytorch_way_of
from trainfit.estimator.segment import Segment
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.encoder import Encoder


def with_tower(embedding: Segment, sizes: PytorchLegend, plan: PytorchPlan) -> Segment:
    """The embedding behind the tower, where it is followed and a sample is known to have tokens of
    images.
    """
    encoder, tokens = plan.model.encoder, plan.batch.image_tokens
    if encoder is None or not tokens:
        return embedding
    tower = stretches.with_pixels(encoder, tokens, sizes, pytorch_way_of(plan))
    return one_after_another([*tower, embedding])


def bounded(plan: PytorchPlan) -> Encoder | None:
    """The tower whose activations are bounded: not one whose tokens are known, or whose attention
    makes all scores.
    """
    encoder, eager = plan.model.encoder, plan.step.attention_backend == "eager"
    return None if eager or plan.batch.image_tokens is not None else encoder


def most_bytes(encoder: Encoder, plan: PytorchPlan) -> int:
    """The tower's activations where every token of a micro-batch is of an image."""
    tokens = plan.batch.seq_length // plan.layout.cp
    return stretches.most_bytes(encoder, tokens, pytorch_legend_of(plan), pytorch_way_of(plan))


def adapter_parameters(plan: PytorchPlan) -> int:
    """Elements of adapters of the tower's linears, whatever images there are."""
    encoder, sizes = plan.model.encoder, pytorch_legend_of(plan)
    if encoder is None or sizes.adapters is None:
        return 0
    return stretches.adapter_parameters(encoder, sizes, pytorch_way_of(plan))
