"""The requests of losses of preferences, beside a reference model or not."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.estimator import cublas
from trainfit.estimator.allocator import Allocate, Free
from trainfit.estimator.blocks.head.preference import BY
from trainfit.estimator.estimate import estimate
from trainfit.estimator.frameworks.pytorch.framework import trace
from trainfit.estimator.frameworks.pytorch.reference import weights_of_copy
from trainfit.estimator.frameworks.pytorch.requests.fsdp1 import UNSHARD
from trainfit.estimator.frameworks.pytorch.states import shares_of
from trainfit.estimator.local_parameters import parameters_of
from trainfit.estimator.memo import Memo
from trainfit.estimator.placement import place
from trainfit.estimator.tensors import Role
from trainfit.estimator.trace.followed import stretches
from trainfit.estimator.trace.recorder import Trace
from trainfit.questions.estimate import plan_of
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.job import Job

REFERENCES = ["none", "base", "copy"]


def plan(
    by: str,
    reference: str,
    training: dict[str, Any] | None = None,
    gpus: int = 1,
    parallelism: dict[str, Any] | None = None,
    layers: int = 3,
    **framework: str | bool,
) -> PytorchPlan:
    adapters = {"peft": {"method": "lora", "r": 16}} if reference == "base" else {}
    loss = {"objective": "preference", "reference": reference, "log_probs_by": by}
    job = {
        "model": {
            "hf_config": {
                "model_type": "llama",
                "architectures": ["LlamaForCausalLM"],
                "hidden_size": 1024,
                "intermediate_size": 2816,
                "num_attention_heads": 8,
                "num_key_value_heads": 4,
                "num_hidden_layers": layers,
                "vocab_size": 32_000,
            }
        },
        "parallelism": {"num_gpus": gpus, **(parallelism or {})},
        "training": {
            "precision": "bf16-pure",
            "micro_batch_size": 2,
            "num_microbatches": 1,
            "seq_length": 512,
            "loss": {**loss, "chosen_nll": "orpo" in by},
            **adapters,
            **(training or {}),
        },
        "framework": {"name": "transformers", **framework},
        "gpu": "H100-80GB",
    }
    made = plan_of(Job.model_validate(job))
    assert isinstance(made, PytorchPlan)
    return made


def recorded(of: PytorchPlan) -> tuple[Trace, int]:
    """The requests, and the bytes that the ledger has allocated."""
    memo = Memo()
    made = trace(of, memo)
    assert made is not None
    stage, *_ = estimate(of, memo=memo, replay=False).stages
    return made, stage.allocated_bytes.expected


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("recompute", [{}, {"recompute": {"granularity": "full"}}])
@pytest.mark.parametrize("precision", ["bf16-pure", "autocast-bf16"])
@pytest.mark.parametrize("by", BY)
def test_as_much_is_asked_for_as_the_ledger_says(
    by: str, precision: str, recompute: dict[str, Any], reference: str
) -> None:
    """Where one kernel reads the reference's logits, what its head reads is beside these at the
    highest moment, which the ledger leaves out.
    """
    training = {"precision": precision, **recompute}
    made, expected = recorded(plan(by, reference, training))
    read = 2 * 512 * 1024 * (2 if precision == "bf16-pure" else 4)
    assert expected <= made.peak_bytes <= expected + read * BY[by].fused


@pytest.mark.parametrize(
    "training",
    [
        {"recompute": {"granularity": "full"}},
        {"num_microbatches": 2},
        {"recompute": {"granularity": "full"}, "precision": "autocast-bf16"},
        {"recompute": {"granularity": "full"}, "precision": "autocast-bf16", "num_microbatches": 2},
    ],
)
@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("gpus", [1, 4])
def test_so_it_is_however_a_step_runs(gpus: int, reference: str, training: dict[str, Any]) -> None:
    made, expected = recorded(plan("trl-0.19", reference, training, gpus))
    assert made.peak_bytes == expected


@pytest.mark.parametrize("reference", REFERENCES)
def test_so_it_is_with_ligers_kernels_whose_loss_does_not_run(reference: str) -> None:
    """A model that is asked without labels makes logits (lce_forward)."""
    plain, fused = (recorded(plan("ms-swift", reference, liger_kernel=on)) for on in (False, True))
    assert fused[0].peak_bytes == fused[1]
    assert fused[1] < plain[1], "norms and activations are fused"


SHARED = {"data_parallel_sharding_strategy": "optim_grads_params"}


@pytest.mark.parametrize("training", [{}, {"recompute": {"granularity": "full"}}])
@pytest.mark.parametrize("reference", REFERENCES)
def test_so_it_is_where_ranks_share_both_models(reference: str, training: dict[str, Any]) -> None:
    of = plan("trl-1.6", reference, training, 4, SHARED, data_parallel_engine="fsdp1")
    made, expected = recorded(of)
    assert made.peak_bytes == expected


def test_a_copys_root_stays_gathered() -> None:
    """Of two ranks that ran FullyShardedDataParallel on a CPU (torch 2.13) the root of a copy was
    whole behind each forward without gradients, and its layers were not.
    """
    of = plan("trl-1.6", "copy", {}, 4, SHARED, data_parallel_engine="fsdp1")
    made, _ = recorded(of)
    root, stream = 2 * (2 * 32_000 + 1) * 1024, f"{UNSHARD} of a copy"
    every = [each for part in made.steps for each in part]
    gathered = {
        each.tensor: each.nbytes
        for each in every
        if isinstance(each, Allocate) and each.stream == stream
    }
    gone = {each.tensor for each in every if isinstance(each, Free)}
    assert sorted(gathered.values())[-1] == root
    assert [nbytes for name, nbytes in gathered.items() if name not in gone] == [root]
    assert len(gathered) == 1 + 2 * 3  # in two steps three layers


@pytest.mark.parametrize("by", ["trl-0.29", "trl-1.6", "trl-1.15", "trl-kto-1.9"])
def test_a_copy_that_was_loaded_to_learn_has_its_weights_narrowed_together(by: str) -> None:
    """Beside gradients of another micro-batch it may be what is highest."""
    training = {"precision": "autocast-bf16", "num_microbatches": 2}
    made, expected = recorded(plan(by, "copy", training, layers=24))
    assert made.peak_moment.startswith("later reference_")
    assert made.peak_bytes == expected


def most_asked_for(made: Trace, moment: str) -> int:
    """The most bytes that are there while a moment lasts."""
    there, most = dict[Any, int](), 0
    for part in made.steps:
        for name, start, stop in stretches(part):
            for each in part[start:stop]:
                if isinstance(each, Allocate):
                    there[each.tensor] = each.nbytes
                elif isinstance(each, Free):
                    del there[each.tensor]
                if name == moment:
                    most = max(most, sum(there.values()))
    return most


def test_what_a_copy_has_narrowed_is_what_trl_was_recorded_to_hold() -> None:
    """TRL 1.9.0's DPOTrainer held 446,294,406 bytes at most up to the backward of a step, recorded
    on a CPU without a device's workspaces, where its reference was loaded as TRL loads it.
    """
    job = {
        "model": {
            "hf_config": {
                "model_type": "llama",
                "architectures": ["LlamaForCausalLM"],
                "hidden_size": 512,
                "intermediate_size": 1_408,
                "num_attention_heads": 8,
                "num_key_value_heads": 4,
                "num_hidden_layers": 12,
                "vocab_size": 8_000,
            }
        },
        "parallelism": {"num_gpus": 1},
        "training": {
            "precision": "autocast-bf16",
            "micro_batch_size": 2,
            "num_microbatches": 1,
            "seq_length": 64,
            "recompute": {"granularity": "full"},
            "loss": {"objective": "preference", "reference": "copy", "log_probs_by": "trl-1.6"},
            "optimizer": {"name": "sgd"},
        },
        "framework": {"name": "transformers"},
        "gpu": "H100-80GB",
    }
    of = plan_of(Job.model_validate(job))
    assert isinstance(of, PytorchPlan)
    made = trace(of, Memo())
    assert made is not None
    held = most_asked_for(made, "later reference_head_forward None")
    assert held - cublas.workspaces("sm_90") == pytest.approx(446_294_406, rel=1e-4)


LAYER = 2 * (1024 + 512) * 1024 + 3 * 2816 * 1024
"""Elements of its weights that a product reads."""


@pytest.mark.parametrize(
    ("by", "made_by_loss", "narrowed"),
    [
        ("trl-0.12", "log-probabilities", 0),
        ("trl-1.6", "logits in fp32", 0),
        ("llama-factory", "log-probabilities", 0),
        ("trl-1.15", "log-sum-exp", 3 * LAYER),
    ],
)
def test_what_autocast_has_narrowed_is_gone_before_a_loss_behind_the_model(
    by: str, made_by_loss: str, narrowed: int
) -> None:
    """A head in tiles computes it within. The head's own copy is saved for its backward."""
    training = {"precision": "autocast-bf16", "recompute": {"granularity": "full"}}
    made, _ = recorded(plan(by, "copy", training))
    head = 32_000 * 1024 if by != "trl-1.15" else 0
    assert narrowed_when_made(made, made_by_loss) == 2 * (narrowed + head)


