"""Normalisations: what they own. Symbol: w the width."""

from trainfit.estimator.ledger import Split, Weight
from trainfit.specs.blocks import Norm


def weights(norm: Norm, name: str) -> Weight:
    """Scale [w] and, for a biased LayerNorm, shift [w]; every rank keeps them whole."""
    per_copy = norm.width * (int(norm.weight) + int(norm.bias))
    return Weight(name, per_copy * norm.copies, "norm", Split.REPLICATED)
