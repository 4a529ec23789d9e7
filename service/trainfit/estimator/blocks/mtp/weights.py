"""Multi-token prediction: what one depth owns besides its layer. Symbol: h hidden."""

from collections.abc import Iterator

from trainfit.estimator.blocks.norm import weights as norm
from trainfit.estimator.ledger import Split, Weight
from trainfit.specs.architecture import MultiTokenPrediction


def weights(mtp: MultiTokenPrediction, hidden: int) -> Iterator[Weight]:
    """eh_proj [h, 2h] column-parallel and the norms around it.

    Source: megatron/core/transformer/multi_token_prediction.py.
    """
    yield Weight("eh_proj", 2 * hidden * hidden, "mtp", Split.TENSOR)
    for index, each in enumerate(mtp.norms):
        yield norm.weights(each, f"norm{index}")
