"""Options of forks, and of Megatron-LM before megatron-core."""

from __future__ import annotations

import json

import pytest

from tests.launch.launches import Read, launch_of
from tests.launch.launches import read as read_files
from trainfit.launch.errors import LaunchError

LAYERS = "/framework/transformer_impl"
SHARING = "/parallelism/data_parallel_sharding_strategy"
SMALL = (
    "pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
    "--max-position-embeddings 2048 --micro-batch-size 2 --global-batch-size 64 --vocab-size 50257"
)


def read(words: str, files: dict[str, str] | None = None) -> Read:
    command = f"torchrun --nproc_per_node 8 {SMALL} {words}"
    return read_files(launch_of(files, command.split()))


@pytest.mark.parametrize(
    "older", ["--DDP-impl local", "--data-impl mmap", "--no-query-key-layer-scaling"]
)
def test_older_programs_have_layers_of_their_own(older: str) -> None:
    found = read(f"--fp16 {older}")
    assert found.defaulted[LAYERS] == "local"
    assert not found.left_out
    of_core = read(f"--fp16 {older} --use-mcore-models")
    assert of_core.field(LAYERS) == "transformer_engine"


def test_an_older_program_with_flash_attention_keeps_what_its_kernel_does() -> None:
    with_kernel = read("--fp16 --DDP-impl local --use-flash-attn-v2")
    assert with_kernel.field(LAYERS) == "transformer_engine"
    assert with_kernel.field("/training/attention/backend") == "flash"


def test_buckets_of_pytorch_raise_the_peak() -> None:
    (told,) = read("--fp16 --DDP-impl torch").account.unsupported
    assert (told.key, told.direction) == ("--DDP-impl", "raises")


@pytest.mark.parametrize(
    ("words", "method", "layers"),
    [
        ("--checkpoint-activations", "uniform", None),
        ("--activations-checkpoint-method block --activations-checkpoint-num-layers 2", "block", 2),
    ],
)
def test_every_layer_is_made_again_in_older_words(
    words: str, method: str, layers: int | None
) -> None:
    found = read(f"--bf16 {words}")
    at = "/training/recompute"
    assert found.field(f"{at}/granularity") == "full"
    assert found.field(f"{at}/method") == method
    assert found.field(f"{at}/num_layers") == layers


def test_a_named_release_stops_at_them() -> None:
    command = f"torchrun --nproc_per_node 8 {SMALL} --bf16 --checkpoint-activations".split()
    found = read_files(launch_of(argv=command, framework_version="core_v0.12.0"))
    assert found.unsupported == {"--checkpoint-activations"}


def test_alibi_has_no_positions_and_a_row_for_each_head() -> None:
    found = read("--bf16 --position-embedding-type alibi")
    assert found.field("/model/spec/position_embedding_type") == "none"
    (told,) = found.account.bounded
    assert (told.direction, told.bytes) == ("raises", 24 * 16 * 2 * 2048 * 8)


def test_one_head_of_keys_and_values() -> None:
    found = read("--bf16 --attention-head-type multiquery")
    assert found.field("/model/spec/num_query_groups") == 1
    shared = read("--bf16 --attention-head-type multiquery --tensor-model-parallel-size 2")
    # every rank has the one whole
    assert shared.field("/model/spec/num_query_groups") == 2
    assert not shared.unsupported


def test_experts_of_megablocks_lie_on_all_ranks() -> None:
    found = read(
        "--fp16 --moe-num-experts=64 --moe-top-k=2 --moe-capacity-factor=2 "
        "--moe-expert-model-parallelism"
    )
    assert found.field("/model/spec/num_moe_experts") == 64
    assert found.field("/model/spec/moe_router_topk") == 2
    assert found.field("/parallelism/ep") == 8
    assert found.field("/training/moe/expert_capacity_factor") == 2.0
    assert read("--fp16 --moe-num-experts 60 --moe-expert-model-parallelism").unsupported == {
        "--moe-expert-model-parallelism"
    }


def test_an_optimizer_that_keeps_less_only_lowers_the_peak() -> None:
    (told,) = read("--fp16 --optimizer adafactor").account.bounded
    assert (told.key, told.direction) == ("--optimizer", "lowers")


def test_choices_of_forks_are_those_of_megatron() -> None:
    found = read("--bf16 --normalization rmsnorm --pad-vocab-size-to 50304")
    assert found.field("/model/spec/normalization") == "RMSNorm"
    assert found.field("/model/spec/vocab_size") == 50304


def test_embedding_and_head_may_count_as_layers() -> None:
    words = "--bf16 --pipeline-model-parallel-size 2 --pp-partition-method"
    found = read(f"{words} type:transformer|embedding")
    assert found.field("/parallelism/account_for_embedding_in_pipeline_split") is True
    assert found.field("/parallelism/account_for_loss_in_pipeline_split") is True
    assert read(f"{words} parameters").unsupported == {"--pp-partition-method"}


@pytest.mark.parametrize(
    ("words", "config", "sharing", "bounded"),
    [
        ("--bf16", {"bf16": {"enabled": True}}, "optim", {"zero_optimization.stage"}),
        ("--fp16", {"fp16": {"enabled": True}}, "no_shard", set()),
        (
            "--bf16",
            {
                "bf16": {"enabled": True},
                "zero_optimization": {"stage": 1},
                "data_types": {"grad_accum_dtype": "fp32"},
            },
            "optim",
            {"zero_optimization.stage"},
        ),
        (
            "--fp16",
            {"fp16": {"enabled": True}, "zero_optimization": {"stage": 1}},
            "optim",
            {"zero_optimization.stage"},
        ),
        (
            "--fp16",
            {"fp16": {"enabled": True}, "zero_optimization": {"stage": 2}},
            "optim",
            {"zero_optimization.stage", "--deepspeed"},
        ),
    ],
)
def test_deepspeeds_engine_shares_out_what_its_config_says(
    words: str, config: dict[str, object], sharing: str, bounded: set[str]
) -> None:
    config = {"zero_optimization": {"stage": 0}} | config
    found = read(f"{words} --deepspeed --deepspeed_config ds.json", {"ds.json": json.dumps(config)})
    assert found.field(SHARING) == sharing
    assert found.bounded == bounded
    assert not found.unsupported


