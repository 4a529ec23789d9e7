"""Megatron's arguments in files: --yaml-cfg, Megatron-Bridge and NeMo."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
import yaml

from tests.launch.launches import DATA, Read, launch_of, read
from tests.launch.mutations import check_every_key
from trainfit.launch.errors import LaunchError
from trainfit.specs.job import Job

GPUS = {"WORLD_SIZE": "8"}
VOCABULARY = {"model": {"spec": {"vocab_size": 32000}}}


def config(name: str, **others: Any) -> Read:
    path = DATA / name
    return read(launch_of({path.name: path.read_text()}, **others))


@pytest.mark.parametrize(
    ("name", "unsupported"),
    [
        ("megatron_bridge/llama3_8b_container.yaml", set()),
        ("megatron_bridge/nemo_gpt3_5b.yaml", set()),
        ("megatron_bridge/nemo_llama2_7b.yaml", set()),
        ("megatron_bridge/nemo_llama3_1_70b.yaml", set()),
    ],
)
def test_a_real_config_is_read_to_its_last_key(name: str, unsupported: set[str]) -> None:
    found = config(name, env=GPUS, overrides=VOCABULARY)
    assert found.unsupported == unsupported
    Job.model_validate(found.job)


YAML_CFGS: list[dict[str, Any]] = yaml.safe_load((DATA / "megatron_yaml/index.yaml").read_text())


@pytest.mark.parametrize("version", ["its own", None])
@pytest.mark.parametrize("each", YAML_CFGS, ids=lambda each: each["file"])
def test_a_real_yaml_is_read_to_its_last_key(each: dict[str, Any], version: str | None) -> None:
    release = each["release"] if version else None
    path = f"megatron_yaml/{each['file']}"
    found = config(path, env=GPUS, overrides=VOCABULARY, framework_version=release)
    assert found.unsupported == set()
    assert found.field("/model/spec/num_layers") == each.get("layers", 24)
    assert found.field("/training/seq_length") == each.get("seq_length", 4096)
    assert found.field("/training/global_batch_size") == 128
    assert found.field("/model/spec/swiglu") is True
    assert found.field("/training/precision") == "bf16"
    Job.model_validate(found.job)


def test_every_real_yaml_is_listed() -> None:
    names = {path.name for path in (DATA / "megatron_yaml").iterdir()}
    assert names == {"index.yaml", *(each["file"] for each in YAML_CFGS)}
    assert len(YAML_CFGS) >= 8


def test_a_yaml_takes_the_place_of_the_command_line() -> None:
    path = DATA / "megatron_yaml/gpt_core_v0.16.0.yaml"
    words = ("pretrain_gpt.py", "--yaml-cfg", f"configs/{path.name}", "--seq-length", "1")
    found = read(launch_of({path.name: path.read_text()}, words, env=GPUS, overrides=VOCABULARY))
    assert found.field("/training/seq_length") == 4096
    assert "--seq-length" in found.irrelevant
    assert found.field("/model/spec/swiglu") is True
    assert found.field("/training/precision") == "bf16"
    assert found.field("/parallelism/sequence_parallel") is False, "there is no tensor parallelism"


def test_a_container_is_a_job() -> None:
    found = config("megatron_bridge/llama3_8b_container.yaml", env=GPUS)
    spec = found.job["model"]["spec"]
    assert (spec["swiglu"], spec["vocab_size"], spec["num_query_groups"]) == (True, 128256, 8)
    assert spec["untie_embeddings_and_output_weights"] is True
    assert found.field("/training/precision") == "bf16"
    assert found.field("/parallelism/data_parallel_sharding_strategy") == "optim"
    assert found.field("/training/loss/cross_entropy") == "native_fused"
    assert found.defaulted["/framework/create_attention_mask_in_dataloader"] is False


@pytest.mark.parametrize(
    ("words", "pointer", "value"),
    [
        ("model.tensor_model_parallel_size=4", "/parallelism/tp", 4),
        ("++model.seq_length=4096", "/training/seq_length", 4096),
        ("-mb 2", "/training/micro_batch_size", 2),
        ("--seq_length 2048", "/training/seq_length", 2048),
        ("model.num_moe_experts=8", "/model/spec/num_moe_experts", 8),
        (
            "mixed_precision=bf16_with_fp8_delayed_scaling_mixed",
            "/training/precision/fp8_recipe",
            "delayed",
        ),
    ],
)
def test_a_command_line_overrides_a_container(words: str, pointer: str, value: Any) -> None:
    argv = ("run_recipe.py", *words.split())
    found = config("megatron_bridge/llama3_8b_container.yaml", env=GPUS, argv=argv)
    assert found.field(pointer) == value


REFERENCES = {
    "activation_func: torch.nn.functional.silu": (
        "activation_func: {_target_: torch.nn.functional.silu, _call_: false}"
    ),
    "main_grads_dtype: torch.float32": "main_grads_dtype: {_call_: false, _target_: torch.float32}",
    "exp_avg_dtype: torch.float32": "exp_avg_dtype: {_call_: false, _target_: torch.float32}",
    "init_method: null": (
        "init_method: {_target_: torch.nn.init.normal_, _partial_: true, _args_: [], std: 0.02}"
    ),
}
"""Values of the container, and how Megatron-Bridge itself saves them."""
SAVED_BESIDES = """
  attention_backend: {_target_: megatron.core.transformer.enums.AttnBackend, _call_: true,
    _args_: [1]}
  params_dtype: {_call_: false, _target_: torch.bfloat16}
  transformer_layer_spec:
    _call_: false
    _target_: megatron.bridge.models.gpt_provider.default_layer_spec
  generation_config:
    _call_: true
    _target_: transformers.generation.configuration_utils.GenerationConfig.from_dict
    config_dict: {max_length: 20, hidden_size: 1}
