"""Command lines of Megatron-LM, split and read as its own parser takes them."""

from __future__ import annotations

import re

import pytest

from tests.launch.megatron.command_lines import SMALL, became, launch_of, read, unsupported
from trainfit.launch.errors import LaunchError
from trainfit.launch.read import read_launch
from trainfit.specs.launch import Launch


def test_a_command_line_is_a_job_with_an_account_of_every_word() -> None:
    reading = read(f"{SMALL} --swiglu --sequence-parallel --lr 1e-4 --no-rope-fusion")
    account = reading.launch.account
    assert reading.job["model"]["spec"]["swiglu"] is True
    assert reading.job["parallelism"]["num_gpus"] == 8
    assert became(reading, "--swiglu") == {"/model/spec/swiglu": True}
    assert {each.key for each in account.irrelevant} == {"--lr", "--no-rope-fusion"}
    assert not account.unsupported


@pytest.mark.parametrize("words", ["--seq-length=512", "--seq-length 512"])
def test_a_value_follows_an_option_or_an_equals_sign(words: str) -> None:
    assert read(f"{SMALL} {words}").job["training"]["seq_length"] == 512


def test_the_last_of_two_counts() -> None:
    reading = read(f"{SMALL} --seq-length 256")
    assert reading.job["training"]["seq_length"] == 256
    assert [each.key for each in reading.launch.account.irrelevant] == ["--seq-length"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--seq-length", "--seq-length: takes a value"),
        ("--seq-length many", "--seq-length: must be a whole number, not 'many'"),
        ("--lr nan", "--lr: must be a number, not 'nan'"),
        ("--swiglu=true", "--swiglu: takes no value"),
        ("--attention-backend quick", "--attention-backend: must be one of flash, fused"),
        ("--no-position-embedding", "--no-position-embedding: goes with rotary positions only"),
        ("--num-experts 4 --moe-layer-freq __import__('os')", "--moe-layer-freq: must be a number"),
        ("--step-batch-size-schedule often", "--step-batch-size-schedule: must be starts"),
    ],
)
def test_what_its_parser_would_not_take_is_an_error(words: str, complaint: str) -> None:
    with pytest.raises(LaunchError, match=complaint):
        read(f"{SMALL} {words}")


@pytest.mark.parametrize(
    ("words", "key", "why"),
    [
        ("--seq-len 512", "--seq-len", "no release .* --seq-length is one"),
        ("stray", "stray", "belongs to no option"),
        ("-x", "-x", "belongs to no option"),
        ("--swiglu yes", "yes", "belongs to no option"),
        ("--hybrid-layer-pattern MG", "--hybrid-layer-pattern", "gated delta nets"),
        ("--external-cuda-graph", "--external-cuda-graph", "CUDA graphs"),
        ("--optimizer soap", "--optimizer", "is not modelled: must be 'adam'"),
        ("--recompute-modules mhc", "--recompute-modules", "recompute of mhc"),
        ("--cp-comm-type p2p a2a", "--cp-comm-type", "several ways"),
    ],
)
def test_what_is_not_modelled_or_known_is_unsupported(words: str, key: str, why: str) -> None:
    told = unsupported(read(f"{SMALL} {words}"))
    assert set(told) == {key}
    assert re.search(why, told[key])


@pytest.mark.parametrize(
    "words", ["--cuda-graph-impl none", "--outer-dp-sharding-strategy no_shard"]
)
def test_what_is_not_modelled_changes_nothing_at_its_default(words: str) -> None:
    assert not unsupported(read(f"{SMALL} {words}"))


@pytest.mark.parametrize(
    ("version", "words", "why"),
    [
        ("core_v0.9.0", "--moe-router-dtype fp32", "came with core_v0.12.0"),
        ("core_v0.17.0", "--pipeline-model-parallel-split-rank 1", "went after core_v0.13.0"),
    ],
)
def test_a_release_has_its_own_options(version: str, words: str, why: str) -> None:
    assert why in unsupported(read(f"{SMALL} {words}", version)).values()


