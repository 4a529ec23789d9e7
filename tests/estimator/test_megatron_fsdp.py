"""Megatron-FSDP's buffers: what of the states is whole on a rank beside its share."""

from __future__ import annotations

from typing import Any

from tests.estimator.jobs import megatron_plan
from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.megatron.states import state_sharding
from trainfit.estimator.frameworks.megatron.whole_units import WholeUnits
from trainfit.estimator.local_parameters import parameters_of
from trainfit.estimator.memo import Memo
from trainfit.estimator.peak import chunk_activations
from trainfit.estimator.placement import Content, placements
from trainfit.estimator.run import run_of
from trainfit.questions.estimate import answer
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.specs.job import Job

HIDDEN, FFN, VOCABULARY, RANKS = 1024, 4096, 32768, 8
LAYER = 4 * HIDDEN * HIDDEN + 3 * HIDDEN * FFN + 2 * HIDDEN
EMBEDDING = HIDDEN * VOCABULARY
SPEC = {
    "num_layers": 8,
    "hidden_size": HIDDEN,
    "num_attention_heads": 8,
    "ffn_hidden_size": FFN,
    "swiglu": True,
    "vocab_size": VOCABULARY,
    "normalization": "RMSNorm",
    "position_embedding_type": "rope",
    "add_bias_linear": False,
    "untie_embeddings_and_output_weights": True,
}
BF16, FP32 = 2, 4


def job_of(spec: dict[str, Any], strategy: str, **framework: Any) -> Job:
    return Job.model_validate(
        {
            "model": {"spec": spec},
            "parallelism": {"num_gpus": RANKS, "data_parallel_sharding_strategy": strategy},
            "training": {"seq_length": 1024, "num_microbatches": 4},
            "framework": {"name": "megatron", **framework},
        }
    )


def plan(spec: dict[str, Any], strategy: str, **framework: Any) -> MegatronPlan:
    return megatron_plan(job_of(spec, strategy, **framework))


def stage(strategy: str = "optim_grads_params", **framework: Any) -> Any:
    return answer(job_of(SPEC, strategy, **framework)).stages[0]


def allocated(strategy: str = "optim_grads_params", **framework: Any) -> int:
    return int(stage(strategy, **framework).allocated_bytes.expected)


def units_of(asked: MegatronPlan) -> tuple[WholeUnits, MegatronLedger, Content]:
    """What is whole of the one chunk of a plan."""
    ledger, table = MegatronLedger(run_of(asked)), parameters_of(asked, Memo())
    ((placed,),) = placements(asked.layout.pipeline, asked.model.pattern, asked.mtp_layers)
    return WholeUnits(ledger, table, table, state_sharding(asked)), ledger, placed.content


def whole(
    strategy: str = "optim_grads_params", spec: dict[str, Any] = SPEC, **framework: Any
) -> tuple[int, dict[str, list[tuple[int, int]]]]:
    """Bytes that are whole all the time, and beside the forward and the backward of each stretch,
    by its name.
    """
    units, _, content = units_of(plan(spec, strategy, **framework))
    beside: dict[str, list[tuple[int, int]]] = {}
    for each in units.segments(content):
        beside.setdefault(each.segment.name, []).append((each.beside, each.behind))
    return units.standing([content]), beside


def test_what_is_whole_at_the_peak_is_borrowed() -> None:
    units, ledger, content = units_of(plan(SPEC, "optim_grads_params"))
    priced = chunk_activations(ledger, content, units.segments)
    for each in (priced.forward, priced.backward):
        assert each.kept + each.borrowed == each.total
    assert priced.backward.borrowed > BF16 * 8 * LAYER


