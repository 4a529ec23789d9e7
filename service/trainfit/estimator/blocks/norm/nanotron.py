"""Normalisations of nanotron's Llama. Symbols: estimator.legend.

Source: nanotron's nn/layer_norm.py (TritonRMSNorm) and models/llama.py (LlamaDecoderLayer).
"""

from trainfit.estimator.operations.nanotron import NanotronProgram
from trainfit.estimator.tensors import Tensor


def norm(step: NanotronProgram, name: str = "norm") -> Tensor:
    """A norm of the residual stream [n', h]."""
    return step.rms_norm(name, step.tensor("norm input", step.sizes.n_shard, step.sizes.h))