def test_old_releases_have_other_layers_unless_told_so() -> None:
    told = unsupported(read(SMALL, "core_v0.6.0"))
    assert told.keys() == {"--use-mcore-models"}
    assert "without it Megatron-LM core_v0.6.0 trains its own layers" in told["--use-mcore-models"]
    reading = read(f"{SMALL} --use-mcore-models", "core_v0.6.0")
    assert not unsupported(reading)
    assert became(reading, "--use-mcore-models") == {}
    assert not unsupported(read(SMALL, "core_v0.8.0"))


@pytest.mark.parametrize(
    ("version", "strategy"),
    [("core_v0.13.1", "no_shard"), ("0.19", "optim_grads_params"), (None, "optim_grads_params")],
)
def test_a_release_has_its_own_defaults(version: str | None, strategy: str) -> None:
    job = read(f"{SMALL} --use-megatron-fsdp", version).job
    assert job["parallelism"]["data_parallel_sharding_strategy"] == strategy


@pytest.mark.parametrize(
    ("version", "laid_out"),
    [("core_v0.17.1", False), ("core_v0.18.0", None), (None, None)],
)
def test_muon_was_dealt_whole_parameters_before_buffers_were_laid_out(
    version: str | None, laid_out: bool | None
) -> None:
    job = read(f"{SMALL} --optimizer dist_muon", version).job
    assert job["framework"].get("use_layer_wise_param_layout") is laid_out
    assert job["parallelism"]["data_parallel_sharding_strategy"] == "optim"


def test_a_release_that_is_not_known_is_an_error() -> None:
    with pytest.raises(LaunchError, match="framework_version: 'v9' is no release"):
        read(SMALL, "v9")


def test_what_a_tokenizer_decides_is_demanded() -> None:
    without = SMALL.replace("--vocab-size 32000", "--tokenizer-type GPTSentencePieceTokenizer")
    with pytest.raises(LaunchError, match="the size of the vocabulary is the tokenizer's"):
        read(without)


@pytest.mark.parametrize(("version", "rows"), [("core_v0.17.0", 32001), ("core_v0.18.0", 32000)])
def test_a_null_tokenizer_counted_the_end_of_a_document(version: str, rows: int) -> None:
    job = read(f"{SMALL} --tokenizer-type NullTokenizer", version).job
    assert job["model"]["spec"]["vocab_size"] == rows


def test_the_number_of_gpus_is_demanded() -> None:
    with pytest.raises(LaunchError, match="the number of GPUs is not in what was sent"):
        read_launch(Launch(argv=("pretrain_gpt.py", *SMALL.split())))
    with pytest.raises(LaunchError, match="WORLD_SIZE: must be a number of GPUs, not 'all'"):
        read(SMALL, WORLD_SIZE="all")


def test_a_program_that_trains_another_kind_of_model_is_refused() -> None:
    with pytest.raises(LaunchError, match=r"pretrain_t5\.py trains an encoder and a decoder"):
        read_launch(Launch(argv=("pretrain_t5.py", *SMALL.split())))


def test_the_environment_of_a_rank_is_read() -> None:
    reading = read(
        SMALL,
        PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True",
        NVTE_FLASH_ATTN="0",
        NCCL_BUFFSIZE="8388608",
        NCCL_IB_TIMEOUT="19",
        NVTE_SOMETHING="1",
        HOME="/root",
    )
    assert reading.job["framework"]["expandable_segments"] is True
    assert became(reading, "NVTE_FLASH_ATTN") == {"/training/attention/backend": "fused"}
    assert set(unsupported(reading)) == {"NCCL_BUFFSIZE", "NVTE_SOMETHING"}
    assert [each.key for each in reading.launch.account.irrelevant] == ["NCCL_IB_TIMEOUT"]


def test_an_argument_counts_before_the_environment() -> None:
    job = read(f"{SMALL} --attention-backend unfused", NVTE_FLASH_ATTN="0").job
    assert job["training"]["attention"]["backend"] == "unfused"


def test_overrides_may_name_a_model_of_the_hub_in_the_place_of_dimensions() -> None:
    words = SMALL.replace("--vocab-size 32000", "--num-experts 8 --moe-grouped-gemm")
    launch = launch_of(words).model_copy(
        update={"overrides": {"model": {"hf_id": "Qwen/Qwen3-30B-A3B"}}}
    )
    reading = read_launch(launch)
    assert reading.job["model"] == {"hf_id": "Qwen/Qwen3-30B-A3B"}
    assert reading.job["training"]["moe"]["grouped_gemm"] is True
    assert not unsupported(reading)
    assert "--hidden-size" in {each.key for each in reading.launch.account.irrelevant}


