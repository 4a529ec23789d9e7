"""Feed-forward network as modules of PyTorch. Symbols: estimator.legend.

Source: transformers' modeling_llama.py (LlamaMLP) and the like.
"""

from trainfit.estimator.operations.fused_adapters import fused_mlp
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.tensors import Tensor
from trainfit.specs.blocks import Mlp


def mlp(step: Modules, x: Tensor, block: Mlp) -> None:
    """down_proj(act(gate_proj(x)) * up_proj(x)), or down_proj(act(up_proj(x)))."""
    (f,) = step.named(f=block.ffn)
    f //= step.sizes.t
    features = block.output_size or step.sizes.h
    apart = block.gated and not step.by.packed_qkv
    if apart and step.sizes.fuses("mlp", "gate_proj", "up_proj", "down_proj"):
        fused_mlp(step, x, f, features, bias=block.bias)
        return
    if block.gated:
        gate = step.linear("gate_proj", x, f, bias=block.bias, joins=True)
        activated = step.activated(gate) if step.activates_apart else None
        up = step.linear("up_proj", x, f, bias=block.bias, joins=True)
        y = step.activation(gate, up) if activated is None else step.gated(activated, up)
    else:
        y = step.activation(step.linear("up_proj", x, f, bias=block.bias))
    step.linear_out("down_proj", y, features, bias=block.bias)
