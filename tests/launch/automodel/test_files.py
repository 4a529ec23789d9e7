"""Recipes of NeMo AutoModel: jobs derived by hand from its source."""

from __future__ import annotations

import pytest

from tests.launch.launches import Read, launch_of
from tests.launch.launches import read as read_files
from trainfit.launch.errors import LaunchError

RECIPE = """
recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler: {global_batch_size: 32, local_batch_size: 4, max_steps: 100}
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: meta-llama/Llama-3.1-8B
  torch_dtype: bf16
distributed:
  {strategy: fsdp2, dp_size: 4, tp_size: 2, cp_size: 1, sequence_parallel: true,
   activation_checkpointing: true}
loss_fn: {_target_: nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy}
dataset: {_target_: nemo_automodel.components.datasets.llm.squad.make_squad_dataset}
packed_sequence: {packed_sequence_size: 2048}
optimizer: {_target_: torch.optim.Adam, betas: [0.9, 0.999], lr: 1.0e-5}
"""


def read(old: str = "", new: str = "") -> Read:
    assert old in RECIPE
    return read_files(launch_of({"recipe.yaml": RECIPE.replace(old, new) if old else RECIPE}))


def test_a_recipe_becomes_this_job() -> None:
    found = read()
    assert found.fields() == {
        "/model": {"hf_id": "meta-llama/Llama-3.1-8B"},
        "/framework/name": "transformers",
        "/framework/data_parallel_engine": "fsdp2",
        # dp_size x tp_size x cp_size
        "/parallelism/num_gpus": 8,
        "/parallelism/tp": 2,
        "/parallelism/cp": 1,
        "/parallelism/sequence_parallel": True,
        "/parallelism/data_parallel_sharding_strategy": "optim_grads_params",
        "/training/micro_batch_size": 4,
        "/training/global_batch_size": 32,
        "/training/seq_length": 2048,
        # weights in bf16, and nothing wider beside them
        "/training/precision": "bf16-pure",
        "/training/recompute/granularity": "full",
        "/training/optimizer/implementation": "foreach",
    }
    assert found.left_out == {"model.use_liger_kernel"}


@pytest.mark.parametrize(
    ("targets", "modules"),
    [
        ("target_modules: '*_proj'", "all-linear"),
        ("match_all_linear: true", "all-linear"),
        ("target_modules: [q_proj, v_proj]", ["q_proj", "v_proj"]),
    ],
)
def test_adapters_have_its_defaults(targets: str, modules: object) -> None:
    found = read("optimizer:", f"peft: {{dim: 16, {targets}}}\noptimizer:")
    peft = {name: value for name, value in found.fields().items() if "/peft/" in name}
    assert peft == {
        "/training/peft/method": "lora",
        "/training/peft/r": 16,
        "/training/peft/dropout": 0.0,
        "/training/peft/target_modules": modules,
        "/training/peft/adapter_dtype": "bf16",
    }


def test_weights_in_fp32_are_gathered_in_bf16() -> None:
    assert read("torch_dtype: bf16", "torch_dtype: float32").field("/training/precision") == "bf16"


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("cp_size: 1", "cp_size: 1, pp_size: 2", "distributed.pp_size"),
        ("strategy: fsdp2", "strategy: megatron_fsdp", "distributed.strategy"),
        (
            "activation_checkpointing: true",
            "activation_checkpointing: selective",
            "distributed.activation_checkpointing",
        ),
        ("torch.optim.Adam", "dion.Dion", "optimizer._target_"),
        ("masked_ce.MaskedCrossEntropy", "own.Own", "loss_fn._target_"),
        ("torch_dtype: bf16", "num_hidden_layers: 2", "model.num_hidden_layers"),
        ("optimizer:", "fp8: {enabled: true}\noptimizer:", "fp8.enabled"),
        ("optimizer:", "some_key: 1\noptimizer:", "some_key"),
        ("lr: 1.0e-5", "lr: 1.0e-5, amsgrad: true", "optimizer.amsgrad"),
        ("local_batch_size", "micro_batch_size", "step_scheduler.micro_batch_size"),
        ("optimizer:", "peft: {_target_: own.Dora, dim: 8}\noptimizer:", "peft._target_"),
    ],
)
def test_what_is_not_modelled_is_told(old: str, new: str, key: str) -> None:
    assert key in read(old, new).unsupported


def test_steps_without_lists_take_one_weight_after_the_other() -> None:
    found = read("lr: 1.0e-5", "lr: 1.0e-5, foreach: false")
    assert found.field("/training/optimizer/implementation") == "for-loop"


def test_a_smaller_loss_is_bounded() -> None:
    found = read("masked_ce.MaskedCrossEntropy", "linear_ce.FusedLinearCrossEntropy")
    assert "loss_fn._target_" in found.bounded


def test_a_command_says_over_the_file_what_counts() -> None:
    words = (
        "torchrun --nproc_per_node 8 examples/finetune.py --config recipe.yaml "
        "--step_scheduler.local_batch_size 2 --distributed.tp_size 1"
    )
    found = read_files(launch_of({"recipe.yaml": RECIPE}, words.split()))
    assert found.field("/training/micro_batch_size") == 2
    assert found.field("/parallelism/num_gpus") == 8


def test_what_is_missing_is_asked_for() -> None:
    with pytest.raises(LaunchError, match="give /training/seq_length in overrides"):
        read("packed_sequence_size: 2048", "packed_sequence_size: 0")
    with pytest.raises(LaunchError, match="give /parallelism/num_gpus in overrides"):
        read("dp_size: 4", "dp_size: none")