def test_what_a_key_keeps_secret_is_not_repeated() -> None:
    account = read(f"{SMALL} --hf-token hf_abc --hub-api-key abc --seq-len 1").launch.account
    assert {each.key: each.value for each in account.unsupported} == {
        "--hf-token": None,
        "--hub-api-key": None,
        "--seq-len": "1",
    }


def test_fp8_is_between_weights_of_fp32_where_bf16_is_not_asked_for() -> None:
    alone = SMALL.removesuffix("--bf16") + "--fp8-format hybrid"
    found = read(alone)
    assert not unsupported(found)
    precision = found.job["training"]["precision"]
    assert (precision["params"], precision["compute"], precision["gradients"]) == ("fp32",) * 3
    assert precision["fp8_recipe"]
    for held in ("--bf16", "--fp16"):
        assert not unsupported(read(f"{alone} {held}"))


@pytest.mark.parametrize(
    ("words", "layers"),
    [
        ("", (None, None)),
        ("--num-layers-at-end-in-bf16 2", (None, None)),
        ("--first-last-layers-bf16", (1, 1)),
        ("--first-last-layers-bf16 --num-layers-at-end-in-bf16 2", (1, 2)),
    ],
)
def test_first_and_last_layers_in_bf16(words: str, layers: tuple[int | None, ...]) -> None:
    found = read(f"{SMALL} --fp8-format hybrid --fp8-recipe blockwise {words}")
    assert not unsupported(found)
    precision = found.job["training"]["precision"]
    names = ("num_layers_at_start_in_bf16", "num_layers_at_end_in_bf16")
    assert tuple([precision.get(name) for name in names]) == layers


@pytest.mark.parametrize(
    ("dataset", "length"),
    [("MMAP", 1024), ("LLama-Pretrain-Idxmap", 1024), ("JSON-SFT", 384), ("LLama-SFT-Raw", 384)],
)
def test_options_that_pai_megatron_patch_adds(dataset: str, length: int) -> None:
    own = "--patch-tokenizer-type Qwen3Tokenizer --train-mode finetune --extra-vocab-size 293"
    found = read(f"{SMALL} {own} --dataset {dataset} --max-padding-length 384")
    assert not unsupported(found)
    assert found.job["training"]["seq_length"] == length
    assert found.job["framework"]["make_vocab_size_divisible_by"] == 1


@pytest.mark.parametrize(
    "words",
    [
        "--tokenizer-type Qwen2Tokenizer",
        "--lr-wsd-decay-style inverse-square",
        "--rotary-base 1000000.0",
        "--train-tokens 300000000000",
    ],
)
def test_a_value_that_only_forks_take_changes_nothing_where_it_cannot_matter(words: str) -> None:
    found = read(f"{SMALL} {words}")
    assert found.job == read(SMALL).job
    assert words.split()[0] in {each.key for each in found.launch.account.irrelevant}
    assert not found.launch.account.unsupported


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        ("--cuda-graph-impl local", {"cuda_graph_impl": "local"}),
        (
            "--cuda-graph-impl transformer_engine --cuda-graph-scope attn moe_router",
            {"cuda_graph_impl": "transformer_engine", "cuda_graph_scope": ["attn", "moe_router"]},
        ),
        (
            "--cuda-graph-impl local --cuda-graph-scope full_iteration",
            {"cuda_graph_impl": "full_iteration"},
        ),
        (
            "--cuda-graph-impl transformer_engine --cuda-graph-warmup-steps 0",
            {"cuda_graph_impl": "transformer_engine", "cuda_graph_warmup_steps": 0},
        ),
        ("--cuda-graph-impl none --cuda-graph-scope attn --cuda-graph-warmup-steps 0", {}),
        ("--cpu-offloading-num-layers 1", {"cpu_offloading_num_layers": 1}),
    ],
)
def test_graphs_and_layers_on_the_host(words: str, fields: dict[str, object]) -> None:
    reading = read(f"{SMALL} {words}")
    told = reading.job["framework"]
    names = (
        "cuda_graph_impl",
        "cuda_graph_scope",
        "cuda_graph_warmup_steps",
        "cpu_offloading_num_layers",
    )
    assert {name: told[name] for name in names if name in told} == fields
    assert not unsupported(reading)


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        ("--fp4-format e2m1 --fp4-param-gather", {"fp4_recipe": "nvfp4", "fp4_param_gather": True}),
        (
            "--fp8-format e4m3 --fp8-recipe mxfp8 --fp8-param-gather",
            {"fp8_recipe": "mxfp8", "reuse_grad_buf_for_mxfp8_param_ag": False},
        ),
        (
            "--fp8-format e4m3 --fp8-recipe mxfp8 --fp8-param-gather --fp8-output-proj "
            "--reuse-grad-buf-for-mxfp8-param-ag",
            {"reuse_grad_buf_for_mxfp8_param_ag": True, "fp8_output_proj": True},
        ),
    ],
)
def test_what_is_in_eight_or_four_bits(words: str, fields: dict[str, object]) -> None:
    reading = read(f"{SMALL} --bf16 --use-distributed-optimizer {words}")
    told = reading.job["training"]["precision"]
    assert {name: told[name] for name in fields} == fields
    assert not unsupported(reading)


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        ("--optimizer muon --muon-nesterov", {"muon_nesterov": True}),
        (
            "--optimizer dist_muon --muon-use-nesterov --muon-tp-mode distributed",
            {"muon_nesterov": True, "muon_tp_mode": "distributed"},
        ),
        ("--optimizer adam --muon-nesterov --muon-tp-mode duplicated", {}),
    ],
)
def test_how_muon_orthogonalises(words: str, fields: dict[str, object]) -> None:
    reading = read(f"{SMALL} {words}")
    told = reading.job["training"]["optimizer"]
    assert {name: told[name] for name in fields} == fields
    assert "adam" not in words or told == {"name": "adam"}
    assert not unsupported(reading)


