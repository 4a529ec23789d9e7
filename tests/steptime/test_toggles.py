"""One knob at a time, and which way the time of a step goes.

The directions of Megatron-Bridge's guide of fine-tuning Llama-3-70B on 32 H100, and of papers.
"""

from dataclasses import replace
from typing import Any

import pytest

from tests.steptime.test_step_time import plan, timed
from trainfit.catalog.speed import clusters, gpu_speeds, stacks
from trainfit.estimator.demands import Collective
from trainfit.steptime import StepTime, step_time, surroundings
from trainfit.steptime.links import Links, Sizes

SFT = {
    "parallelism": {"num_gpus": 32, "tp": 4, "pp": 4, "vpp": 5},
    "training": {
        "global_batch_size": 32,
        "seq_length": 4096,
        "precision": {"fp8_recipe": "tensorwise"},
    },
}
MOE = {
    "parallelism": {"num_gpus": 32, "ep": 32, "etp": 1},
    "training": {"micro_batch_size": 2, "global_batch_size": 512, "seq_length": 4096},
}
EXPERTS = {"hf_id": "Qwen/Qwen3-30B-A3B"}


def llama(**changes: Any) -> StepTime:
    """Llama-3-70B fine-tuned on 32 H100, but for what is changed of each part."""
    return _changed({"hf_id": "meta-llama/Llama-3.1-70B"}, SFT, changes)


def qwen(**changes: Any) -> StepTime:
    """Qwen3-30B-A3B on 32 H100, its experts on four nodes."""
    return _changed(EXPERTS, MOE, changes)


def _changed(
    model: Any, job: dict[str, Any], changes: dict[str, Any], gpu: str = "H100-80GB"
) -> StepTime:
    parts = {name: {**job.get(name, {}), **changes.get(name, {})} for name in {*job, *changes}}
    return timed(model, gpu, **parts)


@pytest.mark.parametrize(
    ("changes", "least", "most"),
    [
        # Published: 28, 6 and 16 % less throughput.
        ({"parallelism": {"tp": 8}}, 1.25, 1.55),
        ({"parallelism": {"pp": 8}}, 1.02, 1.12),
        ({"training": {"recompute": {"granularity": "selective", "modules": ["mlp"]}}}, 1.12, 1.28),
        (
            {
                "training": {
                    "recompute": {
                        "granularity": "full",
                        "method": "uniform",
                        "num_layers": 1,
                    }
                }
            },
            1.20,
            1.40,
        ),
        ({"parallelism": {"vpp": None}}, 1.01, 1.40),
        ({"training": {"precision": "bf16"}}, 1.10, 2.00),
        ({"training": {"attention": {"backend": "unfused"}}}, 1.02, 1.80),
    ],
    ids=["tp", "pp", "mlp", "full", "vpp", "bf16", "unfused"],
)
def test_what_takes_longer(changes: dict[str, Any], least: float, most: float) -> None:
    ratio = llama(**changes).seconds.expected / llama().seconds.expected
    assert least < ratio < most


def test_exchanging_tokens_beside_the_computation_is_faster() -> None:
    overlapped = qwen(framework={"overlap_moe_expert_parallel_comm": True})
    apart = qwen()
    assert overlapped.seconds.expected < apart.seconds.expected
    assert overlapped.parts.expert_parallel_seconds < apart.parts.expert_parallel_seconds


def test_experts_within_a_node_exchange_faster() -> None:
    within = qwen(parallelism={"ep": 8})
    assert within.parts.expert_parallel_seconds < qwen().parts.expert_parallel_seconds


def test_gradients_that_are_not_overlapped_show() -> None:
    apart = llama(framework={"overlap_grad_reduce": False, "overlap_param_gather": False})
    assert apart.parts.data_parallel_seconds > llama().parts.data_parallel_seconds


NEMOTRON = {
    "num_layers": 96,
    "hidden_size": 18432,
    "num_attention_heads": 96,
    "num_query_groups": 8,
    "ffn_hidden_size": 73728,
    "activation_func": "squared_relu",
    "vocab_size": 256000,
    "position_embedding_type": "rope",
}