def narrowed_when_made(trace: Trace, name: str) -> int:
    """Bytes of weights that autocast has narrowed and that are there when a tensor is made."""
    held = dict[object, int]()
    for request in trace.later:
        if isinstance(request, Free):
            held.pop(request.tensor, None)
        elif isinstance(request, Allocate) and request.tensor in trace.tensors:
            tensor = trace.tensors[request.tensor]
            if tensor.name == name:
                return sum(held.values())
            if tensor.role is Role.CACHED_BY_AUTOCAST:
                held[request.tensor] = request.nbytes
    raise LookupError(name)


def test_a_copy_is_loaded_matrix_by_matrix_behind_the_policy() -> None:
    alone, beside = (plan("trl-1.6", each) for each in ("none", "copy"))
    (without, _), (with_, _) = recorded(alone), recorded(beside)
    policy = len(without.loaded)
    sizes = [each.nbytes for each in with_.loaded if isinstance(each, Allocate)]
    own, copied = sizes[:policy], sizes[policy:]
    memo = Memo()
    shares = shares_of(beside, parameters_of(beside, memo), memo)
    ((placed,),) = place(beside)
    _, numbers = shares.chunk(placed.content)
    assert own == copied
    assert sum(copied) == weights_of_copy(numbers, beside)


def test_what_a_reference_asks_for_is_said_by_its_layers() -> None:
    made, _ = recorded(plan("trl-1.6", "copy"))
    names = [name for _, name in made.later.moments]
    start = names.index("later reference_embedding_forward None")
    assert names[start - 1] == "later head_forward None"
    assert names[start + 1 : start + 6] == [
        *(f"later reference_dense_forward {layer}" for layer in range(3)),
        "later reference_final_norm_forward None",
        "later reference_head_forward None",
    ]
    assert names[start + 6] == "later head_forward None"


def test_reserved_bytes_are_replayed() -> None:
    (stage,) = estimate(plan("trl-1.15", "base")).stages
    assert stage.reserved_basis == "replayed"
