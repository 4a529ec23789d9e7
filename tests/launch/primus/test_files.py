"""Experiments of Primus: jobs derived by hand from its presets, and from its backends' defaults."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.launches import Read, launch_of
from tests.launch.launches import read as read_files
from tests.launch.mutations import check_every_key
from trainfit.launch.errors import LaunchError

HEAD = """
work_group: ${PRIMUS_TEAM:amd}
user_name: root
exp_name: run
workspace: ./output
modules:
  pre_trainer:
    framework: FRAMEWORK
    config: pre_trainer.yaml
    model: MODEL
    overrides:
"""
MEGATRON = (
    HEAD.replace("FRAMEWORK", "megatron").replace("MODEL", "${PRIMUS_MODEL:llama3.1_8B}.yaml")
    + """
      stderr_sink_level: DEBUG
      log_avg_skip_iterations: 2
      train_iters: 50
      micro_batch_size: ${PRIMUS_MBS:2}
      global_batch_size: 128
      seq_length: 8192
      max_position_embeddings: 8192
      tensor_model_parallel_size: 1
      overlap_grad_reduce: true
      overlap_param_gather: true
      gradient_accumulation_fusion: false
      recompute_granularity: null
      mock_data: true
      ckpt_format: torch
      enable_primus_turbo: true
      use_turbo_attention: false
      use_turbo_grouped_gemm: true
      cross_entropy_fusion_impl: "te"
      cross_entropy_loss_fusion: true
"""
)
EXPERTS = (
    HEAD.replace("FRAMEWORK", "megatron").replace("MODEL", "deepseek_v2_lite.yaml")
    + """
      micro_batch_size: 4
      global_batch_size: 640
      seq_length: 4096
      expert_model_parallel_size: 8
      enable_primus_turbo: true
      use_turbo_deepep: true
"""
)
TORCHTITAN = (
    HEAD.replace("FRAMEWORK", "torchtitan").replace("MODEL", "llama3.1_8B.yaml")
    + """
      metrics: {log_freq: 1, enable_wandb: false}
      training: {local_batch_size: 4, seq_len: 8192, mock_data: false, steps: 50}
      debug: {seed: null}
      activation_checkpoint: {mode: "none"}
      compile: {enable: true, components: ["model", "loss"]}
      primus_turbo: {enable_primus_turbo: true, enable_attention_float8: false}
