"""A forward beside a backward, against both run operation by operation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.resolve.test_refusals import refusal
from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.megatron.combined import Combined
from trainfit.estimator.ledger import Group, Lifetime, Operation
from trainfit.estimator.placement import place
from trainfit.estimator.run import run_of
from trainfit.questions.estimate import answer, plan_of
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.specs.job import Job

SPEC = {
    "num_layers": 4,
    "hidden_size": 256,
    "num_attention_heads": 8,
    "vocab_size": 512,
    "position_embedding_type": "rope",
    "swiglu": True,
    "num_moe_experts": 8,
}


def plan(spec: dict[str, Any], **training: Any) -> MegatronPlan:
    job = {
        "model": {"spec": SPEC | spec},
        "parallelism": {"ep": 4, "etp": 1},
        "training": {"num_microbatches": 4} | training,
        "framework": {"name": "megatron", "overlap_moe_expert_parallel_comm": True},
    }
    found = plan_of(Job.model_validate(job))
    assert isinstance(found, MegatronPlan)
    return found


def of(operation: Operation, lifetime: Lifetime) -> int:
    return sum(each.bytes for each in operation.tensors if each.lifetime is lifetime)


def at_operations(ledger: MegatronLedger, kinds: tuple[int, ...]) -> Iterator[int]:
    """Bytes alive at every operation of a chunk's forward beside its own backward, where a
    layer is cut behind permute or, without experts, before its last block.
    """
    act = ledger.sizes.act
    live = 0
    ends = [*ledger.embedding(), *ledger.final_norm(), *ledger.head()]
    layers = [cut(ledger.kinds[kind]) for kind in kinds]
    live += sum(of(each, Lifetime.SAVED) for group in ends for each in group)
    live += sum(of(e, Lifetime.SAVED) for layer in layers for h in layer for g in h for e in g)

    def forth(groups: list[Group], waiting: int) -> Iterator[int]:
        nonlocal live
        for group in groups:
            held = 0
            for each in group:
                live += of(each, Lifetime.SAVED)
                held += of(each, Lifetime.HELD)
                yield live + held + of(each, Lifetime.FORWARD) + waiting

    def back(groups: list[Group], gradient: int) -> Iterator[int]:
        nonlocal live
        for group in reversed(groups):
            for each in reversed(group):
                yield live + of(each, Lifetime.BACKWARD) + gradient
                live -= of(each, Lifetime.SAVED)

    yield from forth(list(ledger.embedding()), 0)
    yield from back(list(ledger.head()), 0)
    yield from back(list(ledger.final_norm()), act)
    for front, (first, second) in zip_longest(layers, reversed(layers)):
        *_, last = first[-1]
        read = of(last, Lifetime.BACKWARD) if last.name == "permute" else 0
        yield from forth(front[0], act + read)
        yield from back(second, act)
        yield from forth(front[1], act + read)
        yield from back(first, act)
    yield from forth([*ledger.final_norm(), *ledger.head()], 0)
    yield from back(list(ledger.embedding()), act)


def cut(groups: tuple[Group, ...]) -> tuple[list[Group], list[Group]]:
    for number, group in enumerate(groups):
        names = [each.name for each in group]
        if "permute" in names:
            at = names.index("permute") + 1
            return [*groups[:number], group[:at]], [group[at:], *groups[number + 1 :]]
    return list(groups[:-1]), list(groups[-1:])


@given(
    st.fixed_dictionaries(
        {
            "num_layers": st.integers(1, 5),
            "ffn_hidden_size": st.sampled_from([64, 4096]),
            "moe_ffn_hidden_size": st.sampled_from([64, 1024]),
            "moe_router_topk": st.integers(1, 4),
            "moe_layer_freq": st.sampled_from([1, 2]),
            "vocab_size": st.sampled_from([512, 65_536]),
            "moe_shared_expert_intermediate_size": st.sampled_from([None, 64]),
        }
    ),
    st.sampled_from(["unfused", "flash"]),
)
def test_the_highest_moment_is_that_of_every_operation(spec: dict[str, Any], kernel: str) -> None:
    of = plan(spec, attention={"backend": kernel})
    ledger = MegatronLedger(run_of(of))
    (placed,) = place(of)[0]
    found = Combined(ledger).of([placed.content])(0, 0)
    assert found.highest.total == max(at_operations(ledger, placed.content.kinds))


def allocated(overlap: bool, **parts: dict[str, Any]) -> list[int]:
    job = {
        "model": {"spec": SPEC | {"num_layers": 8}},
        "parallelism": {"ep": 4, "etp": 1} | parts.get("parallelism", {}),
        "training": {"num_microbatches": 8} | parts.get("training", {}),
        "framework": {"name": "megatron", "overlap_moe_expert_parallel_comm": overlap},
    }
    stages = answer(Job.model_validate(job)).stages
    return [stage.allocated_bytes.expected for stage in stages]


def test_a_layer_saves_before_another_lets_go() -> None:
    interleaved = {"parallelism": {"pp": 2, "vpp": 2}}
    apart, beside = allocated(False, **interleaved), allocated(True, **interleaved)
    assert all(one < other for one, other in zip(apart, beside, strict=True))


def test_one_micro_batch_has_none_beside_it() -> None:
    single = {"training": {"num_microbatches": 1}}
    assert allocated(True, **single) == allocated(False, **single)


def test_a_stage_without_layers_has_nothing_beside_it() -> None:
    layout = {"pp": 2, "pipeline_model_parallel_layout": "Et*4||t*2|t*2L"}
    assert len(allocated(True, parallelism=layout)) == 2


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"parallelism": {"ep": 1}}, "needs ep > 1"),
        ({"parallelism": {"pp": 2}}, "needs vpp > 1"),
        ({"training": {"moe": {"token_dispatcher_type": "allgather"}}}, "needs the dispatcher"),
        ({"training": {"moe": {"shared_expert_overlap": True}}}, "shared_expert_overlap"),
        ({"training": {"recompute": {"granularity": "full"}}}, "full recompute"),
        (
            {"training": {"recompute": {"granularity": "selective", "modules": ["moe"]}}},
            "recompute module moe",
        ),
    ],
)
def test_what_it_does_not_go_with(parts: dict[str, Any], words: str) -> None:
    job = {
        "model": {"spec": SPEC},
        "parallelism": {"ep": 4, "etp": 1} | parts.get("parallelism", {}),
        "training": parts.get("training", {}),
        "framework": {"name": "megatron", "overlap_moe_expert_parallel_comm": True},
    }
    (finding,) = refusal(job).findings
    assert finding.pointer == "/framework/overlap_moe_expert_parallel_comm"
    assert words in finding.message
