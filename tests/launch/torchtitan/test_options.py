"""torchtitan's options: their grammar, what they override, what they decide together."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from tests.launch.launches import DATA, Read, launch_of, read
from trainfit.launch.errors import LaunchError
from trainfit.launch.torchtitan.flavors import FLAVORS
from trainfit.launch.torchtitan.releases import RELEASES, TorchtitanRelease
from trainfit.questions.estimate import plan_of
from trainfit.specs.framework import Torchtitan
from trainfit.specs.job import Job

TRAIN = "torchtitan.train"
GPUS = {"parallelism": {"num_gpus": 8}}
FILE = "llama3_8b_2024.toml"
POINTS = "pipeline_parallel_split_points"
LEGACY = [release for release in RELEASES if not release.python]


def options(*words: str, **others: Any) -> Read:
    return read(launch_of(argv=[TRAIN, *words], **({"overrides": GPUS} | others)))


def refused(*words: str, **others: Any) -> str:
    with pytest.raises(LaunchError) as raised:
        options(*words, **others)
    return str(raised.value)


def with_file(*words: str) -> Read:
    text = (DATA / "torchtitan" / FILE).read_text("utf-8")
    argv = [TRAIN, "--job.config_file", f"conf/{FILE}", *words]
    return read(launch_of({f"conf/{FILE}": text}, argv, overrides=GPUS))


@pytest.mark.parametrize(
    "words",
    [
        ("--training.seq-len", "4096"),
        ("--training.seq_len=4096",),
        ("--training.seq_len", "1", "--training.seq_len", "4096"),
    ],
)
def test_an_option_is_spelled_in_several_ways(words: tuple[str, ...]) -> None:
    assert options(*words).field("/training/seq_length") == 4096


@pytest.mark.parametrize(
    ("word", "compiled"), [("--compile.enable", True), ("--compile.no-enable", False)]
)
def test_a_flag_has_no_value(word: str, compiled: bool) -> None:
    assert options(word).field("/framework/compile") is compiled


def test_lists_are_written_with_commas_or_spaces() -> None:
    for words in (("model,loss",), ("model", "loss")):
        found = options("--compile.enable", "--compile.components", *words)
        assert found.field("/framework/compile") is True
        assert "compile.components" not in found.unsupported


def test_an_option_counts_before_the_file() -> None:
    found = with_file("--training.batch_size", "4")
    assert found.field("/training/micro_batch_size") == 4
    assert [each.key for each in found.account.irrelevant].count("training.batch_size") == 1


def test_a_file_that_was_not_sent_is_demanded() -> None:
    message = refused("--job.config_file", "train_configs/llama3_8b.toml")
    assert message == (
        "argv: job.config_file: the file train_configs/llama3_8b.toml was not sent; send it"
    )


def test_a_word_without_an_option_is_refused() -> None:
    assert "'4096' is neither an option" in refused("4096")


def test_two_names_of_one_key_are_refused() -> None:
    text = "[training]\nbatch_size = 1\nlocal_batch_size = 2\n[job]\n"
    with pytest.raises(LaunchError, match=r"x.toml:3: .* says the same as training.batch_size"):
        read(launch_of({"x.toml": text}, overrides=GPUS))


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_every_key_of_a_release_stands_in_a_list(release: TorchtitanRelease) -> None:
    """Whatever its value; one that cannot be it is complained of."""
    others = {"job.config_file", "module", "config"}
    launched = python if release.python else partial(options, framework_version=release.name)
    first = (release.name,) if release.python else ()
    for key in sorted(release.keys - others):
        try:
            found = launched(*first, f"--{key}=1")
        except LaunchError as error:
            assert f"argv: {key}: " in str(error)  # noqa: PT017
            continue
        said = {each.key: each.why for each in found.account.unsupported}
        assert "no list" not in said.get(key, ""), key
        assert key in found.recognised | found.irrelevant | found.unsupported


def python(version: str, *words: str, num_gpus: int = 8) -> Read:
    """A launch over a Python config that says everything that has to be said."""
    batch = (
        ("--training.local_batch_size", "2", "--training.seq_len", "8192")
        if version == "2026-06"
        else (
            "--training.num_tokens_per_microbatch_per_dp_rank=16384",
            "--training.max_context_length=8192",
            "--training.disable_cuda_graphs",
        )
    )
    mode = (
        ("--activation_checkpoint.mode", "full")
        if version == "2026-06"
        else ("activation-checkpoint:full",)
    )
    return options(
        "--module",
        "llama3",
        "--config",
        "llama3_8b",
        *batch,
        "--training.dtype",
        "float32",
        "--training.mixed_precision_param=bfloat16",
        "--training.no-enable_cpu_offload",
        "--parallelism.data_parallel_replicate_degree=1",
        "--parallelism.data_parallel_shard_degree=-1",
        "--parallelism.fsdp_reshard_after_forward=default",
        "--parallelism.tensor_parallel_degree=1",
        "--parallelism.context_parallel_degree=1",
        "--parallelism.pipeline_parallel_degree=1",
        "--parallelism.expert_parallel_degree=1",
        *mode,
        "--compile.enable",
        *words,
        overrides={
            "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
            "training": {"loss": {"cross_entropy": "chunked"}, "optimizer": {"name": "adam"}},
            "parallelism": {"num_gpus": num_gpus},
        },
    )


@pytest.mark.parametrize(
    ("version", "again"),
    [("2025-03", "never"), ("2025-08", "on-blackwell"), ("v0.2.0", "always"), ("v0.2.1", "never")],
)
def test_a_release_may_not_keep_what_attention_makes(version: str, again: str) -> None:
    (release,) = [each for each in RELEASES if each.name == version]
    assert release.remakes_attention == again


@pytest.mark.parametrize("version", ["2026-06", "2026-08"])
def test_options_over_a_python_config_make_a_job(version: str) -> None:
    found = python(version)
    job = Job.model_validate(found.job)
    assert (job.training.micro_batch_size, job.training.seq_length) == (2, 8192)
    assert job.training.recompute.granularity == "full"
    assert isinstance(job.framework, Torchtitan)
    assert job.framework.fuse_qkv == (version == "2026-08")
    assert not found.unsupported


def test_a_python_config_is_not_run() -> None:
    message = refused("--module", "llama3", "--config", "llama3_8b")
    assert message.startswith("argv: config: the Python function llama3_8b is not run; give")
    assert "--training.num_tokens_per_microbatch_per_dp_rank" in message
    assert "in overrides model, training.loss, training.optimizer" in message


def test_tokens_that_no_sequence_divides_are_one_sequence() -> None:
    found = python("2026-08", "--training.max_context_length=5000")
    assert found.field("/training/seq_length") == 16384
    assert found.field("/training/micro_batch_size") == 1


def test_a_key_that_a_release_has_not_is_left_out() -> None:
    found = options("--training.batch_size=4", framework_version="0.2.2")
    assert found.account.unsupported[0].why == "torchtitan v0.2.2 has no such key"
    assert found.field("/training/micro_batch_size") == 8


def test_a_release_that_is_not_known_is_refused() -> None:
    assert "of torchtitan 2024-12, 2025-03, v0.1.0" in refused(framework_version="v9")


def test_the_number_of_gpus_is_demanded() -> None:
    assert "/parallelism/num_gpus in overrides" in refused(overrides={})


def test_degrees_make_the_number_of_gpus() -> None:
    found = options(
        "--parallelism.data_parallel_shard_degree=4",
        "--parallelism.tensor_parallel_degree=2",
        overrides={},
    )
    assert found.field("/parallelism/num_gpus") == 8


def test_degrees_that_make_another_number_of_gpus_are_refused() -> None:
    message = refused("--parallelism.data_parallel_shard_degree=3")
    assert "the degrees make 3 GPUs, the launch has 8" in message


def test_torchtitans_script_starts_eight_gpus() -> None:
    words = ["./run_train.sh", "--training.steps", "10"]
    text = (DATA / "torchtitan" / FILE).read_text("utf-8")
    environment = {"CONFIG_FILE": FILE}
    found = read(launch_of({FILE: text}, words, env=environment))
    assert found.defaulted["/parallelism/num_gpus"] == 8
    found = read(launch_of({FILE: text}, words, env=environment | {"NGPU": "4"}))
    assert found.field("/parallelism/num_gpus") == 4


@pytest.mark.parametrize(
    ("version", "grows"), [("v0.1.0", True), ("2025-08", True), ("v0.2.0", False), ("v0.2.2", True)]
)
def test_what_its_script_asks_of_the_allocator_may_go_unheard(version: str, grows: bool) -> None:
    text = (DATA / "torchtitan" / FILE).read_text("utf-8")
    launch = {"env": {"CONFIG_FILE": FILE}, "framework_version": version}
    found = read(launch_of({FILE: text}, ["./run_train.sh"], **launch))
    assert found.field("/framework/expandable_segments") is grows
    environment = {"CONFIG_FILE": FILE, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    heard = read(launch_of({FILE: text}, ["./run_train.sh"], **(launch | {"env": environment})))
    assert heard.field("/framework/expandable_segments") is True


def test_replicas_alone_are_ddp() -> None:
    found = options(
        "--parallelism.data_parallel_replicate_degree=8",
        "--parallelism.data_parallel_shard_degree=1",
    )
    assert found.field("/parallelism/data_parallel_sharding_strategy") == "no_shard"
    assert found.field("/training/precision/compute") == "bf16"


STRATEGY = "/parallelism/data_parallel_sharding_strategy"
ALONE = (
    "--parallelism.data_parallel_shard_degree=1",
    "--parallelism.data_parallel_replicate_degree",
)


@pytest.mark.parametrize(("version", "multiplied"), [("2025-03", "fp32"), ("v0.1.0", "bf16")])
@pytest.mark.parametrize("replicas", [1, 8])
def test_autocast_narrows_where_nothing_is_shared_out_since_a_release(
    version: str, multiplied: str, replicas: int
) -> None:
    words = (ALONE[0], f"{ALONE[1]}={replicas}")
    gpus = {"parallelism": {"num_gpus": replicas}}
    found = options(*words, framework_version=version, overrides=gpus)
    assert found.field(STRATEGY) == "no_shard"
    assert found.field("/training/precision/compute") == multiplied


@pytest.mark.parametrize("version", ["2026-06", "2026-08"])
@pytest.mark.parametrize("replicas", [1, 8])
def test_after_v0_2_fsdp_narrows_even_what_one_rank_has_whole(version: str, replicas: int) -> None:
    words = (ALONE[0], f"{ALONE[1]}={replicas}")
    found = python(version, *words, num_gpus=replicas)
    assert found.field(STRATEGY) == "optim_grads_params"
    plan = plan_of(Job.model_validate(found.job))
    assert plan.layout.sharding == "optim_grads_params"
    assert plan.layout.dp == replicas


def test_ddp_beside_tensor_parallelism_is_refused() -> None:
    message = refused(
        "--parallelism.data_parallel_replicate_degree=4",
        "--parallelism.data_parallel_shard_degree=1",
        "--parallelism.tensor_parallel_degree=2",
    )
    assert "DDP runs beside no other parallelism" in message


def test_tensor_parallelism_alone_narrows_nothing() -> None:
    found = options("--parallelism.tensor_parallel_degree=8")
    assert found.field("/training/precision/compute") == "fp32"


@pytest.mark.parametrize(
    ("version", "option", "layout"),
    [
        ("2024-12", "experimental.pipeline_parallel_schedule=1F1B", "Et*2|t*2|t*2|t*2L"),
        ("2024-12", f"experimental.{POINTS}=layers.3,layers.4,layers.5", "Et*3|t*1|t*1|t*3L"),
        ("v0.1.0", f"parallelism.{POINTS}=layers.1,layers.2,layers.5", "Et*1|t*1|t*3|t*1L"),
        ("v0.2.2", "parallelism.pipeline_parallel_schedule=1F1B", None),
        ("v0.2.2", "parallelism.pipeline_parallel_first_stage_less_layers=0", "Et*2|t*2|t*2|L"),
        ("v0.2.2", "parallelism.pipeline_parallel_layers_per_stage=2", "Et*1|t*2|t*2|t*1L"),
    ],
)
def test_layers_are_split_as_the_release_splits_them(
    version: str, option: str, layout: str | None
) -> None:
    """Debug models have 8 layers, later 6; the service itself splits as the default is today."""
    section = option.partition(".")[0]
    found = options(
        f"--{section}.pipeline_parallel_degree=4", f"--{option}", framework_version=version
    )
    assert found.field("/parallelism/pipeline_model_parallel_layout") == layout
    assert plan_of(Job.model_validate(found.job)).layout.pipeline.pp == 4


def test_modules_of_stages_are_counted() -> None:
    text = """
        [training]
        [parallelism]
        pipeline_parallel_degree = 2
        module_fqns_per_model_part = [
            ["tok_embeddings", "layers.0", "layers.1"],
            ["layers.2", "layers.3", "layers.4", "layers.5", "norm", "output"],
        ]
    """
    found = read(launch_of({"x.toml": text}, overrides=GPUS))
    assert found.field("/parallelism/pipeline_model_parallel_layout") == "Et*2|t*4L"


def test_points_that_are_not_in_order_are_refused() -> None:
    message = refused(
        "--parallelism.pipeline_parallel_degree=4",
        "--parallelism.pipeline_parallel_split_points=layers.4,layers.2,layers.5",
        framework_version="v0.1.0",
    )
    assert "the layers are not split over stages: the points are not in order" in message


@pytest.mark.parametrize(
    ("schedule", "expected", "chunks"),
    [
        ("1F1B", "1f1b", None),
        ("GPipe", "gpipe", None),
        ("Interleaved1F1B", "interleaved", 2),
        ("LoopedBFS", "looped-bfs", 2),
        ("InterleavedZeroBubble", "interleaved-zb", 2),
        ("interleavedzerobubble", "interleaved-zb", 2),
        ("ZBVZeroBubble", "zb-v", 2),
        ("DualPipeV", "dualpipe-v", 2),
    ],
)
def test_schedules_have_the_stages_that_torchtitan_gives_them(
    schedule: str, expected: str, chunks: int | None
) -> None:
    found = options(
        "--parallelism.pipeline_parallel_degree=2",
        f"--parallelism.pipeline_parallel_schedule={schedule}",
    )
    assert found.field("/parallelism/pipeline_schedule") == expected
    assert found.field("/parallelism/vpp") == chunks
    assert found.field("/training/num_microbatches") == 8


def test_a_schedule_that_is_not_modelled_is_unsupported() -> None:
    found = options(
        "--parallelism.pipeline_parallel_degree=2",
        "--parallelism.pipeline_parallel_schedule=PipelineScheduleMulti",
    )
    assert found.unsupported == {"parallelism.pipeline_parallel_schedule"}


def test_accumulation_beside_a_pipeline_is_unsupported() -> None:
    degree = "--parallelism.pipeline_parallel_degree=2"
    assert not options(degree, "--training.global_batch_size=32").unsupported
    assert options(degree, "--training.global_batch_size=64").unsupported == {
        "training.global_batch_size"
    }


def test_validation_matters_where_it_reads_more_than_training() -> None:
    found = options("--validation.enable", "--training.seq_len=2048")
    assert not found.unsupported
    found = options("--validation.enable", "--training.seq_len=1024")
    assert "validation.enable" in found.unsupported


@pytest.mark.parametrize(
    ("words", "granularity", "every"),
    [
        (("mode=none",), None, None),
        (("mode=full",), "full", None),
        (("mode=selective", "selective_ac_option=op"), "selective", None),
        (("mode=selective", "selective_ac_option=3"), "full", 3),
    ],
)
def test_recompute(words: tuple[str, ...], granularity: str | None, every: int | None) -> None:
    found = options(*(f"--activation_checkpoint.{word}" for word in words))
    assert found.field("/training/recompute/granularity") == granularity
    assert found.field("/training/recompute/every_nth_layer") == every


def test_a_budget_of_memory_is_unsupported() -> None:
    found = options("--activation_checkpoint.mode=memory_budget")
    assert found.unsupported == {"activation_checkpoint.mode"}


def test_segments_grow_where_the_environment_says_so() -> None:
    assert options().field("/framework/expandable_segments") is False
    grown = options(env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
    assert grown.field("/framework/expandable_segments") is True


def test_a_flavour_that_is_not_known_is_asked_for() -> None:
    assert "describe /model in overrides" in refused("--model.flavor=3B")
    described = {"model": {"hf_id": "meta-llama/Llama-3.2-3B"}}
    found = options("--model.flavor=3B", overrides=GPUS | described)
    assert found.field("/model") == {"hf_id": "meta-llama/Llama-3.2-3B"}


FLAVOURS = [
    (name, flavor, release.name)
    for name, flavors in FLAVORS.items()
    for flavor, known in flavors.items()
    for release in LEGACY
    if any(
        LEGACY.index(release) >= [each.name for each in LEGACY].index(each.since)
        and (each.until is None or each.until == release.name)
        for each in known
    )
]


@pytest.mark.parametrize(("name", "flavor", "version"), FLAVOURS)
def test_every_flavour_is_a_model(name: str, flavor: str, version: str) -> None:
    found = options("--model.name", name, "--model.flavor", flavor, framework_version=version)
    plan = plan_of(Job.model_validate(found.job))
    listed = FLAVORS[name][flavor]
    assert plan.model.num_layers in {each.num_layers for each in listed}


ODD = ("[]", "{}", "true", "1.5", '"x"', "-1", "[[1], {a = 2}]")


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("release", [LEGACY[0], LEGACY[-1]], ids=lambda release: release.name)
def test_a_value_of_another_kind_breaks_nothing(release: TorchtitanRelease, value: str) -> None:
    for key in release.keys:
        section, _, name = key.rpartition(".")
        others = "[parallelism]\npipeline_parallel_degree = 2\ncontext_parallel_degree = 2\n"
        others += '[model]\nconverters = ["float8"]\n'
        table = f"[{section}]\n{name} = {value}\n"
        text = table if section in ("parallelism", "model") else others + table
        with suppress(LaunchError):
            read(launch_of({"x.toml": text}, format="torchtitan", overrides=GPUS))


MX = "model.converters=quantize.linear.mx"


@pytest.mark.parametrize(
    ("words", "recipe", "unsupported"),
    [
        ((), "mxfp8", set()),
        (("recipe_name=mxfp8_cublas_rceil",), "mxfp8", set()),
        (("recipe_name=mxfp8_cublas", "filter_fqns=output,router.gate"), "mxfp8", set()),
        (("filter_fqns=output,wk,wv",), "mxfp8", {"quantize.linear.mx.filter_fqns"}),
        (("recipe_name=mxfp8_emulated",), None, {"quantize.linear.mx.recipe_name"}),
    ],
)
def test_a_converter_has_linears_multiply_in_mxfp8(
    words: tuple[str, ...], recipe: str | None, unsupported: set[str]
) -> None:
    found = options(f"--{MX}", *(f"--quantize.linear.mx.{word}" for word in words))
    assert found.field("/training/precision/fp8_recipe") == recipe
    assert found.unsupported == unsupported


def test_converters_of_the_same_linears_are_one() -> None:
    assert "two converters of the same linears" in refused(f"--{MX},float8")
    others = options(f"--{MX},quantize.grouped_mm.float8")
    assert others.field("/training/precision/fp8_recipe") == "mxfp8"
    assert others.unsupported == {"model.converters"}


def test_a_converter_has_experts_multiply_in_mxfp8() -> None:
    alone = options("--model.converters=quantize.grouped_mm.mx")
    assert alone.field("/training/moe/fp8_recipe") == "mxfp8"
    assert alone.field("/training/precision/fp8_recipe") is None
    both = options(f"--{MX},quantize.grouped_mm.mx")
    assert both.field("/training/moe/fp8_recipe") == "mxfp8"
    assert both.field("/training/precision/fp8_recipe") == "mxfp8"
    assert not alone.unsupported | both.unsupported