"""
)
EIGHT = {"parallelism": {"num_gpus": 8}}


def read(text: str, old: str = "", new: str = "", **others: Any) -> Read:
    assert old in text
    others.setdefault("overrides", EIGHT)
    files = {"exp.yaml": text.replace(old, new) if old else text}
    return read_files(launch_of(files, **others))


def test_a_preset_of_a_model_and_a_trainer_with_overrides_become_this_job() -> None:
    found = read(MEGATRON)
    assert found.fields() == {
        "/framework/name": "megatron",
        "/framework/transformer_impl": "transformer_engine",
        "/framework/create_attention_mask_in_dataloader": True,
        # overrides
        "/framework/gradient_accumulation_fusion": False,
        "/framework/overlap_grad_reduce": True,
        "/framework/overlap_param_gather": True,
        "/training/micro_batch_size": 2,
        "/training/global_batch_size": 128,
        "/training/seq_length": 8192,
        "/training/loss/cross_entropy": "te_fused",
        "/parallelism/tp": 1,
        "/parallelism/num_gpus": 8,
        # trainer_base.yaml and pre_trainer.yaml: bf16, use_flash_attn, use_distributed_optimizer
        "/training/precision": "bf16",
        "/training/attention/backend": "flash",
        "/parallelism/data_parallel_sharding_strategy": "optim",
        # language_model.yaml asks for it, Primus takes it back for tensor parallelism of 1
        "/parallelism/sequence_parallel": False,
        # llama_base.yaml: no dropout
        "/training/attention/dropout": 0.0,
        "/training/hidden_dropout": 0.0,
        "/parallelism/cp_comm_type": "p2p",
        "/model": found.field("/model"),
    }
    assert found.field("/model/spec") == {
        # llama3_8B.yaml
        "num_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_query_groups": 8,
        "ffn_hidden_size": 14336,
        # llama_base.yaml
        "normalization": "RMSNorm",
        "position_embedding_type": "rope",
        "untie_embeddings_and_output_weights": True,
        "swiglu": True,
        "add_bias_linear": False,
        # the override counts over llama3.1_8B.yaml's 131072
        "max_position_embeddings": 8192,
        # the tokenizer of meta-llama/Llama-3.1-8B
        "vocab_size": 128256,
    }
    assert not found.left_out


def test_latent_attention_and_experts_come_from_the_preset() -> None:
    found = read(EXPERTS)
    spec = found.field("/model/spec")
    # deepseek_v2_lite.yaml: one dense layer, then 26 with 64 experts; no low rank of queries
    assert spec["moe_layer_freq"] == [0] + [1] * 26
    assert (spec["num_layers"], spec["num_moe_experts"], spec["moe_router_topk"]) == (27, 64, 6)
    assert (spec["multi_latent_attention"], spec["kv_lora_rank"]) == (True, 512)
    assert "q_lora_rank" not in spec
    assert (spec["moe_ffn_hidden_size"], spec["moe_shared_expert_intermediate_size"]) == (
        1408,
        2816,
    )
    assert found.field("/parallelism/ep") == 8
    # DeepEP takes the place of the dispatcher that deepseek_v3_base.yaml names
    assert found.field("/training/moe/token_dispatcher_type") == "flex"
    assert not found.left_out
    for off in ("enable_primus_turbo: false", "use_turbo_deepep: false"):
        plain = read(EXPERTS, off.replace("false", "true"), off)
        assert plain.field("/training/moe/token_dispatcher_type") == "alltoall"


def test_an_experiment_of_torchtitan_becomes_its_job() -> None:
    found = read(TORCHTITAN)
    assert found.fields() == {
        "/framework/name": "torchtitan",
        "/framework/compile": True,
        "/framework/fsdp_reshard_after_forward": "default",
        "/framework/loss_parallel": True,
        "/model": {"hf_id": "meta-llama/Llama-3.1-8B"},
        "/parallelism/tp": 1,
        "/parallelism/pp": 1,
        "/parallelism/cp": 1,
        "/parallelism/ep": 1,
        "/parallelism/num_gpus": 8,
        "/parallelism/data_parallel_sharding_strategy": "optim_grads_params",
        "/training/micro_batch_size": 4,
        "/training/seq_length": 8192,
        "/training/precision/params": "fp32",
        "/training/precision/compute": "bf16",
        "/training/precision/gradients": "fp32",
        "/training/loss/cross_entropy": "fused",
        # of the preset
        "/training/optimizer/name": "adam",
        "/training/optimizer/implementation": "fused",
        "/training/optimizer/in_backward": False,
    }
    # no copies of keys and values, from the preset
    assert {each.key: each.direction for each in found.account.unsupported} == {
        "primus_turbo.use_turbo_attention": "lowers"
    }


def test_adapters_are_megatron_bridges() -> None:
    text = MEGATRON.replace("pre_trainer", "post_trainer").replace(
        "config: post_trainer.yaml", "config: sft_trainer.yaml"
    )
    found = read(text, "train_iters: 50", "lora: {enabled: true, dim: 16}")
    peft = {name: value for name, value in found.fields().items() if "/peft/" in name}
    assert peft == {
        "/training/peft/method": "lora",
        "/training/peft/r": 16,
        "/training/peft/dropout": 0.0,
        "/training/peft/target_modules": ["linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"],
    }
    assert read(text).field("/training/peft") is None


@pytest.mark.parametrize("text", [MEGATRON, EXPERTS, TORCHTITAN])
def test_no_key_that_decides_goes_unnoticed(text: str) -> None:
    check_every_key(launch_of({"exp.yaml": text}, overrides=EIGHT))
    found = read(text)
    assert len(found.keys) == len(set(found.keys))


@pytest.mark.parametrize(
    ("text", "old", "new", "key"),
    [
        (MEGATRON, "seq_length: 8192", "recompute_layer_ids: [1]", "recompute_layer_ids"),
        (MEGATRON, "train_iters: 50", "turbo_sync_free_moe_stage: 1", "turbo_sync_free_moe_stage"),
        (MEGATRON, "train_iters: 50", "patch_zero_bubble: true", "patch_zero_bubble"),
        (MEGATRON, "train_iters: 50", "fp8: hybrid", "use_turbo_grouped_gemm"),
        (MEGATRON, "use_turbo_attention: false", "use_sink_attention: true", "use_sink_attention"),
        (MEGATRON, "train_iters: 50", "torch_compile: {enable: true}", "torch_compile.enable"),
        (MEGATRON, "train_iters: 50", "some_key: 1", "some_key"),
        (MEGATRON, "user_name: root", "extends: [base.yaml]", "extends"),
        (MEGATRON, "model: ${PRIMUS_MODEL:llama3.1_8B}", "model: grok2", "final_logit_softcapping"),
        (TORCHTITAN, "training: {", "some: {key: 1}\n      training: {", "some.key"),
        (
            TORCHTITAN,
            "enable_primus_turbo: true",
            "use_turbo_grouped_mm: true",
            "primus_turbo.use_turbo_grouped_mm",
        ),
    ],
)
def test_what_is_not_modelled_is_told(text: str, old: str, new: str, key: str) -> None:
    found = read(text, old, new)
    assert key in found.unsupported


def test_converters_of_a_preset_count() -> None:
    found = read(TORCHTITAN, "model: llama3.1_8B", "model: llama3.1_8B-fp8")
    assert found.field("/training/precision/fp8_recipe") == "tensorwise"


def test_cp_with_the_attention_of_primus_is_told() -> None:
    text = MEGATRON.replace("use_turbo_attention: false", "use_turbo_attention: true")
    assert not read(text).left_out
    assert "use_turbo_attention" in read(text + "      context_parallel_size: 2\n").unsupported


def test_variables_stand_for_what_the_environment_says() -> None:
    env = {"PRIMUS_MBS": "1", "PRIMUS_MODEL": "llama3.1_70B"}
    found = read(MEGATRON, env=env)
    assert found.field("/training/micro_batch_size") == 1
    assert found.field("/model/spec/num_layers") == 80
    with pytest.raises(LaunchError, match="give it in env"):
        read(MEGATRON, "${PRIMUS_MBS:2}", "${PRIMUS_MBS}")


@pytest.mark.parametrize(
    ("argv", "env", "gpus"),
    [
        ("primus-cli direct -- train pretrain --config exp.yaml", {}, 8),
        ("primus-cli slurm srun -N 4 -- train pretrain --config exp.yaml", {}, 32),
        ("./runner/primus-cli slurm --nodes=2 -- train pretrain --config=exp.yaml", {}, 16),
        ("bash examples/run_pretrain.sh", {"EXP": "exp.yaml", "GPUS_PER_NODE": "4"}, 4),
        ("bash ./examples/run_slurm_pretrain.sh", {"EXP": "exp.yaml", "NNODES": "2"}, 16),
        ("torchrun --nproc_per_node 8 primus/cli/main.py train pretrain --exp exp.yaml", {}, 8),
    ],
)
@pytest.mark.parametrize("text", [MEGATRON, TORCHTITAN])
def test_commands_say_how_many_gpus_there_are(
    text: str, argv: str, env: dict[str, str], gpus: int
) -> None:
    found = read(text, argv=argv.split(), env=env, overrides={})
    assert found.field("/parallelism/num_gpus") == gpus


def test_what_a_command_says_counts_over_the_file() -> None:
    command = "primus-cli direct -- train pretrain --config exp.yaml"
    words = " --micro_batch_size 4 seq_length=4096 --tensor_model_parallel_size=2"
    found = read(MEGATRON, argv=(command + words).split(), overrides={})
    assert found.field("/training/micro_batch_size") == 4
    assert found.field("/training/seq_length") == 4096
    assert found.field("/parallelism/sequence_parallel") is True


def test_releases_that_differ_are_all_in_the_bounds() -> None:
    text = TORCHTITAN.replace("      debug: {seed: null}\n", "").replace(
        ', components: ["model", "loss"]', ""
    )
    assert read(text).field("/training/attention/repeats_kv") is None
    old = read(text, framework_version="v26.4.0")
    assert old.field("/training/attention/repeats_kv") is True
    with pytest.raises(LaunchError, match=r"of Primus main, v26\.5\.1"):
        read(text, framework_version="v9")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("framework: megatron", "framework: maxtext", "backends megatron and torchtitan are read"),
        (
            "${PRIMUS_MODEL:llama3.1_8B}",
            "llama9",
            "and llama9.yaml of megatron",
        ),
        ("    config: pre_trainer.yaml\n", "", "modules.pre_trainer.config is not said"),
        ("pre_trainer:", "other:", "names no trainer"),
    ],
)
def test_what_is_not_an_experiment_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        read(MEGATRON, old, new)


def test_a_file_that_was_not_sent_is_asked_for() -> None:
    argv = "primus-cli direct -- train pretrain --config other.yaml"
    with pytest.raises(LaunchError, match=r"other\.yaml was not sent"):
        read(MEGATRON, argv=argv.split())
