"""What recipes of Megatron-Bridge switch on, by the tensors and buffers of each."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, comb
from typing import Any

import pytest

from tests.estimator.jobs import megatron_plan
from trainfit.estimator.frameworks.megatron.buffers import te_workspaces
from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.results import Stage
from trainfit.estimator.run import run_of
from trainfit.questions.estimate import answer
from trainfit.resolve.findings import RefusedError
from trainfit.specs.job import Job

MIB, GIB = 2**20, 2**30
HIDDEN, FFN, HEADS, TOKENS, LAYERS, VOCABULARY = 1024, 2048, 8, 4096, 8, 1024
DENSE = {
    "num_layers": LAYERS,
    "hidden_size": HIDDEN,
    "num_attention_heads": HEADS,
    "ffn_hidden_size": FFN,
    "vocab_size": VOCABULARY,
    "swiglu": True,
    "normalization": "RMSNorm",
    "add_bias_linear": False,
    "position_embedding_type": "rope",
}
EXPERTS, TOP_K, EXPERT_FFN = 32, 8, 512
SPARSE = DENSE | {
    "num_moe_experts": EXPERTS,
    "moe_router_topk": TOP_K,
    "moe_ffn_hidden_size": EXPERT_FFN,
}
FLEX = {"token_dispatcher_type": "flex"}
HYBRID = FLEX | {"flex_dispatcher_backend": "hybridep"}
ACT = 2 * TOKENS * HIDDEN
"""Bytes of one [n, h] tensor."""


def stages(
    spec: dict[str, Any],
    training: dict[str, Any] | None = None,
    framework: dict[str, Any] | None = None,
    **parallelism: Any,
) -> list[Stage]:
    return answer(job_of(spec, training, framework, **parallelism)).stages


def job_of(
    spec: dict[str, Any],
    training: dict[str, Any] | None = None,
    framework: dict[str, Any] | None = None,
    **parallelism: Any,
) -> Job:
    return Job.model_validate(
        {
            "model": {"spec": spec},
            "parallelism": {"num_gpus": 8} | parallelism,
            "training": {"seq_length": TOKENS, "num_microbatches": 8} | (training or {}),
            "framework": {"name": "megatron"} | (framework or {}),
            "gpu": "B200",
        }
    )


def stage(*parts: Any, **parallelism: Any) -> Stage:
    return stages(*parts, **parallelism)[0]


def component(of: Stage, name: str) -> int:
    return next(each.bytes for each in of.components if each.name == name)


LINEARS = LAYERS * HIDDEN * (3 * HIDDEN + HIDDEN + 3 * FFN)
"""Elements of the weights of linears."""


@pytest.mark.parametrize(
    ("precision", "each"),
    [
        ({"fp4_recipe": "nvfp4"}, Fraction(18, 16)),
        ({"fp4_recipe": "nvfp4", "fp4_param_gather": True}, Fraction(18, 16) - 2),
        ({"fp8_recipe": "mxfp8", "fp8_param_gather": True}, Fraction(66, 32) - 2),
        (
            {
                "fp8_recipe": "mxfp8",
                "fp8_param_gather": True,
                "reuse_grad_buf_for_mxfp8_param_ag": False,
            },
            Fraction(66, 32),
        ),
    ],
)
def test_weights_are_kept_row_and_columnwise(precision: dict[str, Any], each: Fraction) -> None:
    """An fp4 element is half a byte and a sixteenth of one of a scale; an mxfp8 one has a byte of a
    scale for 32.
    """
    plain, narrow = stage(DENSE), stage(DENSE, {"precision": precision})
    more = component(narrow, "weights") - component(plain, "weights")
    assert more == ceil(LINEARS * each)


def test_attention_keeps_what_it_reads_in_fp8() -> None:
    """Queries, keys and values of a byte each, and in mxfp8 of two with their scales; its output
    stays in bf16 but for delayed scaling.
    """
    kept = {}
    for recipe in ("tensorwise", "delayed", "mxfp8"):
        with_, without = (
            component(
                stage(
                    DENSE,
                    {
                        "precision": {"fp8_recipe": recipe, "fp8_dot_product_attention": fp8},
                        "attention": {"backend": "fused"},
                    },
                ),
                "activations",
            )
            for fp8 in (True, False)
        )
        kept[recipe] = (with_ - without) // LAYERS
    elements = TOKENS * HIDDEN
    assert kept["tensorwise"] == -3 * elements
    assert kept["delayed"] == -4 * elements
    assert kept["mxfp8"] == 3 * elements // 16


@pytest.mark.parametrize(
    ("field", "others"),
    [
        ("fp4_recipe", {"fp4_recipe": "nvfp4", "fp8_recipe": "mxfp8"}),
        ("fp4_param_gather", {"fp4_param_gather": True}),
        ("fp8_dot_product_attention", {"fp8_dot_product_attention": True}),
        ("fp8_output_proj", {"fp8_output_proj": True, "fp8_recipe": "tensorwise"}),
    ],
)
def test_what_does_not_go_together_is_refused(field: str, others: dict[str, Any]) -> None:
    with pytest.raises(RefusedError) as refused:
        stage(DENSE, {"precision": others})
    assert [each.pointer for each in refused.value.findings] == [f"/training/precision/{field}"]


def test_without_a_layout_by_layers_a_rank_holds_all_states_of_the_embedding() -> None:
    """12 bytes a parameter, of which each of 8 ranks has else its part; under Adam it is one."""
    embedding = VOCABULARY * HIDDEN

    def optimizer(name: str, **framework: Any) -> int:
        asked = stage(DENSE, {"optimizer": {"name": name}}, framework)
        return component(asked, "optimizer_states")

    dealt = optimizer("muon", use_layer_wise_param_layout=False)
    assert dealt - optimizer("muon") == 12 * embedding * 7 // 8
    assert optimizer("adam", use_layer_wise_param_layout=False) == optimizer("adam")


def test_first_and_last_layers_in_bf16_are_as_if_there_were_no_fp8() -> None:
    """Their linears keep inputs of two bytes, and their weights no copies; others are as before."""

    def asked(**precision: Any) -> tuple[MegatronLedger, int]:
        job = job_of(DENSE, {"precision": precision})
        return MegatronLedger(run_of(megatron_plan(job))), component(
            answer(job).stages[0], "weights"
        )

    fp8 = {"fp8_recipe": "mxfp8", "fp8_param_gather": True}
    (wide, all_wide), (narrow, all_narrow) = asked(), asked(**fp8)
    half = {"num_layers_at_start_in_bf16": 1, "num_layers_at_end_in_bf16": LAYERS // 2 - 1}
    mixed, weights = asked(**fp8, **half)
    assert wide.layer_segments[0].saved > narrow.layer_segments[0].saved
    assert mixed.layer_segments == [narrow.layer_segments[0], wide.layer_segments[0]]
    assert mixed.run.model.pattern == (1, 0, 0, 0, 0, 1, 1, 1)
    assert weights == pytest.approx((all_wide + all_narrow) / 2, rel=1e-6)


@pytest.mark.parametrize("recipe", [None, "delayed"])
def test_layers_in_bf16_go_with_recipes_that_switch_within_a_step(recipe: str | None) -> None:
    asked = {"fp8_recipe": recipe, "num_layers_at_end_in_bf16": 1}
    with pytest.raises(RefusedError) as refused:
        stage(DENSE, {"precision": asked})
    (finding,) = refused.value.findings
    assert finding.pointer == "/training/precision/num_layers_at_end_in_bf16"


def test_deepep_sends_a_token_once_to_a_rank() -> None:
    """The tokens that a rank receives are those which choose any of its experts."""
    flex, usual = stage(SPARSE, {"moe": FLEX}, ep=8), stage(SPARSE, {"moe": {}}, ep=8)
    local = EXPERTS // 8
    missed = comb(EXPERTS - local, TOP_K) / comb(EXPERTS, TOP_K)
    received = ceil(TOKENS * 8 * (1 - missed))
    assert received < TOKENS * TOP_K
    less = component(usual, "workspace") - component(flex, "workspace")
    assert 0 < less <= 2 * 2 * HIDDEN * TOKENS * TOP_K


def test_deepep_has_a_buffer_of_ten_channels() -> None:
    token = 2 * HIDDEN + 8 + 16 + 128 * 16
    buffer = 10 * 8 * 256 * token

    def outside(moe: dict[str, Any]) -> int:
        return component(stage(SPARSE, {"moe": moe}, ep=8), "context_and_communicators")

    assert outside(FLEX) - outside({}) == buffer - 1_500 * MIB
    assert outside(FLEX | {"deepep_num_sms": 40}) - outside(FLEX) == buffer


def test_room_is_kept_unless_a_stash_keeps_what_arrives() -> None:
    """Of a row fc1's input, its output of two factors, fc2's input and a probability are kept,
    while the loss of a large vocabulary is computed.
    """
    spec, room = SPARSE | {"vocab_size": 262_144}, HYBRID | {"expert_rank_capacity_factor": 1.5}
    stash = room | {"paged_stash": True, "paged_stash_buffer_size_factor_cuda": 1.25}
    plain, roomy, stashed = (
        component(stage(spec, {"moe": moe}, ep=8), "activations") for moe in (HYBRID, room, stash)
    )
    row = 2 * (HIDDEN + 3 * EXPERT_FFN + 1)
    rows = TOKENS * TOP_K * LAYERS
    assert roomy - plain == pytest.approx(rows * row // 2, rel=0.02)
    assert stashed - plain == pytest.approx(rows * row // 4, rel=0.02)


def test_experts_chosen_at_random_are_nearly_balanced() -> None:
    """Five standard deviations of 32,768 rows are 2.8 %; of a router that learns, it is 20 %."""
    usual, forced, fixed = (
        stage(SPARSE, {"moe": moe}, ep=8)
        for moe in (
            {},
            {"router_force_load_balancing": True},
            HYBRID | {"expert_rank_capacity_factor": 1.5},
        )
    )
    moving = component(usual, "activations") + component(usual, "workspace")
    assert forced.allocated_bytes.expected == usual.allocated_bytes.expected
    less = usual.allocated_bytes.high - forced.allocated_bytes.high
    assert less == pytest.approx(moving * (0.2 - 0.028), rel=0.2)
    total = fixed.allocated_bytes.expected
    assert fixed.allocated_bytes.high == total + total * 20 // 1000 + 32 * MIB


@pytest.mark.parametrize("dispatcher", ["alltoall", "allgather"])
def test_rows_are_kept_where_index_add_adds_them_up(dispatcher: str) -> None:
    """PyTorch keeps the source of index_add, which deterministic_mode takes in place of
    scatter_add; a kernel of TransformerEngine's adds up in any case.
    """

    def kept(*, fused: bool, deterministic: bool) -> int:
        routing = {"token_dispatcher_type": dispatcher, "permute_fusion": fused}
        framework = {"deterministic_mode": deterministic}
        (one,) = stages(SPARSE, {"moe": routing}, framework, ep=4)
        return component(one, "activations")

    rows = LAYERS * TOP_K * ACT
    more = kept(fused=False, deterministic=True) - kept(fused=False, deterministic=False)
    assert more == rows
    assert kept(fused=True, deterministic=True) == kept(fused=True, deterministic=False)


def test_routers_of_the_local_implementation_multiply_with_transformer_engine() -> None:
    """Its other linears are PyTorch's, so that dense layers have no workspace of its."""
    unfused = {"attention": {"backend": "unfused"}}
    run = run_of(megatron_plan(job_of(SPARSE, unfused, {"transformer_impl": "local"})))
    workspaces = [te_workspaces(run, "9.0", has_experts) for has_experts in (False, True)]
    assert workspaces == [[], [32 * MIB + 1024]]


