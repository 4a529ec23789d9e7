"""Engines of data parallelism: what each gathers, reduces and keeps of one unit."""

from typing import Any

import pytest

from trainfit.estimator.frameworks.pytorch.engines.engine import StageNumbers
from trainfit.estimator.frameworks.pytorch.engines.registry import engine_of
from trainfit.estimator.frameworks.pytorch.states import Numbers, States, model_states
from trainfit.questions.estimate import plan_of, price
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.job import Job

RANKS, PARAMETERS = 8, 8_000
NUMBERS = Numbers(
    dense=PARAMETERS, expert=0, frozen_matrices=0, frozen=0, trained_matrices=PARAMETERS
)
STAGE = StageNumbers(NUMBERS, NUMBERS, largest=1_000, undivided=0)
STATES = States(weights=0, gradients=111, optimizer=0, step=0)
BF16 = 2


def plan(
    engine: str,
    sharding: str,
    *,
    micro_batches: int = 1,
    training: dict[str, Any] | None = None,
    **switches: Any,
) -> PytorchPlan:
    """A plan of eight ranks under transformers, with an engine and what it shards."""
    job = {
        "model": {"hf_id": "Qwen/Qwen3-8B"},
        "parallelism": {"num_gpus": RANKS, "data_parallel_sharding_strategy": sharding},
        "training": {"precision": "bf16", "num_microbatches": micro_batches} | (training or {}),
        "framework": {"name": "transformers", "data_parallel_engine": engine} | switches,
        "gpu": "H200",
    }
    made = plan_of(Job.model_validate(job))
    assert isinstance(made, PytorchPlan)
    return made


def test_ddp_has_buckets_beside_the_gradients_or_in_their_place() -> None:
    beside = engine_of(plan("ddp", "no_shard"))
    width = plan("ddp", "no_shard").step.states.gradients
    assert beside.unit(NUMBERS).gradients == width * PARAMETERS
    assert beside.buffers(STAGE) == width * PARAMETERS
    views = engine_of(plan("ddp", "no_shard", gradient_as_bucket_view=True))
    assert views.unit(NUMBERS).gradients == 0
    assert views.buffers(STAGE) == 0
    assert views.accumulated(NUMBERS, STATES).whole == STATES.gradients


@pytest.mark.parametrize("engine", ["fsdp1", "fsdp2"])
def test_fsdp_gathers_all_of_a_unit_and_leaves_a_share_of_its_gradients(engine: str) -> None:
    of = plan(engine, "optim_grads_params")
    unit, states = engine_of(of).unit(NUMBERS), of.step.states
    assert unit.weights == unit.all_gather == states.gathered * PARAMETERS
    assert unit.gradients == states.gradients * PARAMETERS // RANKS
    assert engine_of(of).buffers(STAGE) == 0


def test_fsdp_adds_gradients_up_unsharded_unless_it_reduces_each_time() -> None:
    of = plan("fsdp2", "optim_grads_params", micro_batches=4)
    reduced = of.step.states.reduced * PARAMETERS
    waiting = engine_of(of).accumulated(NUMBERS, STATES)
    assert (waiting.whole, waiting.sharded) == (reduced, 0)
    assert engine_of(of).unit(NUMBERS).accumulated == reduced
    each = plan("fsdp2", "optim_grads_params", micro_batches=4, sync_each_micro_batch=True)
    assert engine_of(each).accumulated(NUMBERS, STATES).sharded == STATES.gradients
    assert engine_of(each).unit(NUMBERS).accumulated == 0


def test_only_fsdp2_keeps_what_it_reduces_while_the_next_unit_runs_backward() -> None:
    held, freed = (
        engine_of(plan(each, "optim_grads_params")).unit(NUMBERS) for each in ("fsdp2", "fsdp1")
    )
    assert held.reduce_scatter_kept == held.reduce_scatter > 0
    assert freed.reduce_scatter > freed.reduce_scatter_kept == 0


def test_only_fsdp2_gathers_a_unit_beside_its_parameters() -> None:
    beside, itself = (
        engine_of(plan(each, "optim_grads_params")).unit(NUMBERS) for each in ("fsdp2", "fsdp1")
    )
    assert beside.while_gathered == beside.weights + beside.all_gather
    assert itself.while_gathered == itself.weights


def test_zero_shards_one_state_more_with_each_stage() -> None:
    stages = [plan("deepspeed", each) for each in ("optim", "optim_grads", "optim_grads_params")]
    width = stages[0].step.states.gradients
    first, second, third = map(engine_of, stages)
    assert first.unit(NUMBERS).gradients == width * PARAMETERS
    assert second.unit(NUMBERS).gradients == width * PARAMETERS // RANKS
    assert third.unit(NUMBERS).gradients == 0
    assert third.accumulated(NUMBERS, STATES).sharded == STATES.gradients
    assert third.buffers(STAGE) > first.buffers(STAGE) == second.buffers(STAGE) == 0


def test_offloading_sends_gradients_by_way_of_a_buffer() -> None:
    on_host = engine_of(plan("deepspeed", "optim_grads", deepspeed={"offload_optimizer": True}))
    assert on_host.unit(NUMBERS).gradients == 0
    assert on_host.buffers(STAGE) == BF16 * STAGE.largest


LAYERS, WIDTH, SAMPLES, LENGTH = 12, 1_024, 8, 2_048