def test_small_layers_are_all_gathered_ahead_and_reduced_at_leisure() -> None:
    """Of fewer than 500 M elements ahead, and 1,000 M behind, none is waited for. The head asks for
    its bucket again, and brings along the layers that follow in the order of buckets.
    """
    standing, beside = whole()
    assert standing == BF16 * 2 * EMBEDDING
    assert beside["dense"] == [
        (
            BF16 * (8 - layer) * LAYER,
            BF16 * (layer + 1) * LAYER + FP32 * (EMBEDDING + (8 - layer) * LAYER),
        )
        for layer in range(8)
    ]
    every = BF16 * 8 * LAYER
    assert beside["head"] == [(every, every)]
    assert beside["final_norm"] == [(every, every + FP32 * EMBEDDING)]
    assert beside["embedding"] == [(every, FP32 * (8 * LAYER + EMBEDDING))]


WIDE = SPEC | {"hidden_size": 8192, "num_attention_heads": 64, "ffn_hidden_size": 28672}
WIDE_LAYER = 4 * 8192**2 + 3 * 8192 * 28672 + 2 * 8192


def test_of_wide_layers_one_is_gathered_ahead_and_one_waits_for_its_reduction() -> None:
    """Two layers are as many elements as may be on their way, and padded for the ranks more."""
    _, beside = whole(spec=WIDE)
    assert [forward for forward, _ in beside["dense"]] == [
        BF16 * WIDE_LAYER * count for count in (2, 2, 2, 2, 2, 2, 2, 1)
    ]
    head = 8192 * VOCABULARY
    queued = [2 * WIDE_LAYER] * 6 + [2 * WIDE_LAYER + head, WIDE_LAYER + head]
    gathered = [WIDE_LAYER] + [2 * WIDE_LAYER] * 7
    assert [backward for _, backward in beside["dense"]] == [
        BF16 * weights + FP32 * gradients
        for weights, gradients in zip(gathered, queued, strict=True)
    ]


def test_a_tied_embedding_is_whole_once_and_its_gradient_waits_in_its_own_type() -> None:
    tied = SPEC | {"untie_embeddings_and_output_weights": False}
    standing, beside = whole(spec=tied, gradient_accumulation_fusion=False)
    assert standing == BF16 * EMBEDDING
    *_, (_, last) = beside["dense"]
    assert last == BF16 * 8 * LAYER + FP32 * LAYER + BF16 * EMBEDDING


def test_double_buffers_hold_two_layers_for_good() -> None:
    standing, beside = whole(fsdp_double_buffer=True)
    assert standing == BF16 * 2 * EMBEDDING + 2 * (BF16 + FP32) * LAYER
    assert beside["dense"] == [(0, FP32 * EMBEDDING)] * 8


def test_weights_that_nobody_shares_out_are_not_gathered() -> None:
    standing, beside = whole("optim_grads")
    assert standing == 0
    assert beside["dense"][0] == (0, FP32 * (EMBEDDING + 8 * LAYER))
    assert allocated("optim", fsdp_double_buffer=True) == allocated("optim")


def test_what_is_whole_decides_which_moment_is_the_peak() -> None:
    """Of short sequences that of the embedding's backward, beside all gradients; of longer ones
    that of the last layer's, and of long ones that of the loss.
    """
    peaks = []
    for tokens in (128, 1024, 65536):
        job = job_of(SPEC, "optim_grads_params")
        training = job.training.model_copy(update={"seq_length": tokens})
        peaks.append(answer(job.model_copy(update={"training": training})).stages[0].peak)
    assert [(each.moment, each.layer) for each in peaks] == [
        ("embedding_backward", None),
        ("dense_backward", 7),
        ("head_forward", None),
    ]


def test_buffers_of_nccl_are_double_ones() -> None:
    assert allocated(nccl_ub=True) == allocated(fsdp_double_buffer=True)
    assert allocated("optim", nccl_ub=True) == allocated("optim")


def test_buffers_of_nccl_are_assumed_to_be_rounded_little() -> None:
    job = {
        "model": {"spec": SPEC},
        "training": {"seq_length": 1024},
        "framework": {"name": "megatron", "nccl_ub": True},
    }
    assumed = {each.id for each in answer(Job.model_validate(job)).assumptions}
    assert "nccl-user-buffers" in assumed
