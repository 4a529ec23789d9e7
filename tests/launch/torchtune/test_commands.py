"""tune run, and key=value over a config."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from tests.launch.launches import DATA, Read, launch_of, read
from trainfit.launch.errors import LaunchError
from trainfit.launch.torchtune.models import AS_LLAMA, BUILDERS, builder_named
from trainfit.questions.estimate import answer, plan_of
from trainfit.specs.job import Job

FULL = "llama3_2_3b_full_single_device.yaml"
DISTRIBUTED = "llama3_1_8b_full.yaml"
LORA = "llama3_1_8b_lora_single_device.yaml"


def tune(*words: str, config: str = FULL, before: tuple[str, ...] = (), **others: Any) -> Read:
    text = (DATA / "torchtune" / config).read_text("utf-8")
    recipe = config.removesuffix(".yaml").partition("_")[2]
    kind = "lora" if "lora" in recipe else "full"
    where = "single_device" if "single" in recipe else "distributed"
    command = ["tune", "run", *before, f"{kind}_finetune_{where}", "--config", f"my/{config}"]
    argv = [*command, "tokenizer.max_seq_len=2048", *words]
    return read(launch_of({config: text}, argv, **others))


def refused(*words: str, **others: Any) -> str:
    with pytest.raises(LaunchError) as raised:
        tune(*words, **others)
    return str(raised.value)


def test_a_recipe_for_one_device_has_one() -> None:
    found = tune()
    assert found.defaulted["/parallelism/num_gpus"] == 1
    assert found.field("/training/seq_length") == 2048


@pytest.mark.parametrize(
    "before",
    [
        ("--nnodes", "2", "--nproc_per_node", "4"),
        ("--nnodes=2", "--nproc-per-node=4", "--standalone"),
    ],
)
def test_torchruns_options_count_gpus(before: tuple[str, ...]) -> None:
    found = tune(config=DISTRIBUTED, before=before)
    assert found.field("/parallelism/num_gpus") == 8


def test_a_number_of_gpus_that_is_none_is_refused() -> None:
    message = refused(config=DISTRIBUTED, before=("--nproc_per_node", "gpu"))
    assert "argv: nproc_per_node: must be a whole number" in message


def test_the_number_of_gpus_is_demanded() -> None:
    assert "the number of GPUs is not said" in refused(config=DISTRIBUTED)


def test_a_component_is_replaced_by_its_section() -> None:
    found = tune("optimizer=torch.optim.AdamW", "optimizer.fused=True", "optimizer_in_bwd=False")
    assert found.field("/training/optimizer/name") == "adam"
    assert found.field("/training/optimizer/paged") is None
    assert found.field("/training/optimizer/implementation") == "fused"


def test_torch_steps_by_lists_unless_it_is_told_to_fuse() -> None:
    found = tune("optimizer=torch.optim.AdamW")
    assert found.defaulted["/training/optimizer/implementation"] == "foreach"


def test_a_key_is_taken_away() -> None:
    found = tune("~optimizer_in_bwd")
    assert found.field("/training/optimizer/in_backward") is None


@pytest.mark.parametrize(
    ("words", "loss", "left_out"),
    [
        (("compile=True",), "fused", set()),
        (("compile=False",), "fused", {"loss._component_"}),
        (("compile=False", "loss=torch.nn.CrossEntropyLoss"), "unfused", set()),
        (("compile=True", "loss=my.Loss"), None, {"loss"}),
    ],
)
def test_losses(words: tuple[str, ...], loss: str | None, left_out: set[str]) -> None:
    found = tune(*words)
    assert found.field("/training/loss/cross_entropy") == loss
    assert found.left_out == left_out


def test_compiling_one_of_model_and_loss_is_unsupported() -> None:
    found = tune("~compile", "compile.model=True", "compile.loss=False")
    assert {"compile.model", "compile.loss"} <= found.unsupported


@pytest.mark.parametrize(
    ("words", "granularity", "every"),
    [
        (("enable_activation_checkpointing=True",), "full", None),
        (("enable_activation_checkpointing=False",), None, None),
        (("enable_activation_checkpointing=False", "ac_mode=full"), "full", None),
        (
            ("enable_activation_checkpointing=False", "ac_mode=selective", "ac_option=2"),
            "full",
            2,
        ),
        (
            ("enable_activation_checkpointing=False", "ac_mode=selective", "ac_option=op"),
            "selective",
            None,
        ),
    ],
)
def test_recompute(words: tuple[str, ...], granularity: str | None, every: int | None) -> None:
    found = tune(*words)
    assert found.field("/training/recompute/granularity") == granularity
    assert found.field("/training/recompute/every_nth_layer") == every


def test_validation_matters_where_it_reads_more_than_training() -> None:
    words = ("run_val_every_n_steps=100",)
    assert "run_val_every_n_steps" not in tune(*words, config=LORA).left_out
    found = tune(*words, "batch_size_val=16", config=LORA)
    assert {"run_val_every_n_steps", "batch_size_val"} <= found.bounded


def test_a_reference_means_the_other_key() -> None:
    found = tune("run_val_every_n_steps=100", "batch_size_val=${batch_size}", config=LORA)
    assert not found.left_out & {"run_val_every_n_steps", "batch_size_val"}


DPO = "loss._component_=torchtune.rlhf.loss.DPOLoss"


@pytest.mark.parametrize(
    ("config", "recipe", "reference", "by"),
    [
        (LORA, "lora_dpo_single_device", "base", "torchtune-lora"),
        (DISTRIBUTED, "full_dpo_distributed", "copy", "torchtune-full"),
    ],
)
def test_preferences_beside_a_base_or_a_copy(
    config: str, recipe: str, reference: str, by: str
) -> None:
    text = (DATA / "torchtune" / config).read_text("utf-8")
    words = (DPO, "loss.beta=0.1", "ref_checkpointer.checkpoint_dir=/models", "batch_size=3")
    command = ["tune", "run", "--nproc_per_node", "1" if "single" in recipe else "8", recipe]
    argv = [*command, "--config", config, *words, "compile=False", "tokenizer.max_seq_len=2048"]
    found = read(launch_of({config: text}, argv))
    said = [found.field(f"/training/loss/{key}") for key in ("objective", "reference")]
    assert said == ["preference", reference]
    assert found.field("/training/loss/log_probs_by") == by
    assert found.field("/training/micro_batch_size") == 6, "both samples of each pair"
    assert not {"loss._component_", "batch_size"} & found.left_out
    compiled = read(launch_of({config: text}, [*argv, "compile=True"]))
    assert "loss._component_" in compiled.unsupported


@pytest.mark.parametrize(
    ("recipe", "why"),
    [
        ("dpo_of_mine", "it is not known"),
        ("knowledge_distillation_distributed", "a teacher beside"),
        ("qat_distributed", "fake quantisation"),
        ("my_recipe", "it is not known"),
    ],
)
def test_other_recipes_are_refused(recipe: str, why: str) -> None:
    text = (DATA / "torchtune" / FULL).read_text("utf-8")
    with pytest.raises(LaunchError, match=f"the recipe {recipe}: .*{why}"):
        read(launch_of({FULL: text}, ["tune", "run", recipe, "--config", FULL]))


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["tune", "download", "x"], "of tune's commands, only run trains"),
        (["tune", "run"], "no recipe is named"),
        (["tune", "run", "full_finetune_single_device"], "need a config"),
        (
            ["tune", "run", "full_finetune_single_device", "--config", "llama3_1/8B_full"],
            "the config llama3_1/8B_full was not sent",
        ),
    ],
)
def test_a_command_that_says_too_little_is_refused(argv: list[str], message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        read(launch_of(argv=argv))


UNTRAINED = """
model: {_component_: torchtune.models.llama2.llama2_7b}
checkpointer: {checkpoint_dir: /tmp/Llama-2-7b-hf}
dtype: bf16
quantizer: null
"""


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("tasks: [truthfulqa_mc2]", "this config evaluates a model and names no optimizer"),
        ("prompt: {user: Tell me a joke.}", "this config generates text and names no optimizer"),
        ("batch_size: 8", "quantizer: this config quantises a model"),
    ],
)
def test_a_config_that_trains_nothing_says_so(section: str, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        read(launch_of({"eval.yaml": f"{UNTRAINED}{section}\n"}))


def test_a_word_that_is_no_assignment_is_refused() -> None:
    assert "'--compile' is no key=value" in refused("--compile")


def test_a_sequence_without_bound_is_demanded() -> None:
    assert "how long a sample may be is not said" in refused("tokenizer.max_seq_len=null")


def test_adapters_without_linears_are_refused() -> None:
    words = ("model.lora_attn_modules=[]", "model.apply_lora_to_mlp=False")
    assert "which linears get adapters" in refused(*words, config=LORA)


def test_a_builder_that_is_not_listed_is_asked_for() -> None:
    assert "no list has this builder" in refused("model=torchtune.models.gemma2.gemma2_2b")
    described = {"model": {"hf_id": "google/gemma-2-2b"}}
    found = tune("model=torchtune.models.gemma2.gemma2_2b", overrides=described)
    assert found.job["model"] == described["model"]


@pytest.mark.parametrize("builder", BUILDERS)
def test_every_builder_is_a_model(builder: str) -> None:
    found = tune(f"model=torchtune.models.{builder}", "compile=True")
    assert plan_of(Job.model_validate(found.job)).model.num_layers > 10


@pytest.mark.parametrize(
    ("component", "adapters", "quantized"),
    [
        ("torchtune.models.llama3_1.llama3_1_8b", False, False),
        ("torchtune.models.llama3_1.lora_llama3_1_8b", True, False),
        ("torchtune.models.qwen2_5.qlora_qwen2_5_7b_instruct", True, True),
    ],
)
def test_names_of_builders_tell_of_adapters(
    component: str, adapters: bool, quantized: bool
) -> None:
    found = builder_named(component)
    assert found is not None
    assert (found.adapters, found.quantized) == (adapters, quantized)


@pytest.mark.parametrize("builder", AS_LLAMA)
def test_linears_of_phi_are_apart_as_llamas_are(builder: str) -> None:
    """As many parameters as the published model has, whose linears are fused."""
    package, _, function = builder.rpartition(".")
    adapted = builder_named(f"torchtune.models.{package}.lora_{function}")
    assert adapted is not None
    assert adapted.model["hf_config"]["model_type"] == "llama"
    job = tune(f"model=torchtune.models.{builder}").job
    assert job["model"] == adapted.model
    published = {**job, "model": {"hf_id": BUILDERS[builder]}}
    ours, theirs = (answer(Job.model_validate(each)).model for each in (job, published))
    assert ours.parameters.total == theirs.parameters.total


RECIPE_KEYS = """
    ac_mode ac_option activation_offloading_use_streams batch_size batch_size_val
    checkpointer.checkpoint_dir clip_grad_norm collate_fn compile context_parallel_dim
    context_parallel_rotate_method cudnn_deterministic_mode custom_sharded_layers
    data_parallel_replicate_dim data_parallel_shard_dim dataset.packed dataset_val.split device
    dtype enable_activation_checkpointing enable_activation_offloading enable_async_checkpointing
    enable_fp8_training epochs fp8_recipe_name fsdp_cpu_offload fsdp_reshard_after_forward
    gradient_accumulation_steps log_every_n_steps log_level log_peak_memory_stats loss
    low_cpu_ram lr_scheduler.num_warmup_steps max_steps_per_epoch metric_logger.log_dir model
    optimizer optimizer_in_bwd output_dir profile_memory profiler.enabled resize_token_embeddings
    resume_from_checkpoint run_val_every_n_steps save_adapter_weights_only save_every_n_steps seed
    shuffle tensor_parallel_dim tensor_parallel_plan tokenizer.path
"""
"""What the recipes ask a config for. Source: recipes/*_finetune_*.py at v0.4.0 to bd2a0fc."""


@pytest.mark.parametrize("key", RECIPE_KEYS.split())
def test_every_key_of_the_recipes_stands_in_a_list(key: str) -> None:
    try:
        found = tune(f"{key}=1", config=DISTRIBUTED, before=("--nproc_per_node=2",))
    except LaunchError as error:
        assert f"argv: {key}: " in str(error)  # noqa: PT017
        return
    assert "no list" not in {each.key: each.why for each in found.account.unsupported}.get(key, "")
    assert key in found.recognised | found.irrelevant | found.unsupported


def test_a_key_that_no_recipe_has_is_unsupported() -> None:
    assert "enable_magic" in tune("enable_magic=True").unsupported


@pytest.mark.parametrize("value", ["[]", "{}", "null", "x", "1.5", "-1", "[[1], {a: 2}]"])
def test_a_value_of_another_kind_breaks_nothing(value: str) -> None:
    for key in RECIPE_KEYS.split():
        for config in (DISTRIBUTED, LORA):
            with suppress(LaunchError):
                tune(f"{key}={value}", config=config, before=("--nproc_per_node=2",))
