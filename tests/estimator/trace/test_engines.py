"""What engines of data parallelism ask for, stream by stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import pytest

from trainfit.estimator.allocator import Allocate, Free, Request
from trainfit.estimator.estimate import estimate
from trainfit.estimator.frameworks.pytorch.framework import trace, traces
from trainfit.estimator.frameworks.pytorch.requests import fsdp1, fsdp2
from trainfit.estimator.memo import Memo
from trainfit.estimator.trace.recorder import Trace
from trainfit.questions.estimate import plan_of
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.job import Job

MIB = 2**20
LAYERS, WIDTH, ROWS, RANKS = 4, 1024, 32_000, 4
LAYER = 4 * WIDTH * WIDTH + 3 * WIDTH * 4 * WIDTH + 2 * WIDTH
"""Parameters: four projections, a gated network, two norms."""
ROOT = 2 * ROWS * WIDTH + WIDTH


def traced(
    engine: str, training: Mapping[str, Any] | None = None, replicas: int = 1, **framework: Any
) -> tuple[PytorchPlan, Trace]:
    job = {
        "model": {
            "hf_config": {
                "model_type": "llama",
                "architectures": ["LlamaForCausalLM"],
                "hidden_size": WIDTH,
                "intermediate_size": 4 * WIDTH,
                "num_attention_heads": 8,
                "num_key_value_heads": 8,
                "num_hidden_layers": LAYERS,
                "vocab_size": ROWS,
            }
        },
        "parallelism": {
            "num_gpus": RANKS * replicas,
            "data_parallel_replicate_size": replicas,
            **(
                {} if engine == "ddp" else {"data_parallel_sharding_strategy": "optim_grads_params"}
            ),
        },
        "training": {
            "precision": "bf16-pure",
            "micro_batch_size": 1,
            "num_microbatches": 1,
            "seq_length": 512,
            **(training or {}),
        },
        "framework": {"name": "transformers", "data_parallel_engine": engine, **framework},
    }
    plan = plan_of(Job.model_validate(job))
    assert isinstance(plan, PytorchPlan)
    recorded = trace(plan, Memo())
    assert recorded is not None
    return plan, recorded


def most_at_once(requests: Iterable[Request]) -> Counter[Hashable]:
    """The most bytes of each stream that are there at once."""
    there: dict[Hashable, tuple[Hashable, int]] = {}
    now, most = Counter[Hashable](), Counter[Hashable]()
    for each in requests:
        if isinstance(each, Allocate):
            there[each.tensor] = each.stream, each.nbytes
            now[each.stream] += each.nbytes
            most[each.stream] = max(most[each.stream], now[each.stream])
        elif isinstance(each, Free) and each.tensor in there:
            stream, nbytes = there.pop(each.tensor)
            now[stream] -= nbytes
    return most


def test_fsdp2_gathers_the_next_unit_before_the_last_is_copied_out() -> None:
    _, recorded = traced("fsdp2")
    most = most_at_once(recorded.later)
    assert most[fsdp2.COPY_IN] == 2 * (ROOT + LAYER)
    assert most[fsdp2.REDUCE] == 2 * (ROOT + LAYERS * LAYER) // RANKS


@pytest.mark.parametrize("engine", ["fsdp1", "fsdp2"])
@pytest.mark.parametrize("precision", ["bf16", "bf16-pure"])
@pytest.mark.parametrize("again", [True, False])
def test_shards_have_replicas(engine: str, precision: str, again: bool) -> None:
    rerun = {"recompute": {"granularity": "full"}} if again else {}
    few = {"precision": precision, "seq_length": 64, **rerun}
    plan, recorded = traced(engine, few, replicas=2)
    assert plan.layout.replicas == 2
    (stage,) = estimate(plan).stages
    assert stage.reserved_basis == "replayed"
    assert recorded.peak_bytes == stage.allocated_bytes.expected


ADDING = [
    (engine, options)
    for engine in ("ddp", "fsdp1", "fsdp2")
    for options in ({}, {"sync_each_micro_batch": True}, {"gradient_as_bucket_view": True})
    if engine == "ddp" or "gradient_as_bucket_view" not in options
]


@pytest.mark.parametrize(("engine", "options"), ADDING)
@pytest.mark.parametrize("precision", ["bf16", "bf16-pure"])
@pytest.mark.parametrize("seq_length", [64, 4096])
def test_gradients_of_micro_batches_are_added_up(
    engine: str, options: dict[str, Any], precision: str, seq_length: int
) -> None:
    """Whole ones or shares, as the ledger has them."""
    several = {"num_microbatches": 4, "precision": precision, "seq_length": seq_length}
    plan, recorded = traced(engine, several, **options)
    (stage,) = estimate(plan).stages
    assert stage.reserved_basis == "replayed"
    assert recorded.peak_bytes == stage.allocated_bytes.expected


def test_gradients_that_wait_unsharded_take_more_than_shares() -> None:
    short = {"num_microbatches": 2, "seq_length": 16}
    for engine in ("fsdp1", "fsdp2"):
        (_, whole), (_, shares) = (
            traced(engine, short, sync_each_micro_batch=each) for each in (False, True)
        )
        assert whole.peak_bytes > shares.peak_bytes + LAYERS * LAYER


def test_fsdp2_holds_what_it_reduces_over_replicas_until_backward_is_over() -> None:
    share = (ROOT + LAYERS * LAYER) // RANKS
    _, recorded = traced("fsdp2", {"precision": "bf16"}, replicas=2)
    most = most_at_once(recorded.later)
    assert (most[fsdp2.REDUCE], most[fsdp2.ALL_REDUCE]) == (2 * share, 4 * share)
    _, alone = traced("fsdp2", {"precision": "bf16"})
    assert fsdp2.ALL_REDUCE not in most_at_once(alone.later)


def test_fsdp1_prefetches_a_unit_in_backward_unless_layers_run_in_one_of_their_own() -> None:
    _, recorded = traced("fsdp1")
    assert most_at_once(recorded.later)[fsdp1.UNSHARD] == 2 * (ROOT + 2 * LAYER)
    own = {"recompute": {"granularity": "full", "use_reentrant": True}}
    _, recorded = traced("fsdp1", own)
    assert most_at_once(recorded.later)[fsdp1.UNSHARD] == 2 * (ROOT + LAYER)


STEPPED = [
    [16_384_256, *(4 * LAYERS * [1_048_576])],
    [16_383_744, *(LAYERS * [4_193_792])],
    [*(LAYERS * [4_193_280]), 16_383_744],
    [*(LAYERS * [4_192_768]), 16_384_256],
]
"""Elements of FullyShardedDataParallel(use_orig_params=True).parameters() on four ranks, without
those of norms and what is as small (torch 2.13, transformers 4.48.1)."""


@pytest.mark.parametrize("share", range(RANKS))
def test_ranks_of_fsdp1_step_what_their_share_of_a_unit_has_of_each_parameter(share: int) -> None:
    plan, _ = traced("fsdp1")
    (alike,) = traces(plan, Memo())
    assert [*alike.shares] == [*range(RANKS)]
    first = alike.trace(share).first
    ((start, _),) = [each for each in first.moments if each[1] == "first optimizer_step"]
    freed = {each.tensor for each in first[start:] if isinstance(each, Free)}
    states = [
        each.nbytes // 2
        for each in first[start:]
        if isinstance(each, Allocate) and each.tensor not in freed and each.nbytes >= MIB
    ]
    assert states[::2] == states[1::2] == STEPPED[share]


def test_ranks_of_fsdp1_have_the_same_of_adapters() -> None:
    """Modules of adapters are units by themselves."""
    plan, _ = traced("fsdp1", {"peft": {"method": "lora", "r": 8}})
    (alike,) = traces(plan, Memo())
    assert len(alike.shares) == 1


def test_ddp_makes_its_buckets_anew_behind_the_first_step() -> None:
    plan, recorded = traced("ddp")
    gradients = plan.step.states.gradients * (ROOT + LAYERS * LAYER)
    *_, one = [each for each in recorded.loaded if isinstance(each, Allocate)]
    assert one.nbytes == gradients
    buckets: list[int] = []
    for each in reversed(recorded.first):
        if not isinstance(each, Allocate):
            break
        buckets.insert(0, each.nbytes)
    assert sum(buckets) == gradients
    assert buckets[0] >= MIB
    assert all(nbytes >= 25 * MIB for nbytes in buckets[1:-1])


def test_ddp_has_no_gradients_beside_buckets_that_they_are_views_of() -> None:
    short = {"seq_length": 16}
    (_, beside), (_, views) = (
        traced("ddp", short, gradient_as_bucket_view=each) for each in (False, True)
    )
    assert beside.peak_bytes > views.peak_bytes + 2 * LAYERS * LAYER
