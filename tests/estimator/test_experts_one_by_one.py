"""Experts that run one after the other: each linear keeps its own, and one expert's is borrowed."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from trainfit.estimator.allocator import Allocate
from trainfit.estimator.estimate import estimate
from trainfit.estimator.frameworks.pytorch.framework import trace
from trainfit.estimator.memo import Memo
from trainfit.questions.estimate import plan_of
from trainfit.questions.launches import read_asked
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.job import Job

GIB = 2**30
COMMAND = (
    "--model_name_or_path mistralai/Mixtral-8x7B-Instruct-v0.1 --torch_dtype bfloat16 "
    "--attn_implementation flash_attention_2 --gradient_checkpointing True --packing True "
    "--max_seq_length 4096 --use_peft --lora_r 16 --lora_alpha 16 --lora_dropout 0.1 "
    "--lora_target_modules q_proj k_proj v_proj o_proj --output_dir out"
)
FOUR_BITS = "--load_in_4bit True --bnb_4bit_quant_type nf4 --use_bnb_nested_quant True"
AUTOCAST = FOUR_BITS + " --bf16 True"


class Measured(NamedTuple):
    """max_memory_allocated on A100-80GB of rows 60 and 62 of fms-acceleration's
    scripts/benchmarks/refs/a100_80gb.csv, in GiB.
    """

    batch: int
    allocated: float


RUNS = [Measured(4, 39.855), Measured(8, 56.388)]


def plan(batch: int, release: str = "4.48.1", stored: str = AUTOCAST) -> PytorchPlan:
    words = f"python sft.py {COMMAND} --per_device_train_batch_size {batch} "
    ask: dict[str, Any] = {
        "launch": {
            "argv": words + stored,
            "files": [],
            "gpu": "A100-80GB",
            "framework_version": f"transformers=={release} trl==0.13.0",
        }
    }
    asked = read_asked(ask, Job)
    assert hasattr(asked, "job"), asked
    made = plan_of(asked.job)
    assert isinstance(made, PytorchPlan)
    return made


@pytest.mark.parametrize("run", RUNS)
def test_mixtral_allocates_what_was_measured(run: Measured) -> None:
    """Short by what the fullest expert has beyond its share of the rows: its peak is in experts."""
    (stage,) = estimate(plan(run.batch), replay=False).stages
    assert stage.allocated_bytes.expected / GIB == pytest.approx(run.allocated, rel=0.0075)


def test_grouped_products_of_the_same_model_take_another_peak() -> None:
    (loop,) = estimate(plan(4), replay=False).stages
    (grouped,) = estimate(plan(4, "5.0.0"), replay=False).stages
    assert abs(grouped.allocated_bytes.expected / loop.allocated_bytes.expected - 1) > 0.02


@pytest.mark.parametrize("stored", ["", FOUR_BITS])
def test_the_trace_asks_for_as_much_as_the_ledger_says(stored: str) -> None:
    made = plan(4, stored=stored)
    (stage,) = estimate(made, replay=False).stages
    recorded = trace(made, Memo())
    assert recorded is not None
    assert recorded.peak_bytes == stage.allocated_bytes.expected


def small(experts: int, layers: int = 2) -> PytorchPlan:
    config = {
        "model_type": "mixtral",
        "hidden_size": 512,
        "intermediate_size": 1024,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "num_hidden_layers": layers,
        "num_local_experts": experts,
        "num_experts_per_tok": 2,
        "vocab_size": 1000,
    }
    job = {
        "model": {"hf_config": config},
        "training": {"precision": "bf16-pure", "seq_length": 64, "num_microbatches": 1},
        "framework": {"name": "transformers", "experts_one_by_one": True},
    }
    made = plan_of(Job.model_validate(job))
    assert isinstance(made, PytorchPlan)
    return made


def test_every_expert_asks_for_its_own_gradients() -> None:
    """Three matrices [1024, 512] of 2 bytes of each of 16 experts in two layers: blocks of 1 MiB
    come from other segments than one of all would.
    """
    recorded = trace(small(16), Memo())
    assert recorded is not None
    asked = [each.nbytes for each in recorded.later if isinstance(each, Allocate)]
    assert asked.count(2 * 1024 * 512) >= 3 * 16 * 2


def test_so_many_experts_that_a_replay_takes_seconds_have_a_ratio() -> None:
    for layers, basis in ((8, "replayed"), (9, "ratio")):
        (stage,) = estimate(small(256, layers)).stages
        assert stage.reserved_basis == basis


def test_nothing_is_assumed_of_grouped_products() -> None:
    loop, grouped = (estimate(plan(4, each), replay=False) for each in ("4.48.1", "5.0.0"))
    assert "grouped-experts" not in {each.id for each in loop.assumptions}
    assert "grouped-experts" in {each.id for each in grouped.assumptions}
