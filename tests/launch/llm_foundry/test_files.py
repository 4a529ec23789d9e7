"""LLM Foundry's configs: jobs derived by hand from its source and Composer's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.launches import Read, launch_of
from tests.launch.launches import read as read_files
from tests.launch.mutations import check_every_key
from trainfit.launch.errors import LaunchError
from trainfit.questions.python import fit_check

ADAPTED = """
variables:
  max_seq_len: 4096
max_seq_len: ${variables.max_seq_len}
model:
  name: hf_causal_lm
  pretrained: true
  init_device: mixed
  use_flash_attention_2: true
  pretrained_model_name_or_path: databricks/dbrx-instruct
  peft_config: {r: 64, peft_type: LORA, lora_alpha: 128, lora_dropout: 0.05, target_modules: [Wqkv]}
train_loader: {name: finetuning, dataset: {max_seq_len: "${variables.max_seq_len}"}}
optimizer: {name: decoupled_lionw, lr: 0.0001}
global_train_batch_size: 16
device_train_microbatch_size: 1
device_eval_batch_size: 1
precision: amp_bf16
expandable_segments: true
fsdp_config:
  mixed_precision: PURE
  sharding_strategy: FULL_SHARD
  activation_checkpointing: true
  activation_checkpointing_reentrant: false
  activation_cpu_offload: false
"""
WHOLE = ADAPTED.replace(
    "  peft_config: {r: 64, peft_type: LORA, lora_alpha: 128, lora_dropout: 0.05, "
    "target_modules: [Wqkv]}\n",
    "",
).replace("batch_size: 16", "batch_size: 64")
GPUS = {"parallelism": {"num_gpus": 16}}


def read(text: str, **others: Any) -> Read:
    return read_files(launch_of({"train.yaml": text}, **({"overrides": GPUS} | others)))


def test_adapters_under_fsdp() -> None:
    found = read(ADAPTED)
    assert found.fields() == {
        "/model": {"hf_id": "databricks/dbrx-instruct"},
        "/framework/name": "transformers",
        "/speed/stack": "llm-foundry",
        # every micro-batch is reduced: only DDP has a context without
        "/framework/data_parallel_engine": "fsdp1",
        "/framework/sync_each_micro_batch": True,
        "/framework/expandable_segments": True,
        "/parallelism/num_gpus": 16,
        "/parallelism/data_parallel_sharding_strategy": "optim_grads_params",
        "/training/seq_length": 4096,
        "/training/micro_batch_size": 1,
        "/training/global_batch_size": 16,
        # _MASTER_WEIGHTS_PRECISION is fp32; PURE reduces in what is computed with
        "/training/precision/params": "fp32",
        "/training/precision/compute": "bf16",
        "/training/precision/gradients": "bf16",
        "/training/precision/main_params": "fp32",
        "/training/attention/backend": "flash",
        "/training/recompute/granularity": "full",
        "/training/recompute/use_reentrant": False,
        "/training/optimizer/name": "lion",
        "/training/optimizer/implementation": "for-loop",
        "/training/peft/method": "lora",
        "/training/peft/r": 64,
        "/training/peft/dropout": 0.05,
        "/training/peft/target_modules": ["Wqkv"],
        "/training/peft/base_dtype": "fp32",
    }
    # two tensors [b s, V] in fp32
    (metrics,) = found.account.bounded
    assert metrics.bytes == 2 * 4 * 4096 * 100_352


def test_no_key_goes_unnoticed() -> None:
    assert check_every_key(launch_of({"train.yaml": WHOLE}, overrides=GPUS)) > 8


@pytest.mark.parametrize(("text", "gpus"), [(ADAPTED, 16), (WHOLE, 64)])
def test_it_fits_where_the_authors_say_so(text: str, gpus: int) -> None:
    """`This requires ~16x80GB GPUs` of scripts/train/yamls/finetune/dbrx-lora-ft.yaml, and 64 of
    dbrx-full-ft.yaml.
    """
    launch = {"files": [{"path": "train.yaml", "content": text}], "gpu": "H100-80GB"}
    verdicts = []
    for number in (gpus // 4, gpus):
        asked = launch | {"overrides": {"parallelism": {"num_gpus": number}}}
        verdicts.append(fit_check({"launch": asked}, suggest=False).verdict)
    assert verdicts == ["does_not_fit", "fits"]


MPT = """
max_seq_len: 2048
model:
  name: mpt_causal_lm
  d_model: 4096
  n_heads: 32
  n_layers: 32
  expansion_ratio: 4
  vocab_size: 50368