def nemotron(num_gpus: int, vpp: int | None) -> StepTime:
    """Nemotron-4-340B on H100, with as many samples for each of any number of them."""
    return timed(
        {"spec": NEMOTRON},
        "H100-80GB",
        parallelism={"num_gpus": num_gpus, "tp": 8, "pp": 8, "vpp": vpp},
        training={"micro_batch_size": 1, "global_batch_size": num_gpus // 4, "seq_length": 4096},
        framework={"overlap_grad_reduce": True, "overlap_param_gather": True},
    )


def test_chunks_hide_what_data_parallel_ranks_exchange() -> None:
    """In 12 chunks a rank it took 5 % longer on 2,048 GPUs than on 128
    (NVIDIA/dgxc-benchmarking, v25.03, nemotron/README_340b.md). Without chunks the last micro-batch
    alone hides what is exchanged.
    """
    few, many, whole = nemotron(128, 12), nemotron(2048, 12), nemotron(2048, None)
    assert 1.0 < many.seconds.expected / few.seconds.expected < 1.07
    assert many.parts.data_parallel_seconds < 0.2 * whole.parts.data_parallel_seconds


def test_fsdp_gathers_for_every_micro_batch() -> None:
    job: dict[str, Any] = {"framework": {"name": "torchtitan"}, "parallelism": {"num_gpus": 64}}
    one, several = (
        timed(**job, training={"micro_batch_size": 1, "global_batch_size": size})
        for size in (64, 512)
    )
    assert several.parts.data_parallel_seconds > 4 * one.parts.data_parallel_seconds


def test_optimizer_states_on_the_host_take_longer() -> None:
    on_host = llama(
        training={
            "optimizer": {"name": "adam", "cpu_offload_fraction": 1.0, "precision_aware": True}
        }
    )
    assert on_host.parts.optimizer_seconds > 5 * llama().parts.optimizer_seconds


def test_weights_on_the_host_are_fetched_for_every_pass() -> None:
    job = {"parallelism": {"data_parallel_sharding_strategy": "optim_grads_params"}}
    here, there = (
        timed(**job, framework={"name": "transformers", "offload_params": on_host})
        for on_host in (False, True)
    )
    assert there.parts.data_parallel_seconds > here.parts.data_parallel_seconds
    assert there.parts.optimizer_seconds > 5 * here.parts.optimizer_seconds


def test_experts_of_one_kernel_are_launched_at_once() -> None:
    """Under one stack, with a host so slow that nothing else counts."""
    job: dict[str, Any] = {"parallelism": {"num_gpus": 8}, "training": {"micro_batch_size": 1}}
    stack = replace(stacks()["torchtitan"], host_seconds=1e-3)
    waits = {}
    for name in ("megatron", "torchtitan"):
        there = plan(EXPERTS, **job, framework={"name": name})
        on = surroundings(there)
        assert on is not None
        answer = step_time(there, on=on._replace(stack=stack))
        assert isinstance(answer, StepTime)
        waits[name] = answer.parts.host_seconds
    assert waits["torchtitan"] < waits["megatron"]


def test_launches_that_block_stand_beside_the_kernels() -> None:
    there = plan()
    on = surroundings(there)
    assert on is not None
    free, blocked = (
        step_time(there, on=on._replace(stack=replace(on.stack, blocks_launches=blocks)))
        for blocks in (False, True)
    )
    assert isinstance(free, StepTime)
    assert isinstance(blocked, StepTime)
    assert free.parts.host_seconds < 0.001 * free.seconds.expected
    assert blocked.parts.host_seconds > 0.02 * free.seconds.expected
    assert blocked.parts.compute_seconds == free.parts.compute_seconds


def test_a_scale_for_every_block_takes_longer_than_one_for_a_matrix() -> None:
    """As 405B did in this layout on 256 GB300, by 8 % (Megatron-Bridge's performance summary,
    26.02.01).
    """
    ends = {f"account_for_{each}_in_pipeline_split": True for each in ("embedding", "loss")}
    blocks, whole = (
        _changed(
            {"hf_id": "meta-llama/Llama-3.1-405B"},
            {"parallelism": {"num_gpus": 256, "tp": 2, "pp": 8, "vpp": 4, "cp": 2} | ends},
            {"training": {"precision": {"fp8_recipe": recipe}, "global_batch_size": 1536}},
            gpu="GB300",
        )
        for recipe in ("mxfp8", "tensorwise")
    )
    assert 1.03 < blocks.seconds.expected / whole.seconds.expected < 1.12


@pytest.mark.parametrize(("card", "share"), [("GB200", 0.69), ("GB300", 0.68), ("H100-80GB", None)])
def test_products_in_fp4_are_as_fast_as_a_card_makes_them(card: str, share: float | None) -> None:
    """405B took so much of its time in mxfp8 in the same layout (Megatron-Bridge's performance
    summary, 26.04). No Hopper multiplies in fp4.
    """
    ends = ("embedding", "loss")
    in_equal_parts = {f"account_for_{each}_in_pipeline_split": True for each in ends}
    four, eight, wide = (
        _changed(
            {"hf_id": "meta-llama/Llama-3.1-405B"},
            {"parallelism": {"num_gpus": 128, "tp": 4, "pp": 8, "vpp": 4} | in_equal_parts},
            {"training": {"precision": precision, "global_batch_size": 512}},
            gpu=card,
        )
        for precision in ({"fp4_recipe": "nvfp4"}, {"fp8_recipe": "mxfp8"}, {})
    )
    if share is None:
        assert four.seconds.expected == pytest.approx(wide.seconds.expected, rel=0.01)
    else:
        assert four.seconds.expected / eight.seconds.expected == pytest.approx(share, abs=0.09)
    assert four.basis == "extrapolated"


def test_gathered_weights_rest_on_runs_that_gathered_them() -> None:
    sharded = {"data_parallel_sharding_strategy": "optim_grads_params"}
    gathered, kept = (timed(parallelism=layout) for layout in (sharded, {}))
    assert (gathered.basis, kept.basis) == ("extrapolated", "known_stack")
    width = (gathered.seconds.high - gathered.seconds.low) / gathered.seconds.expected
    assert width > (kept.seconds.high - kept.seconds.low) / kept.seconds.expected


@pytest.mark.parametrize(
    ("schedule", "share"),
    [("1f1b", 1.0), ("zb-h1", 0.75), ("zb-h2", 0.0)],
)
def test_schedules_idle_as_their_papers_say(schedule: str, share: float) -> None:
    answer = llama(parallelism={"vpp": None, "pipeline_schedule": schedule})
    plain = llama(parallelism={"vpp": None, "pipeline_schedule": "1f1b"})
    assert answer.parts.bubble_seconds <= share * plain.parts.bubble_seconds + 1e-9


SMALL: dict[str, Any] = {
    "parallelism": {"num_gpus": 2, "ep": 2},
    "training": {"micro_batch_size": 1, "global_batch_size": 2, "seq_length": 256},
}
"""On two GPUs with a micro-batch so small that launches take longer than kernels."""


@pytest.mark.parametrize(
    ("graphs", "most"),
    [
        ({"cuda_graph_impl": "full_iteration"}, 0.0),
        ({"cuda_graph_impl": "transformer_engine"}, 0.05),
        ({"cuda_graph_impl": "local"}, 0.05),
        (
            {
                "cuda_graph_impl": "transformer_engine",
                "cuda_graph_scope": ["attn", "moe_router", "moe_preprocess"],
            },
            0.75,
        ),
        ({"cuda_graph_impl": "transformer_engine", "cuda_graph_scope": ["moe_router"]}, 0.95),
    ],
    ids=["iterations", "layers", "local", "to experts", "router"],
)
def test_what_a_graph_launches_waits_for_no_host(graphs: dict[str, Any], most: float) -> None:
    """In Megatron-Bridge's recipes of GB200 and GB300 graphs hold a layer up to its experts; in
    those of B200 and H100 none does.
    """
    eager, graphed = (_changed(EXPERTS, SMALL, {"framework": each}) for each in ({}, graphs))
    assert eager.parts.host_seconds > 0.1 * eager.parts.compute_seconds
    assert graphed.parts.host_seconds <= most * eager.parts.host_seconds
    assert graphed.parts.compute_seconds == eager.parts.compute_seconds


def test_layers_in_pieces_are_launched_in_more_time() -> None:
    """Overlapping experts' exchanges is slower where the host is what holds a layer up: Qwen3-30B
    on 16 H100 took 51.3 s so in Megatron-Bridge 26.02, and 29.5 s in 26.04, which did not.
    """
    whole, pieces = (
        _changed(EXPERTS, SMALL, {"framework": {"overlap_moe_expert_parallel_comm": each}})
        for each in (False, True)
    )
    assert pieces.parts.host_seconds > 1.4 * whole.parts.host_seconds
    assert pieces.seconds.expected > whole.seconds.expected


def test_the_host_knows_the_rows_of_experts_that_are_filled_up() -> None:
    """Qwen3-235B on 64 B200, filled up so in Megatron-Bridge 25.09, was expected to take 31 % more
    than it did as long as the host was taken to wait for them.
    """

    def routed(*, filled: bool) -> StepTime:
        moe = {"expert_capacity_factor": 1.0, "pad_expert_input_to_capacity": filled}
        return _changed(EXPERTS, SMALL, {"training": {"moe": moe}})

    dropped, filled = routed(filled=False), routed(filled=True)
    assert filled.parts.host_seconds < 0.6 * dropped.parts.host_seconds
    assert filled.parts.compute_seconds == pytest.approx(dropped.parts.compute_seconds, rel=0.01)


def test_room_that_no_row_fills_takes_no_time() -> None:
    """DeepSeek-V3 on 256 GB300 in Megatron-Bridge 26.06 was told to take a fifth longer by it. Nor
    does the host wait for rows, or launch the products of each expert, which then are one kernel.
    """
    hybrid = {"token_dispatcher_type": "flex", "flex_dispatcher_backend": "hybridep"}
    fused = {"framework": {"use_transformer_engine_op_fuser": True}}
    as_they_come, roomy = (
        _changed(EXPERTS, SMALL, {"training": {"moe": hybrid | room}} | fused).parts
        for room in ({}, {"expert_rank_capacity_factor": 1.5})
    )
    assert roomy.compute_seconds < as_they_come.compute_seconds
    assert roomy.expert_parallel_seconds == as_they_come.expert_parallel_seconds
    assert roomy.host_seconds < 0.1 * as_they_come.host_seconds


def test_attention_in_fp8_is_faster() -> None:
    """Of attention alone, with heads of 128 features by a third, as its softmax is no faster."""
    narrow = {"fp8_recipe": "mxfp8"}
    wide, eight = (
        timed(gpu="GB300", training={"precision": narrow | {"fp8_dot_product_attention": each}})
        for each in (False, True)
    )
    assert 2 / 3 < eight.parts.compute_seconds / wide.parts.compute_seconds < 0.95


def test_exchanges_in_parts_travel_beside_products() -> None:
    parts = llama(framework={"tp_comm_overlap": True})
    shown = parts.parts.tensor_parallel_seconds / llama().parts.tensor_parallel_seconds
    assert 0.05 < shown < 0.6
    assert parts.seconds.expected < llama().seconds.expected


def test_an_all_to_all_waits_as_long_among_many_as_among_few() -> None:
    """Of a domain of 72, each rank writes to all others at once."""
    card = gpu_speeds()["GB200"]
    few, many = (
        Links(card, clusters()["usual"], Sizes(1, 1, ep, 1, 1, 1)).exchange(
            Collective("ep", "all_to_all", 8, 8)
        )
        for ep in (8, 64)
    )
    assert many == pytest.approx(few, rel=1e-3)


def test_machines_that_reach_less_take_longer() -> None:
    there = plan()
    on = surroundings(there)
    assert on is not None
    usual, slow = (
        step_time(there, on=on._replace(cluster=replace(on.cluster, products=each)))
        for each in (1.0, 0.8)
    )
    assert isinstance(usual, StepTime)
    assert isinstance(slow, StepTime)
    assert 1.1 < slow.parts.compute_seconds / usual.parts.compute_seconds < 1.25