"""
CONTAINER = (DATA / "megatron_bridge/llama3_8b_container.yaml").read_text()


def test_functions_and_types_are_read_as_megatron_bridge_saves_them() -> None:
    saved = CONTAINER.replace("\ntrain:\n", f"{SAVED_BESIDES}train:\n")
    for plain, reference in REFERENCES.items():
        assert plain in saved
        saved = saved.replace(plain, reference)
    before, found = (read(launch_of({"run.yaml": each}, env=GPUS)) for each in (CONTAINER, saved))
    assert found.fields() == before.fields() | {"/training/attention/backend": "flash"}
    assert found.unsupported == set()


@pytest.mark.parametrize(("value", "backend"), [(2, "fused"), (3, "unfused"), (5, "auto")])
def test_a_member_of_an_enumeration_is_read_by_its_value(value: int, backend: str) -> None:
    besides = SAVED_BESIDES.replace("[1]", f"[{value}]")
    saved = CONTAINER.replace("\ntrain:\n", f"{besides}train:\n")
    found = read(launch_of({"run.yaml": saved}, env=GPUS))
    assert found.field("/training/attention/backend") == backend


@pytest.mark.parametrize(
    "line",
    [
        "vision_config: {hidden_size: 1280, num_layers: 32}",
        "activation_func: {_target_: my.own, _call_: false}",
        "transformer_layer_spec: {_target_: my.own.spec, _call_: false}",
    ],
)
def test_an_object_that_is_not_known_is_not_flattened_into_the_model(line: str) -> None:
    kept = [
        each
        for each in CONTAINER.split("\n")
        if line.partition(":")[0] != each.strip().partition(":")[0]
    ]
    saved = "\n".join(kept).replace("\ntrain:\n", f"\n  {line}\ntrain:\n")
    found = read(launch_of({"run.yaml": saved}, env=GPUS))
    assert {each.rpartition(".")[0] or each for each in found.unsupported} & {
        "model",
        "model.vision_config",
    }
    assert found.field("/model/spec/hidden_size") == 4096
    assert found.field("/model/spec/num_layers") == 32


def test_mixed_precision_counts_before_the_same_elsewhere() -> None:
    narrow = CONTAINER.replace("grad_reduce_in_fp32: true", "grad_reduce_in_fp32: false")
    assert narrow != CONTAINER
    found = read(launch_of({"run.yaml": narrow}, env=GPUS))
    assert found.field("/training/precision") == "bf16", "bf16_mixed reduces in fp32"


@pytest.mark.parametrize(("ddp", "optimizer"), [(True, False), (False, True), (False, False)])
@pytest.mark.parametrize(
    ("name", "pointer"),
    [
        ("overlap_param_gather", "/framework/overlap_param_gather"),
        ("use_distributed_optimizer", "/parallelism/data_parallel_sharding_strategy"),
    ],
)
def test_either_of_two_sections_switches_on(
    name: str, pointer: str, *, ddp: bool, optimizer: bool
) -> None:
    kept = [line for line in CONTAINER.split("\n") if line.strip().partition(":")[0] != name]
    given = "\n".join(kept)
    for section, value in (("ddp", ddp), ("optimizer", optimizer)):
        line = f"{section}:\n  {name}: {str(value).lower()}\n"
        given = given.replace(f"\n{section}:\n", f"\n{line}")
    found = read(launch_of({"run.yaml": given}, env=GPUS)).field(pointer)
    assert found in ((True, "optim") if ddp or optimizer else (False, "no_shard"))


def test_how_llama_3_1_stretches_its_positions_does_not_matter() -> None:
    stretched = "scale_factor: 8.0\n  low_freq_factor: 1.0\n  high_freq_factor: 4.0\n"
    lines = f"  {stretched}  old_context_len: 8192\n"
    saved = CONTAINER.replace("\ntrain:\n", f"\n{lines}train:\n")
    found = read(launch_of({"run.yaml": saved}, env=GPUS))
    assert not found.unsupported


def test_overrides_of_a_recipe_are_no_whole_config() -> None:
    hub = {"model": {"hf_id": "Qwen/Qwen3-Next-80B-A3B-Instruct"}}
    found = config("megatron_bridge/qwen3_next_finetune.yaml", env=GPUS, overrides=hub)
    assert found.unsupported == {"recipe"}
    assert "send the run_config.yaml" in found.account.unsupported[0].why


def test_of_two_configs_none_is_chosen() -> None:
    files = {"a.yaml": CONTAINER, "b.yaml": CONTAINER}
    with pytest.raises(LaunchError, match=r"a\.yaml or b\.yaml"):
        read(launch_of(files, env=GPUS))
    with pytest.raises(LaunchError, match=r"a\.yaml or b\.yaml"):
        read(launch_of(files, ("run_recipe.py", "train.micro_batch_size=2"), env=GPUS))
    argv = ("run_recipe.py", "--config-file", "a.yaml", "train.micro_batch_size=2")
    assert read(launch_of(files, argv, env=GPUS)).field("/training/micro_batch_size") == 2


@pytest.mark.parametrize(
    "line",
    [
        "rotary_base: 1000000.0",
        "activations_checkpoint_method: uniform",
        "activations_checkpoint_num_layers: 1",
        "dist_ckpt_parallel_load: true",
    ],
)
def test_a_value_that_cannot_matter_changes_nothing(line: str) -> None:
    content = (DATA / "megatron_bridge/nemo_llama2_7b.yaml").read_text()
    name = line.partition(":")[0]
    kept = [each for each in content.split("\n") if not each.startswith(f"  {name}:")]
    plain = read(launch_of({"n.yaml": "\n".join(kept)}, overrides=VOCABULARY))
    found = read(launch_of({"n.yaml": "\n".join([*kept, f"  {line}"])}, overrides=VOCABULARY))
    assert found.fields() == plain.fields()
    assert found.unsupported == plain.unsupported
    assert f"model.{name}" in found.irrelevant


def test_a_method_of_recompute_counts_beside_a_granularity() -> None:
    content = (DATA / "megatron_bridge/nemo_llama2_7b.yaml").read_text()
    kept = [each for each in content.split("\n") if "activations_checkpoint" not in each]
    lines = ("granularity: full", "method: block", "num_layers: 3")
    given = [f"  activations_checkpoint_{line}" for line in lines]
    found = read(launch_of({"n.yaml": "\n".join([*kept, *given])}, overrides=VOCABULARY))
    assert found.field("/training/recompute") == {
        "granularity": "full",
        "method": "block",
        "num_layers": 3,
    }


def test_a_container_keeps_modules_of_a_recompute_that_is_off() -> None:
    lines = "recompute_granularity: null\n  recompute_modules: [core_attn]\n"
    saved = CONTAINER.replace("\ntrain:\n", f"\n  {lines}train:\n")
    found = read(launch_of({"run.yaml": saved}, env=GPUS))
    assert found.fields() == read(launch_of({"run.yaml": CONTAINER}, env=GPUS)).fields()


def test_a_container_keeps_modules_beside_whole_layers() -> None:
    whole = "recompute_granularity: full\n  recompute_method: uniform\n  recompute_num_layers: 1\n"
    texts = [
        CONTAINER.replace("\ntrain:\n", f"\n  {whole}{more}train:\n")
        for more in ("", "  recompute_modules: [core_attn]\n")
    ]
    without, beside = (read(launch_of({"run.yaml": text}, env=GPUS)) for text in texts)
    assert beside.fields() == without.fields()
    assert beside.field("/training/recompute/granularity") == "full"


def words_of(name: str) -> tuple[str, ...]:
    text = (DATA / f"megatron_bridge/{name}.args").read_text()
    return ("run.py", *shlex.split(text, comments=True))


def test_overrides_of_a_config_that_was_sent() -> None:
    base = (DATA / "megatron_bridge/nemo_gpt3_5b.yaml").read_text()
    words = words_of("nemo_gpt_5b_debug")
    found = read(launch_of({"conf/gpt_5b.yaml": base}, words, overrides=VOCABULARY))
    assert not found.unsupported
    (autocast,) = [each for each in found.account.bounded if each.key == "model.megatron_amp_O2"]
    assert autocast.direction == "either"
    assert [(each.pointer, each.value) for each in autocast.within] == [
        ("/training/precision", "fp32")
    ]
    assert found.field("/parallelism/num_gpus") == 1
    assert found.field("/training/seq_length") == 512
    assert found.field("/parallelism/data_parallel_sharding_strategy") == "no_shard"
    with pytest.raises(LaunchError, match="would come from a config that was not sent"):
        read(launch_of(None, words, overrides=VOCABULARY))


def test_nemo_calls_some_fields_otherwise() -> None:
    base = (DATA / "megatron_bridge/nemo_gpt3_5b.yaml").read_text()
    more = "model:\n  qkv_bias: true\n  override_vocab_size: 65024\n"
    found = read(launch_of({"m.yaml": base.replace("model:\n", more, 1)}))
    assert found.field("/model/spec/add_qkv_bias") is True
    assert found.field("/model/spec/vocab_size") == 65024


def test_nemos_mamba_has_no_other_layers() -> None:
    base = (DATA / "megatron_bridge/nemo_gpt3_5b.yaml").read_text()
    text = base.replace(
        "model:\n", "model:\n  mamba_ssm_ngroups: 4\n  megatron_legacy: LEGACY\n", 1
    )
    found = read(launch_of({"m.yaml": text.replace("LEGACY", "false")}, overrides=VOCABULARY))
    layers = found.field("/model/spec/num_layers")
    assert found.field("/model/spec/hybrid_layer_pattern") == "M" * layers
    assert found.field("/model/spec/mamba_num_groups") == 4
    older = read(launch_of({"m.yaml": text.replace("LEGACY", "true")}, overrides=VOCABULARY))
    assert "model.megatron_legacy" in older.unsupported


def test_overrides_of_a_recipe_that_is_not_known() -> None:
    hub = {"model": {"hf_id": "openai/gpt-oss-20b"}}
    words = [word.replace("gpt_oss_20b", "our_own") for word in words_of("gpt_oss_pretrain")]
    found = read(launch_of(None, words, env=GPUS, overrides=hub))
    assert found.unsupported == {"--recipe"}
    assert found.field("/parallelism/ep") == 4
    assert found.field("/parallelism/sequence_parallel") is True


PEFT = "\npeft:\n  _target_: megatron.bridge.peft.lora.LoRA\n  dim: 16\n  alpha: 32\n  "


@pytest.mark.parametrize(
    ("said", "key", "direction"),
    [
        ("sequence_parallel_input_regather: true", "sequence_parallel_input_regather", "lowers"),
        ("normalize_moe_lora: true", "normalize_moe_lora", "either"),
        ("target_modules: ['*.layers.0.*.linear_qkv']", "target_modules", "lowers"),
    ],
)
def test_what_of_adapters_is_not_modelled(said: str, key: str, direction: str) -> None:
    text = CONTAINER + PEFT + said
    (left,) = read(launch_of({"run.yaml": text}, env=GPUS)).account.unsupported
    assert (left.key, left.direction) == (f"peft.{key}", direction)


def test_adapters_of_a_saved_container() -> None:
    text = CONTAINER + PEFT + "target_modules:\n  - linear_qkv\n  share_expert_adapters: true\n"
    found = read(launch_of({"run.yaml": text}, env=GPUS))
    assert found.unsupported == set()
    assert found.field("/training/peft/r") == 16
    assert found.field("/training/peft/target_modules") == ["linear_qkv"]
    dora = text.replace("lora.LoRA", "dora.DoRA")
    left = read(launch_of({"run.yaml": dora}, env=GPUS)).account.unsupported
    assert {each.direction for each in left} == {"either"}


def test_what_is_taken_away_is_not_known() -> None:
    argv = ("run_recipe.py", "~model.kv_channels")
    found = config("megatron_bridge/llama3_8b_container.yaml", env=GPUS, argv=argv)
    assert found.unsupported == {"model.kv_channels"}


def test_overrides_alone_need_their_base() -> None:
    argv = ("run_recipe.py", "--recipe", "qwen3_next_80b_a3b_finetune_config")
    with pytest.raises(LaunchError, match=r"model.num_layers, .* would come from a recipe"):
        config("megatron_bridge/qwen3_next_finetune.yaml", env=GPUS, argv=argv)
    hub = {"model": {"hf_id": "Qwen/Qwen3-Next-80B-A3B-Instruct"}}
    found = config("megatron_bridge/qwen3_next_finetune.yaml", env=GPUS, argv=argv, overrides=hub)
    assert found.unsupported == {"--recipe"}


def test_a_model_of_the_hub_keeps_its_dimensions() -> None:
    argv = ("run_recipe.py", "--hf-path", "meta-llama/Llama-3.1-8B", "model.num_layers=4")
    found = config("megatron_bridge/qwen3_next_finetune.yaml", env=GPUS, argv=argv)
    assert found.job["model"] == {"hf_id": "meta-llama/Llama-3.1-8B"}
    assert found.unsupported == {"model.num_layers", "recipe"}


def test_a_teacher_is_not_modelled() -> None:
    hub = {"model": {"hf_id": "meta-llama/Llama-3.2-1B"}}
    found = config("megatron_bridge/llama32_distill.yaml", env=GPUS, overrides=hub)
    assert found.unsupported == {
        "model.kd_config.kd_loss_scale",
        "model.kd_config.skip_lm_loss",
        "model.teacher.seq_length",
        "model.teacher.tensor_model_parallel_size",
        "recipe",
    }


def test_a_trainer_says_how_many_gpus_there_are() -> None:
    found = config("megatron_bridge/nemo_gpt3_5b.yaml", overrides=VOCABULARY)
    assert found.field("/parallelism/num_gpus") == 128
    assert found.field("/model/spec/ffn_hidden_size") == 16384, "a product of OmegaConf's"
    assert found.field("/framework/transformer_impl") == "local"


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ("num_layers: many", "model.num_layers: must be a whole number"),
        ("num_layers: [1]", "model.num_layers: must be a whole number"),
        ("num_layers: ${layers}", "model.num_layers: .* is not known: is worked out by OmegaConf"),
        ("add_qkv_bias: often", "model.add_qkv_bias: must be true or false"),
        ("hidden_dropout: much", "model.hidden_dropout: must be a number"),
        ("attention_backend: {}", "model.attention_backend: must be one value"),
    ],
)
def test_a_value_of_a_wrong_kind_is_an_error(changed: str, complaint: str) -> None:
    content = (DATA / "megatron_bridge/nemo_llama2_7b.yaml").read_text()
    name = changed.partition(":")[0]
    lines = [line for line in content.split("\n") if not line.startswith(f"  {name}:")]
    with pytest.raises(LaunchError, match=complaint):
        read(launch_of({"nemo.yaml": "\n".join((*lines, f"  {changed}"))}, overrides=VOCABULARY))


@pytest.mark.parametrize(
    "name",
    [
        "megatron_yaml/gpt_core_v0.16.0.yaml",
        "megatron_bridge/llama3_8b_container.yaml",
        "megatron_bridge/nemo_llama2_7b.yaml",
    ],
)
def test_no_key_that_decides_goes_unnoticed(name: str) -> None:
    path = DATA / name
    gpus = {} if "trainer:" in path.read_text() else {"parallelism": {"num_gpus": 8}}
    vocabulary = {} if "vocab_size: 1" in path.read_text() else VOCABULARY
    launch = launch_of({path.name: path.read_text()}, overrides=gpus | vocabulary)
    assert check_every_key(launch) >= 15


SEEING = """
model:
  hf_model_id: Qwen/Qwen2.5-VL-7B-Instruct
  freeze_language_model: false
  freeze_vision_model: {vision}
  freeze_vision_projection: false
  vision_config: {{depth: 32, hidden_size: 1280}}
  image_token_id: 151655
  tensor_model_parallel_size: 2
  seq_length: 4096
train: {{micro_batch_size: 1, global_batch_size: 32}}
mixed_precision: bf16_mixed
"""


@pytest.mark.parametrize("vision", ["true", "false"])
def test_what_a_model_that_sees_freezes_is_read(vision: str) -> None:
    """The rest of what it says of its tower its config.json says, too."""
    found = read(launch_of({"run.yaml": SEEING.format(vision=vision)}, env=GPUS))
    assert found.field("/model") == {"hf_id": "Qwen/Qwen2.5-VL-7B-Instruct"}
    assert found.field("/training/frozen") == (["vision_tower"] if vision == "true" else None)
    assert found.unsupported == {"recipe"}


def test_what_is_frozen_of_an_unknown_model_is_left_out() -> None:
    unknown = SEEING.format(vision="true").replace("Qwen/Qwen2.5-VL-7B-Instruct", "my/own")
    found = read(launch_of({"run.yaml": unknown}, env=GPUS))
    assert "model.freeze_vision_model" in found.unsupported