def test_gradients_of_zero_have_the_type_of_the_weights() -> None:
    found = read("--bf16 --deepspeed --zero-stage 1")
    assert found.field("/training/precision") == {"gradients": "bf16", "main_params": "fp32"}


def test_weights_that_zero_shares_out_are_not_modelled() -> None:
    assert "--zero-stage" in read("--bf16 --deepspeed --zero-stage 3").unsupported


def test_roots_of_moments_that_are_logged_are_bounded() -> None:
    """Of the embedding, and of all 1.3 billion parameters that 8 ranks share as one tensor."""
    whole, shared = (
        [
            each.bytes
            for each in read(f"--bf16 {zero} --log-optimizer-states-to-tensorboard").account.bounded
            if "log" in each.key
        ]
        for zero in ("", "--deepspeed --zero-stage 1")
    )
    assert whole == [4 * 50257 * 2048]
    assert 4 * 1.3e9 / 8 < sum(shared) < 1.5 * 4 * 1.3e9 / 8


def test_the_config_of_deepspeed_has_to_be_sent() -> None:
    with pytest.raises(LaunchError, match="send that file too"):
        read("--bf16 --deepspeed --deepspeed_config ds.json")


def test_the_config_of_deepspeed_is_known_by_its_last_name() -> None:
    script = (
        "script=$(realpath $0)\ndirectory=$(dirname $script)\nDS=$directory/ds.json\n"
        f"torchrun --nproc_per_node 8 {SMALL} --bf16 --deepspeed "
        "--deepspeed_config $DS"
    )
    config = {"zero_optimization": {"stage": 1}, "bf16": {"enabled": True}}
    found = read_files(launch_of({"run.sh": script, "a/ds.json": json.dumps(config)}))
    assert found.field(SHARING) == "optim"
    with pytest.raises(LaunchError, match="is not known"):
        read_files(launch_of({"run.sh": script, "a/other.json": json.dumps(config)}))


def test_arguments_of_a_checkpoint_are_the_models_where_that_is_named() -> None:
    words = "--bf16 --use-checkpoint-args --load llama"
    assert read(words).unsupported == {"--use-checkpoint-args"}
    command = f"torchrun --nproc_per_node 8 {SMALL} {words}".split()
    model = {"model": {"hf_id": "meta-llama/Llama-2-7b-hf"}}
    found = read_files(launch_of(argv=command, overrides=model))
    assert not found.unsupported
    assert found.job["model"] == model["model"]


TEMPLATE = """{
 "zero_optimization": {"stage": ZERO_STAGE},
 "fp16": {"enabled": true},
 "curriculum_learning": {
  "enabled": CL_ENABLED, "curriculum_type": "seqlen", "min_difficulty": 80, "max_difficulty": CL_MAX
 }
}
"""


@pytest.mark.parametrize(
    ("enabled", "longest", "bounded"),
    [("false", 64, set()), ("true", 2048, set()), ("true", 1024, {"max_difficulty"})],
)
def test_a_config_of_deepspeed_is_made_from_a_template(
    enabled: str, longest: int, bounded: set[str]
) -> None:
    script = (
        f"STAGE=1\nsed 's/ZERO_STAGE/'$STAGE/ t.json | sed -e s/CL_ENABLED/{enabled}/ "
        f'-e "s/CL_MAX/{longest}/" > ds_$STAGE.json\n'
        f"deepspeed --num_gpus 8 {SMALL} --fp16 --deepspeed --deepspeed_config ds_$STAGE.json"
    )
    found = read_files(launch_of({"run.sh": script, "t.json": TEMPLATE}))
    assert found.field(SHARING) == "optim"
    assert not found.unsupported
    told = {each.rpartition(".")[2] for each in found.bounded if "curriculum" in each}
    assert told == bounded
    stage = next(each for each in found.account.bounded if each.key.endswith("stage"))
    assert (stage.file, stage.line) == ("t.json", 2)
    with pytest.raises(LaunchError, match=r"t\.json is read here and was not sent"):
        read_files(launch_of({"run.sh": script}))


def test_one_expert_of_deepspeed_is_none() -> None:
    words = "--moe-expert-parallel-size 1 --moe-loss-coeff 0.01 --topk 1 --mlp-type residual"
    dense = read(f"--fp16 --deepspeed --num-experts 1 {words}")
    assert dense.job == read("--fp16 --deepspeed").job
    assert not dense.unsupported
    sparse = read(f"--fp16 --deepspeed --num-experts 64 {words}")
    assert {"--num-experts", "--topk", "--mlp-type"} <= sparse.unsupported


def test_a_third_moment_only_raises_the_peak() -> None:
    words = "--bf16 --optimizer ademamix --ademamix-alpha 8 --ademamix-beta3 0.9999 --xielu"
    found = read(f"{words} --qknorm-impl apex --goldfish-loss --goldfish-k 50 --trigger-path t")
    raising = {each.key: each.direction for each in found.account.unsupported}
    assert raising == {"--optimizer": "raises", "--xielu": "raises"}
    assert found.field("/training/optimizer/name") in (None, "adam")