def test_graphs_are_a_pool_beside_what_is_allocated() -> None:
    """By a ratio, what operations borrow within graphs is borrowed beside them as well."""
    plain = stages(DENSE, pp=2)
    layers = stages(DENSE, {}, {"cuda_graph_impl": "local"}, pp=2)
    whole = stages(DENSE, {}, {"cuda_graph_impl": "full_iteration"}, pp=2)
    for usual, of_layers, of_all in zip(plain, layers, whole, strict=True):
        assert of_layers.allocated_bytes == of_all.allocated_bytes == usual.allocated_bytes
        assert (of_layers.reserved_basis, of_all.reserved_basis) == ("ratio", "replayed")
        slack = component(of_layers, "allocator_slack")
        assert slack - usual.allocated_bytes.expected * 4 // 100 > ACT


def test_what_is_captured_decides_what_is_borrowed_twice() -> None:
    def slack(*scope: str, **moe: str) -> int:
        framework = {"cuda_graph_impl": "local", "cuda_graph_scope": scope}
        return component(stage(SPARSE, {"moe": moe}, framework), "allocator_slack")

    assert slack("moe_router") < slack("attn")
    rows = slack("moe_router", "moe_preprocess") - slack("moe_router")
    assert rows == LAYERS * TOP_K * ACT
    assert slack("moe_router", **HYBRID) == slack("moe_router", "moe_preprocess", **HYBRID)