""" + WHOLE[WHOLE.index("train_loader") :].replace('"${variables.max_seq_len}"', "2048")


def test_mpt_is_described() -> None:
    """The sizes of scripts/train/yamls/pretrain/mpt-7b.yaml; what it leaves open is MPTConfig's."""
    found = read(MPT)
    assert found.field("/model/spec") == {
        "num_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_query_groups": 32,
        "ffn_hidden_size": 16384,
        "vocab_size": 50368,
        "max_position_embeddings": 2048,
        "activation_func": "gelu",
        "normalization": "LayerNorm",
        "position_embedding_type": "learned_absolute",
        "add_bias_linear": True,
        "qk_layernorm": False,
        "untie_embeddings_and_output_weights": False,
    }
    assert found.field("/training/attention/backend") == "flash"
    assert found.field("/training/attention/repeats_kv") is False
    assert found.field("/training/loss/cross_entropy") == "fused"
    (metrics,) = found.account.bounded
    assert metrics.bytes == 2 * 4 * 2048 * 50_368
    assert check_every_key(launch_of({"train.yaml": MPT}, overrides=GPUS)) > 8


@pytest.mark.parametrize(
    ("lines", "fields"),
    [
        ("attn_config: {alibi: true}", {"position_embedding_type": "none"}),
        ("attn_config: {rope: true}", {"position_embedding_type": "rope"}),
        ("attn_config: {attn_type: multiquery_attention}", {"num_query_groups": 1}),
        (
            "attn_config: {kv_n_heads: 8, qk_ln: true}",
            {"num_query_groups": 8, "qk_layernorm": True},
        ),
        ("ffn_config: {ffn_type: mptglu, ffn_hidden_size: 11008}", {"activation_func": "geglu"}),
        ("ffn_config: {ffn_hidden_size: 11008}", {"ffn_hidden_size": 11008}),
        ("no_bias: true", {"add_bias_linear": False}),
        ("tie_word_embeddings: false", {"untie_embeddings_and_output_weights": True}),
        ("learned_pos_emb: false", {"position_embedding_type": "none"}),
        ("head_dim: 256", {"kv_channels": 256}),
    ],
)
def test_what_mpt_says_of_its_layers(lines: str, fields: dict[str, Any]) -> None:
    found = read(MPT.replace("  vocab_size", f"  {lines}\n  vocab_size"))
    assert found.field("/model/spec").items() >= fields.items()


@pytest.mark.parametrize(
    ("lines", "unsupported"),
    [
        ("norm_type: rmsnorm", "model.norm_type"),
        ("attn_config: {clip_qkv: 6}", "model.attn_config.clip_qkv"),
        ("fc_type: te", "model.fc_type"),
    ],
)
def test_what_of_mpt_is_not_modelled_is_said(lines: str, unsupported: str) -> None:
    found = read(MPT.replace("  vocab_size", f"  {lines}\n  vocab_size"))
    assert unsupported in found.unsupported


def test_experts_of_mpt_are_not_read() -> None:
    with pytest.raises(LaunchError, match="mptmlp, mptglu are read"):
        read(MPT.replace("  vocab_size", "  ffn_config: {ffn_type: mb_dmoe}\n  vocab_size"))


def test_gradients_are_reduced_in_fp32_by_default() -> None:
    found = read(ADAPTED.replace("  mixed_precision: PURE\n", ""))
    assert found.field("/training/precision/gradients") == "fp32"


def test_without_fsdp_autocast_finds_weights_in_fp32() -> None:
    found = read(WHOLE[: WHOLE.index("fsdp_config")])
    assert found.field("/framework/data_parallel_engine") == "ddp"
    assert found.field("/training/precision") == "autocast-bf16"


def test_a_command_line_counts_over_the_config() -> None:
    words = ["scripts/train/train.py", "train.yaml", "device_train_microbatch_size=2"]
    assert read(WHOLE, argv=words).field("/training/micro_batch_size") == 2


def test_an_algorithm_that_no_list_has_is_told() -> None:
    more = "algorithms: {gradient_clipping: {clipping_threshold: 1.0}, ema: {half_life: 1ep}}\n"
    assert "algorithms.ema.half_life" in read(f"{WHOLE}\n{more}").unsupported
    assert not read(f"{WHOLE}\n{more.replace(', ema: {half_life: 1ep}', '')}").unsupported