@pytest.mark.parametrize(
    ("words", "length", "left_out"),
    [
        ("--hybrid-context-parallel --max-seqlen-per-dp-cp-rank 256 --sft", 2 * 256, set()),
        ("--hybrid-context-parallel --max-seqlen-per-dp-cp-rank 8192", 2 * 1024, set()),
        ("--hybrid-context-parallel", 1024, {"--hybrid-context-parallel"}),
        ("--max-seqlen-per-dp-cp-rank 256 --sft", 1024, {"--sft"}),
        (
            "--hybrid-context-parallel --max-seqlen-per-dp-cp-rank 256 "
            "--pipeline-model-parallel-size 2",
            1024,
            {"--hybrid-context-parallel"},
        ),
    ],
)
def test_ranks_share_each_sample_as_far_as_it_needs(
    words: str, length: int, left_out: set[str]
) -> None:
    """Of one sample at a time none has more tokens than it is given at most."""
    reading = read(f"{SMALL} --seq-length 1024 --context-parallel-size 2 {words}")
    assert reading.job["training"]["seq_length"] == length
    assert set(unsupported(reading)) == left_out


def test_room_on_a_rank_and_its_stash() -> None:
    reading = read(
        f"{SMALL} --num-experts 8 --moe-token-dispatcher-type flex "
        "--moe-flex-dispatcher-backend hybridep --moe-expert-rank-capacity-factor 1.5 "
        "--moe-paged-stash --moe-router-padding-for-quantization "
        "--moe-router-force-load-balancing"
    )
    told = reading.job["training"]["moe"]
    assert told["expert_rank_capacity_factor"] == 1.5
    assert told["paged_stash"] is told["router_force_load_balancing"] is True
    assert told["router_padding_for_quantization"] is True


OFFLOADED = f"{SMALL} --bf16 --use-distributed-optimizer --use-precision-aware-optimizer"


def test_copies_of_what_is_offloaded_may_have_streams_of_their_own() -> None:
    overlap = "--overlap-cpu-optimizer-d2h-h2d"
    reading = read(f"{OFFLOADED} --optimizer-cpu-offload {overlap}")
    (told,) = reading.launch.account.bounded
    # a temporary in fp32 on each of two streams, at most of the embedding
    assert (told.key, told.direction, told.bytes) == (overlap, "raises", 2 * 4 * 32000 * 512)
    alone = read(f"{OFFLOADED} {overlap}")
    assert not alone.launch.account.bounded
    assert not unsupported(alone)