def test_offloaded_layers_keep_nothing_on_the_card() -> None:
    """Half of the layers leave; of one more its tensors are fetched while another runs."""
    kept, half = (
        component(stage(DENSE, {}, {"cpu_offloading_num_layers": number}), "activations")
        for number in (0, LAYERS // 2)
    )
    assert half == pytest.approx(kept / 2, rel=0.1)
    with pytest.raises(RefusedError, match="one pipeline stage"):
        stage(DENSE, {}, {"cpu_offloading_num_layers": 2}, pp=2)


@pytest.mark.parametrize(("precision", "gathered"), [("bf16", 2), ("fp8", 1)])
def test_linears_communicate_through_twelve_buffers(precision: str, gathered: int) -> None:
    """Eight of what is gathered, in fp8 where linears are, and four of what is reduced."""
    plain, overlapped = (
        stage(DENSE, {"precision": precision}, {"tp_comm_overlap": overlap}, tp=4)
        for overlap in (False, True)
    )
    more = overlapped.device_bytes.expected - plain.device_bytes.expected
    assert more == TOKENS * HIDDEN * (8 * gathered + 4 * 2)
    rings = overlapped.device_bytes.high - plain.device_bytes.high - more
    assert rings == TOKENS * HIDDEN * 4 * 2 * 3 // 4


def test_graphs_without_layers_in_them_add_little() -> None:
    framework = {"cuda_graph_impl": "full_iteration"}
    plain, whole = stage(DENSE), stage(DENSE, {}, framework)
    assert whole.device_bytes.high - plain.device_bytes.high <= 4 * GIB