def test_evaluation_may_take_more_samples() -> None:
    found = read(WHOLE.replace("device_eval_batch_size: 1", "device_eval_batch_size: 8"))
    assert "device_eval_batch_size" in found.bounded


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("name: hf_causal_lm", "name: fm_causal_lm", "a model of its own"),
        ("microbatch_size: 1", "microbatch_size: auto", "as large as fits"),
        ("precision: amp_bf16", "precision: amp_fp8", "amp_bf16 and fp32 are read"),
        ("FULL_SHARD", "HYBRID_SHARD", "FULL_SHARD, SHARD_GRAD_OP, NO_SHARD are read"),
        ("mixed_precision: PURE", "mixed_precision: FULL", "PURE, DEFAULT are read"),
        ("decoupled_lionw", "clip_lion", "decoupled_adamw, decoupled_lionw are read"),
    ],
)
def test_what_is_not_read_is_refused_by_name(before: str, after: str, complaint: str) -> None:
    with pytest.raises(LaunchError, match=complaint):
        read(WHOLE.replace(before, after))


@pytest.mark.parametrize("path", ["scripts/train/yamls/t.yaml", "t.yaml", "yamls/t.yaml"])
def test_composer_says_on_how_many_gpus(path: str) -> None:
    command = "composer -n 16 train/train.py train/yamls/t.yaml max_seq_len=2048"
    found = read_files(launch_of({"run.sh": command, path: WHOLE}))
    assert found.field("/parallelism/num_gpus") == 16
    assert found.field("/training/seq_length") == 2048


def test_what_names_data_changes_nothing() -> None:
    more = "data_local: ./c4\ndata_remote:\nglobal_seed: 17\ndataset: {hf_name: json}\n"
    found = read(WHOLE + more)
    assert {"data_local", "data_remote", "global_seed", "dataset.hf_name"} <= found.irrelevant


@pytest.mark.parametrize(
    ("model", "changes", "unsupported"),
    [
        ("mosaicml/mpt-7b", "{max_seq_len: 4096, attn_config: {attn_impl: flash}}", False),
        ("meta-llama/Llama-2-7b-hf", "{max_position_embeddings: 8192}", False),
        ("openai-community/gpt2", "{max_position_embeddings: 2048}", True),
        ("meta-llama/Llama-2-7b-hf", "{num_hidden_layers: 2}", True),
        ("mosaicml/mpt-7b", "{attn_config: {attn_impl: triton}}", True),
    ],
)
def test_what_is_changed_of_a_config_may_change_no_shape(
    model: str, changes: str, unsupported: bool
) -> None:
    text = WHOLE.replace("databricks/dbrx-instruct", model).replace(
        "  use_flash_attention_2: true\n", f"  config_overrides: {changes}\n"
    )
    found = read(text)
    assert bool(found.unsupported) is unsupported
    if "attn_impl: flash" in changes:
        assert found.field("/training/attention/backend") == "flash"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("attn_impl", "config_overrides: {attn_config: {attn_impl: [1]}}"),
        ("attn_implementation", "attn_implementation: [1]"),
        ("target_modules", "peft_config: {peft_type: LORA, r: 8, target_modules: 5}"),
    ],
)
def test_a_value_of_another_kind_is_told_by_its_key(key: str, value: str) -> None:
    assert key in told_of(WHOLE.replace("use_flash_attention_2: true", value))


@pytest.mark.parametrize("ratio", ["[1]", "wide", "0", "1.0e+308"])
def test_a_network_is_so_many_times_wider(ratio: str) -> None:
    assert "expansion_ratio" in told_of(
        MPT.replace("expansion_ratio: 4", f"expansion_ratio: {ratio}")
    )


def test_an_optimizer_is_a_word() -> None:
    assert "optimizer.name" in told_of(WHOLE.replace("name: decoupled_lionw", "name: [1]"))


@pytest.mark.parametrize("attention", [5, [5], None, {}])
def test_positions_of_a_model_that_says_little_of_attention_are_learned(attention: Any) -> None:
    text = WHOLE.replace("use_flash_attention_2: true", "config_overrides: {max_seq_len: 4096}")
    config = {"model_type": "mpt", "attn_config": attention}
    found = read(text, overrides={**GPUS, "model": {"hf_config": config}})
    assert "model.config_overrides.max_seq_len" in found.unsupported


def told_of(text: str) -> str:
    """What is refused of a launch, or else left out of it."""
    try:
        return " ".join(read(text).unsupported)
    except LaunchError as error:
        return str(error)
