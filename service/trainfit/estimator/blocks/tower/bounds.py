"""What a tower of images can take at most where nobody says how many of a sample's tokens are of
images: none may be, or all.

A tower has L' layers of width h' and feed-forward f', and makes one token of the text from p of its
patches. Widths in bytes: act of activations, 4 of fp32. Sources: transformers'
modeling_qwen2_vl.py, modeling_qwen2_5_vl.py, modeling_qwen3_vl.py; modeling_siglip.py,
modeling_clip.py, modeling_internvl.py and modeling_llama4.py, whose layers keep no more than these.
"""

from trainfit.estimator.operations.widths import FP32
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.encoder import Encoder

LIKE_HIDDEN = 11
"""Tensors [patches, h'] of a layer in the type of activations: both residual inputs, both norms'
outputs, q, k and v as they are made and as the kernel reads them, its output."""
LIKE_HIDDEN_FP32 = 8
"""Of both norms two each, and of queries and keys, which are turned in fp32, two each."""
LIKE_FEED_FORWARD = 5
"""Tensors [patches, f']: both products, the activation's parts, what the last product reads."""
MERGER = 4 * 3
"""Tensors [patches, h'] on the way to the text's width, where p patches lie side by side: three of
each way, of which Qwen3-VL has four (DeepStack).
"""
PIXELS = 2 * 3 * 16 * 16
"""Values of a patch of two frames and three colours, in fp32."""


def most_bytes(encoder: Encoder, plan: PytorchPlan) -> int:
    """The tower's activations where every token of a micro-batch is of an image: what each of its
    layers keeps, one layer at work, and the mask of patches that see each other. Where layers run
    again in backward a tower's do so too, and keep their inputs.
    """
    act = plan.step.activation_bytes
    tokens = plan.batch.micro_batch_size * (plan.batch.seq_length // plan.layout.cp)
    patches = tokens * encoder.patches_per_token
    layer = (
        encoder.hidden_size * (LIKE_HIDDEN * act + LIKE_HIDDEN_FP32 * FP32)
        + encoder.ffn_hidden_size * LIKE_FEED_FORWARD * act
    )
    again = plan.step.checkpointing.kind == "layers"
    kept = encoder.num_layers * (encoder.hidden_size * act if again else layer)
    outside = MERGER * encoder.hidden_size * act + PIXELS * FP32
    projected = tokens * sum(each.width for each in encoder.adapter + encoder.projector) * act
    mixed = encoder.packed_qkv and plan.step.attention_backend == "sdpa"
    return patches * (kept + layer + outside) + projected + (patches**2 if mixed else 0)


def bounded(plan: PytorchPlan) -> Encoder | None:
    """The tower whose activations are bounded: not one whose tokens are known, or whose attention
    makes all scores.
    """
    encoder, eager = plan.model.encoder, plan.step.attention_backend == "eager"
    return None if eager or plan.batch.image_tokens is not None else encoder
