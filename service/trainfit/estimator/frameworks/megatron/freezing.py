"""Which weights are trained, where towers, their projectors or the text's model are not."""

from trainfit.estimator.blocks.tower.weights import (
    MODULES,
    PROJECTOR_MODULE,
    TOWER_MODULE,
    towers,
)
from trainfit.estimator.ledger import Weight
from trainfit.estimator.local_parameters import DividedModel, ParameterTable
from trainfit.estimator.parameters import ParameterCounts
from trainfit.estimator.run import MegatronRun
from trainfit.specs.architecture import ModelSpec

BOTH = frozenset({TOWER_MODULE, PROJECTOR_MODULE})


def trained_table(divided: DividedModel, frozen: frozenset[str]) -> ParameterTable:
    """What of a model is trained on one GPU, where these parts are `frozen`."""

    def trained(weight: Weight) -> bool:
        if weight.bucket == "vision":
            return weight.trainable and MODULES[weight.name] not in frozen
        return "language_model" not in frozen

    return ParameterTable(divided, trained)


def frozen_towers(run: MegatronRun) -> frozenset[str]:
    """The parts of a tower that are not trained, which beside adapters are all."""
    return BOTH if run.step.adapters is not None else run.step.frozen & BOTH


def is_partly_frozen(run: MegatronRun) -> bool:
    """Whether parts of the model are not trained, without adapters beside them."""
    never = run.model.encoder_frozen_parameters > 0
    return run.step.adapters is None and (never or bool(run.step.frozen))


def trained_parameters(counts: ParameterCounts, spec: ModelSpec, frozen: frozenset[str]) -> int:
    """How many elements of the whole model are trained."""
    beside = [weight for weight in towers(spec) if weight.trainable]
    text = counts.trainable - sum(weight.numel for weight in beside)
    here = sum(weight.numel for weight in beside if MODULES[weight.name] not in frozen)
    return here + text * ("language_model" not in frozen)
