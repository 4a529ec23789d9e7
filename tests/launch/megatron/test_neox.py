"""GPT-NeoX's configs, by jobs worked out by hand from its neox_args.py and transformer.py."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.launches import Read, launch_of, read
from trainfit.launch.errors import LaunchError

LLAMA = """
{
  "pipe_parallel_size": 2,
  "model_parallel_size": 2,
  "make_vocab_size_divisible_by": 1,
  # model settings
  "num_layers": 32, "hidden_size": 4096, "intermediate_size": 32768, "num_attention_heads": 32,
  "seq_length": 4096, "max_position_embeddings": 4096,
  "pos_emb": "rotary", "no_weight_tying": true, "gpt_j_residual": false,
  "norm": "rmsnorm", "activation": "swiglu", "mlp_multiple_of": 256,
  "use_bias_in_attn_linear": false, "use_bias_in_mlp": false,
  "attention_config": [[["flash"], 32]],
  "checkpoint-activations": true,
  "precision": "bfloat16",
  "optimizer": {"type": "Adam", "params": {"lr": 0.0003}},
  "zero_optimization": {"stage": 1, "reduce_bucket_size": 500000000},
  "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
}
"""
SETUP = """
{"vocab_file": "data/20B_tokenizer.json", "tokenizer_type": "HFTokenizer", "log_dir": "logs"}
"""


def of(*texts: str, num_gpus: int = 32) -> Read:
    files = {f"{index}.yml": text for index, text in enumerate(texts)}
    return read(launch_of(files, overrides={"parallelism": {"num_gpus": num_gpus}}))


def test_a_config_is_a_job_of_megatron_under_deepspeed() -> None:
    found = of(LLAMA, SETUP)
    spec, parallelism = found.job["model"]["spec"], found.job["parallelism"]
    expected: dict[str, Any] = {
        # two thirds of 32768 for both halves, each a multiple of 256
        "ffn_hidden_size": 11008,
        "swiglu": True,
        "normalization": "RMSNorm",
        "position_embedding_type": "rope",
        "add_bias_linear": False,
        "untie_embeddings_and_output_weights": True,
        "vocab_size": 50277,
    }
    assert {name: spec[name] for name in expected} == expected
    assert (parallelism["tp"], parallelism["pp"]) == (2, 2)
    # ZeRO's first stage, whose gradients have the type of the weights
    assert parallelism["data_parallel_sharding_strategy"] == "optim"
    assert found.field("/training/precision") == {"gradients": "bf16", "main_params": "fp32"}
    assert found.field("/training/recompute/granularity") == "full"
    assert found.field("/training/micro_batch_size") == 2
    assert found.field("/training/num_microbatches") == 4
    assert found.field("/training/attention/backend") == "flash"
    assert found.field("/training/hidden_dropout") == 0.0
    assert not found.unsupported
    assert found.bounded == {"zero_optimization.stage"}


def test_scores_of_global_attention_are_bounded_unless_its_softmax_is_fused() -> None:
    """13 bytes of each of 2 x 32 x 4096 x 4096, of the one layer that runs again."""
    text = LLAMA.replace('"attention_config": [[["flash"], 32]],', "")
    (told,) = [each for each in of(text, SETUP).account.bounded if "softmax" in each.key]
    assert told.bytes == 13 * 2 * 32 * 4096**2
    fused = text.replace('"norm":', '"scaled_upper_triang_masked_softmax_fusion": true, "norm":')
    found = of(fused, SETUP)
    assert found.field("/framework/transformer_impl") == "local"
    assert found.bounded == {"zero_optimization.stage"}


def test_experts_are_whole_on_every_data_parallel_rank() -> None:
    text = LLAMA.replace('"norm":', '"moe_num_experts": 8, "norm":')
    found = of(text, SETUP)
    assert found.field("/model/spec/num_moe_experts") == 8
    assert found.field("/model/spec/moe_router_topk") == 1
    assert found.field("/parallelism/ep") in (None, 1)


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ('"activation": "mish"', "activation"),
        ('"pos_emb": "rpe"', "pos_emb"),
        ('"optimizer": {"type": "OneBitAdam"}', "optimizer.type"),
        ('"magic": 3', "magic"),
    ],
)
def test_what_is_not_modelled_is_told(more: str, key: str) -> None:
    lines = [
        line.replace('"activation": "swiglu",', "")
        if key != "pos_emb"
        else line.replace('"pos_emb": "rotary",', "")
        for line in LLAMA.splitlines()
        if not (key == "optimizer.type" and 'optimizer"' in line)
    ]
    assert key in of("\n".join(lines).replace("{", "{" + more + ",", 1), SETUP).unsupported


def test_attention_beside_the_feed_forward_network_keeps_less() -> None:
    """Of each layer the sum [s b, h] before the second norm, in two bytes."""
    beside = ('"gpt_j_residual": false', '"gpt_j_residual": true')
    found = of(LLAMA.replace(*beside), SETUP)
    (told,) = [each for each in found.account.bounded if each.key == "gpt_j_residual"]
    layers, hidden = (found.field(f"/model/spec/{key}") for key in ("num_layers", "hidden_size"))
    tokens = found.field("/training/seq_length") * found.field("/training/micro_batch_size")
    assert (told.direction, told.bytes) == ("lowers", 2 * layers * tokens * hidden)
    assert "gpt_j_residual" not in of(LLAMA, SETUP).bounded


def test_gradients_in_fp32_are_those_of_the_engine_without_a_stage() -> None:
    """As configs/llemma/7B.yml has it: BF16_Optimizer."""
    wide = LLAMA.replace('"norm":', '"data_types": {"grad_accum_dtype": "fp32"}, "norm":')
    found = of(wide, SETUP)
    assert found.field("/training/precision") == "bf16"
    assert found.field("/parallelism/data_parallel_sharding_strategy") == "optim"
    assert not found.unsupported
    assert of(LLAMA, SETUP).field("/training/precision/gradients") == "bf16"
    second = of(wide.replace('"stage": 1', '"stage": 2'), SETUP)
    assert second.unsupported == {"data_types.grad_accum_dtype"}


def test_activations_are_shared_out_over_ranks_that_share_a_layer() -> None:
    split = LLAMA.replace('"norm":', '"partition_activations": true, "norm":')
    (told,) = of(split, SETUP).account.unsupported
    assert (told.key, told.direction) == ("partition_activations", "lowers")
    alone = split.replace('"model_parallel_size": 2', '"model_parallel_size": 1')
    assert not of(alone, SETUP).unsupported


def test_a_key_in_two_files_is_asked_about() -> None:
    with pytest.raises(LaunchError, match="which is meant"):
        of(LLAMA, '{"num_layers": 3}')
