"""What the programs of blocks are run with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from trainfit.resolve.megatron.plan import MegatronPlan, Routing, StepArithmetic
from trainfit.specs.architecture import Implementation, ModelSpec, OutputLayer, Traits
from trainfit.specs.framework import Megatron

if TYPE_CHECKING:
    from trainfit.resolve.pytorch.plan import PytorchPlan, PytorchStep


class MegatronStep(NamedTuple):
    """How a step runs under Megatron, whatever its sizes. Keys and values go round rings of
    `cp_ring` context-parallel ranks.
    """

    cp_comm_type: Literal["p2p", "all_gather", "a2a", "a2a+p2p"]
    cp_ring: int
    step: StepArithmetic
    routing: Routing
    framework: Megatron


class MegatronRun(NamedTuple):
    """One micro-batch through the layers of a rank: all of a plan that its ledger rests on."""

    model: ModelSpec
    vocabulary_rows: int
    mtp_layers: int
    tp: int
    sequence_parallel: bool
    cp: int
    cp_comm_type: Literal["p2p", "all_gather", "a2a", "a2a+p2p"]
    cp_ring: int
    ep: int
    etp: int
    micro_batch_size: int
    seq_length: int
    step: StepArithmetic
    routing: Routing
    framework: Megatron
    image_tokens: int | None
    tower: PytorchStep | None
    """How a tower of transformers' modules runs, if there is one."""

    @property
    def way(self) -> MegatronStep:
        return MegatronStep(
            self.cp_comm_type, self.cp_ring, self.step, self.routing, self.framework
        )


def run_of(plan: MegatronPlan) -> MegatronRun:
    layout, batch = plan.layout, plan.batch
    return MegatronRun(
        model=plan.model,
        vocabulary_rows=plan.vocabulary_rows,
        mtp_layers=plan.mtp_layers,
        tp=layout.tp,
        sequence_parallel=layout.sequence_parallel,
        cp=layout.cp,
        cp_comm_type=layout.cp_comm_type,
        cp_ring=layout.cp_ring,
        ep=layout.ep,
        etp=layout.etp,
        micro_batch_size=batch.micro_batch_size,
        seq_length=batch.seq_length,
        step=plan.step,
        routing=plan.routing,
        framework=plan.framework,
        image_tokens=batch.image_tokens,
        tower=plan.tower,
    )


class PytorchWay(NamedTuple):
    """How modules of PyTorch run, whatever their sizes: all else that programs read of a plan."""

    step: PytorchStep
    implementation: Implementation
    traits: Traits
    output_layer: OutputLayer
    num_layers: int
    divides_embedding: bool
    """Tensor-parallel ranks share out the rows of the vocabulary."""
    shards_parameters: bool
    pipelined: bool


def pytorch_way_of(plan: PytorchPlan) -> PytorchWay:
    model, layout = plan.model, plan.layout
    return PytorchWay(
        step=plan.step,
        implementation=model.implementation,
        traits=model.traits,
        output_layer=model.output_layer,
        num_layers=model.num_layers,
        divides_embedding=layout.divides_embedding,
        shards_parameters=layout.sharding == "optim_grads_params",
        pipelined=layout.pipeline.pp > 1,
    )