def allocated(layers: int, *, engine: str = "fsdp1", reentrant: bool, lora: bool = True) -> int:
    """Bytes of a model of small layers and large activations, which layers make again."""
    job = {
        "model": {
            "hf_config": {
                "model_type": "llama",
                "architectures": ["LlamaForCausalLM"],
                "hidden_size": WIDTH,
                "intermediate_size": WIDTH,
                "num_attention_heads": 8,
                "num_key_value_heads": 8,
                "num_hidden_layers": layers,
                "vocab_size": 512,
            }
        },
        "parallelism": {"num_gpus": 2, "data_parallel_sharding_strategy": "optim_grads_params"},
        "training": {
            "precision": "bf16-pure",
            "micro_batch_size": SAMPLES,
            "seq_length": LENGTH,
            "num_microbatches": 1,
            "recompute": {"granularity": "full", "use_reentrant": reentrant},
            **({"peft": {"method": "lora", "r": 1}} if lora else {}),
        },
        "framework": {"name": "transformers", "data_parallel_engine": engine},
        "gpu": "H200",
    }
    (stage,) = price(Job.model_validate(job)).stages
    return stage.allocated_bytes.expected


def of_a_layer(**asked: Any) -> int:
    """What one more layer takes, besides the inputs [b, s, h] that all checkpointing keeps."""
    grown = allocated(2 * LAYERS, **asked) - allocated(LAYERS, **asked)
    return grown // LAYERS - BF16 * SAMPLES * LENGTH * WIDTH


def test_fsdp1_keeps_the_gradients_of_frozen_layers_inputs_where_these_are_detached() -> None:
    """At the first layer the adapters of all have their gradients as well: fp32, on two ranks."""
    gradient, adapters = BF16 * SAMPLES * LENGTH * WIDTH, 4 * 7 * 2 * WIDTH // 2
    assert of_a_layer(reentrant=True) == of_a_layer(reentrant=False) + gradient + adapters


def test_nothing_is_kept_where_a_unit_is_trained_or_fsdp2_runs_it() -> None:
    kept = [allocated(LAYERS, reentrant=each, engine="fsdp2") for each in (True, False)]
    assert kept[0] == kept[1]
    kept = [allocated(LAYERS, reentrant=each, lora=False) for each in (True, False)]
    output_and_gradient = 2 * BF16 * SAMPLES * LENGTH * WIDTH
    assert kept[0] <= kept[1] + output_and_gradient


def test_scales_of_quantised_weights_are_whole_on_every_rank() -> None:
    quantised = {"method": "lora", "r": 8, "quantization": "nf4"}
    of = plan("fsdp1", "optim_grads_params", training={"peft": quantised})
    frozen = Numbers(dense=0, expert=0, frozen_matrices=6_400, frozen=0, trained_matrices=0)
    scales = 6_400 // 64 * 4
    share = -(-6_400 // 2 // RANKS) + scales // RANKS
    assert model_states(frozen, 0, of).weights == share + scales - scales // RANKS


@pytest.mark.parametrize("engine", ["fsdp1", "fsdp2"])
def test_fsdp_on_the_host_leaves_nothing_between_units(engine: str) -> None:
    of = plan(engine, "optim_grads_params", offload_params=True)
    kept = engine_of(plan(engine, "optim_grads_params")).unit(NUMBERS)
    unit, states = engine_of(of).unit(NUMBERS), of.step.states
    assert model_states(NUMBERS, 1_000, of) == States(0, 0, 0, 0)
    assert unit.gradients == 0
    assert unit.weights == kept.weights
    assert unit.all_gather == kept.all_gather + states.parameters * PARAMETERS // RANKS
    assert unit.reduce_scatter == kept.reduce_scatter + states.reduced * PARAMETERS // RANKS


@pytest.mark.parametrize(
    ("model", "samples", "measured"),
    [("01-ai/Yi-34B", 4, 22.98), ("meta-llama/Llama-2-70b-hf", 2, 14.92)],
)
def test_fsdp_on_the_host_is_as_large_as_measured(
    model: str, samples: int, measured: float
) -> None:
    """GiB reserved on each of two RTX 3090. Source: AnswerDotAI/fsdp_qlora, benchmarks_03_2024.md
    (train.py: rank 64, six linears, 2048 tokens, the logits of transformers before 4.46).
    """
    job = {
        "model": {"hf_id": model},
        "parallelism": {"num_gpus": 2, "data_parallel_sharding_strategy": "optim_grads_params"},
        "training": {
            "micro_batch_size": samples,
            "num_microbatches": 1,
            "seq_length": 2048,
            "precision": "bf16-pure",
            "recompute": {"granularity": "full", "use_reentrant": True},
            "loss": {"shifted": "fp32_logits"},
            "peft": {
                "method": "lora",
                "r": 64,
                "adapter_dtype": "bf16",
                "quantization": "nf4",
                "double_quantization": True,
                "target_modules": [
                    f"{each}_proj" for each in ("k", "q", "v", "up", "down", "gate")
                ],
            },
        },
        "framework": {
            "name": "transformers",
            "data_parallel_engine": "fsdp1",
            "offload_params": True,
        },
        "gpu": "RTX-3090",
    }
    reserved = price(Job.model_validate(job)).stages[0].reserved_bytes
    assert reserved.low < measured * 2**30 < reserved.high
