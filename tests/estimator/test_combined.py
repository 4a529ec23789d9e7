"""A forward beside a backward, against both run operation by operation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.resolve.test_refusals import refusal
from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.megatron.combined import Combined
from trainfit.estimator.ledger import BlockOperation, Group, Lifetime
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


def of(operation: BlockOperation, lifetime: Lifetime) -> int:
    return sum(each.bytes for each in operation.tensors if each.lifetime is lifetime)


BACKWARD_MAKES = {"unpermute": 1, "dispatch": 1, "unsort": -1, "permute": -1}
"""Gradients of rows that an operation hands to the node before, or was given by the one behind and
borrows no more: that is there all the time.
"""


class Chunk:
    """A chunk's forward beside its own backward, where a layer is cut behind the permutation,
    behind the exchange and before the exchange back or, without experts, before its last sublayer.
    """

    def __init__(self, ledger: MegatronLedger, kinds: tuple[int, ...]) -> None:
        self.ledger, self.kinds, self.act = ledger, kinds, ledger.sizes.act
        self.live = sum(of(each, Lifetime.SAVED) for group in self.every() for each in group)
        self.waits = {"forward": self.act, "backward": 0}

    def every(self) -> Iterator[Group]:
        ledger = self.ledger
        yield from (*ledger.embedding(), *ledger.final_norm(), *ledger.head())
        for kind in self.kinds:
            yield from ledger.kinds[kind]

    def forth(self, groups: Sequence[Group], beside: int, rows: int) -> Iterator[int]:
        """Rows that come to a node are there until it is through."""
        for group in groups:
            held = 0
            for each in group:
                self.live += of(each, Lifetime.SAVED)
                held += of(each, Lifetime.HELD) * (each.name != "dispatch")
                borrowed = of(each, Lifetime.FORWARD)
                borrowed += rows * ({"dispatch": 1, "unpermute": -1}.get(each.name, 0))
                yield self.live + held + borrowed + beside + self.waits["backward"]

    def back(self, groups: Sequence[Group], beside: int, rows: int = 0) -> Iterator[int]:
        for group in reversed(groups):
            for each in reversed(group):
                borrowed = of(each, Lifetime.BACKWARD) + rows * BACKWARD_MAKES.get(each.name, 0)
                yield self.live + borrowed + beside + self.waits["forward"]
                self.live -= of(each, Lifetime.SAVED)

    def of_forward(self, kind: int, *, last: bool) -> Iterator[Iterator[int]]:
        """The slots of a layer's forward."""
        nodes, rows, _ = cut(self.ledger, kind)
        first, dispatch, experts, combine = nodes
        behind = list(self.ledger.final_norm()) if last else []
        yield self.slot("forward", self.forth(first, 0, rows), rows or self.act)
        yield self.slot("forward", self.forth(dispatch, rows, rows), rows or self.act)
        yield self.slot("forward", self.forth(experts, rows, rows), rows or self.act)
        end = chain(self.forth(combine, rows, rows), self.forth(behind, 0, rows))
        yield self.slot("forward", end, 0 if last else self.act)

    def of_backward(self, kind: int, *, last: bool) -> Iterator[Iterator[int]]:
        """With the gradient that came, one behind the final norm, and those that branch off to the
        residual stream and the shared experts.
        """
        act = self.act
        (first, dispatch, experts, combine), rows, shares = cut(self.ledger, kind)
        branches = act * (1 + shares) if rows else 0
        behind, normed = (list(self.ledger.final_norm()), act) if last else ([], 0)
        all_of_it = act + branches + rows
        begin = chain(self.back(behind, 0), self.back(combine, act + normed + branches, rows))
        yield self.slot("backward", begin, all_of_it if rows else act + normed)
        beside = all_of_it if rows else act + normed
        yield self.slot(
            "backward", self.back(experts, beside, rows), all_of_it if rows else 2 * act
        )
        yield self.slot("backward", self.back(dispatch, all_of_it, rows), self.waits["backward"])
        yield self.slot(
            "backward", self.through(first, all_of_it - act if rows else act, rows), act
        )

    def through(self, first: Sequence[Group], beside: int, rows: int) -> Iterator[int]:
        """The gradient of the residual stream is another one once a sublayer has added to it."""
        if not rows:
            yield from self.back(first, beside + self.act)
            return
        at = next(
            number for number, group in enumerate(first) if group[0].name == "norm" and number
        )
        yield from self.back(first[at:], beside + self.act, rows)
        yield from self.back(first[:at], beside + 2 * self.act, rows)

    def slot(self, name: str, moments: Iterator[int], waits: int) -> Iterator[int]:
        yield from moments
        self.waits[name] = waits

    def at_operations(self) -> Iterator[int]:
        """Bytes alive at every operation."""
        ledger, act, last = self.ledger, self.act, len(self.kinds) - 1
        self.waits["forward"] = 0
        yield from self.forth(list(ledger.embedding()), 0, 0)
        self.waits["forward"] = act
        yield from self.back(list(ledger.head()), 0)
        self.waits["backward"] = act
        for number, kind in enumerate(self.kinds):
            ahead = self.of_forward(kind, last=number == last)
            behind = self.of_backward(self.kinds[last - number], last=number == 0)
            for slots in (behind, ahead, behind, ahead, behind, ahead, ahead, behind):
                yield from next(slots)
        yield from self.forth(list(ledger.head()), 0, 0)
        self.waits["forward"] = 0
        yield from self.back(list(ledger.embedding()), act)


def cut(ledger: MegatronLedger, kind: int) -> tuple[list[list[Group]], int, bool]:
    """The nodes of a layer, the bytes of the rows that it exchanges, and whether it shares."""
    groups = ledger.kinds[kind]
    flat = [each for group in groups for each in group]
    names = [each.name for each in flat]
    if "permute" not in names:
        before = len(ledger.sublayer(ledger.run.model.layer_kinds[kind].sublayers[0]))
        return [list(groups[:before]), [], list(groups[before:]), []], 0, False
    ends = [names.index(each) for each in ("dispatch", "sort_by_local_expert", "unpermute")]

    def part(first: int, end: int) -> list[Group]:
        kept, at = [], 0
        for group in groups:
            here = tuple(each for index, each in enumerate(group, at) if first <= index < end)
            at += len(group)
            if here:
                kept.append(here)
        return kept

    nodes = [part(*each) for each in pairwise([0, *ends, len(flat)])]
    return nodes, of(flat[names.index("permute")], Lifetime.HELD), "shared_fc2" in names


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
    assert found.highest.total == max(Chunk(ledger, placed.content.kinds).at_operations())


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
    """Its layers run in parts all the same: while one runs backward, the gradients stay that came
    to it and that it branched off.
    """
    single = {"training": {"num_microbatches": 1}}
    (apart,), (alone,), (beside,) = (
        allocated(False, **single),
        allocated(True, **single),
        allocated(True),
    )
    act = 4096 * 256 * 2
    assert apart < alone <= apart + 3 * act < beside


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
