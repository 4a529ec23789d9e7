"""ms-swift on transformers: what its source decides where a command says nothing."""

from __future__ import annotations

import pytest

from tests.launch.launches import Read, launch_of
from tests.launch.launches import read as read_files
from trainfit.launch.errors import LaunchError

TEXT, SEES = "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-VL-7B-Instruct"
SHARDED = "NPROC_PER_NODE=2 "


def read(more: str, before: str = SHARDED, model: str = TEXT) -> Read:
    command = f"swift sft --model {model} --max_length 2048 {more}"
    return read_files(launch_of({"run.sh": before + command}))


def test_weights_have_the_type_of_the_model_and_so_has_the_arithmetic() -> None:
    assert read("--tuner_type full").field("/training/precision") == "bf16-pure"
    found = read("--tuner_type lora")
    assert found.field("/training/precision") == "autocast-bf16"
    assert found.field("/training/peft/base_dtype") == "bf16"
    in_fp16 = read("--tuner_type full --deepspeed zero3", model="NousResearch/Llama-2-7b-hf")
    assert in_fp16.field("/training/precision/params") == "fp16"
    assert not found.left_out


def test_one_process_lays_a_model_over_the_cards_that_it_sees() -> None:
    alone = read("", "CUDA_VISIBLE_DEVICES=0 ")
    assert alone.field("/parallelism/num_gpus") == 1
    assert not alone.left_out
    for before in ("CUDA_VISIBLE_DEVICES=0,1 ", ""):
        over = read("", before)
        assert over.field("/parallelism/num_gpus") == 1
        (told,) = over.account.unsupported
        assert (told.direction, "device_map" in told.why) == ("lowers", True)
    assert read("", "NNODES=2 NPROC_PER_NODE=4 ").field("/parallelism/num_gpus") == 8
    for cards, laid in (("0,1,2,3", False), ("0,1,2,3,4,5,6,7", True)):
        # swift/utils/env.py (is_mp), as puzhiyuan/AiO has four processes on eight cards
        several = read("", f"CUDA_VISIBLE_DEVICES={cards} NPROC_PER_NODE=4 ")
        assert several.field("/parallelism/num_gpus") == 4
        assert [each.direction for each in several.account.unsupported] == ["lowers"] * laid


def test_towers_are_frozen_unless_they_are_told_otherwise() -> None:
    frozen = "/training/frozen"
    whole = "--tuner_type full"
    assert read(whole, model=SEES).field(frozen) == ["vision_tower", "multi_modal_projector"]
    told = read(f"{whole} --freeze_vit false", model=SEES)
    assert told.field(frozen) == ["multi_modal_projector"]
    both = f"{whole} --freeze_vit false --freeze_aligner false"
    assert read(both, model=SEES).field(frozen) is None
    assert read(whole).field(frozen) is None
    lora = "--tuner_type lora"
    adapted = read(f"{lora} --freeze_vit false", model=SEES)
    assert adapted.field(frozen) == ["multi_modal_projector"]
    assert read(lora, model=SEES).field(frozen) == ["vision_tower", "multi_modal_projector"]
    named = f"{lora} --target_modules q_proj"
    assert read(named, model=SEES).field(frozen) is None
    assert read(f"{named} --freeze_vit false", model=SEES).unsupported == {"freeze_vit"}


@pytest.mark.parametrize(("bits", "stored"), [(4, "nf4"), (8, "int8")])
def test_weights_below_adapters_are_quantised(bits: int, stored: str) -> None:
    found = read(f"--tuner_type lora --quant_method bnb --quant_bits {bits}")
    assert found.field("/training/peft/quantization") == stored
    assert found.field("/training/peft/double_quantization") is (True if bits == 4 else None)
    assert not found.unsupported
    assert "quant_method" in read("--quant_method hqq --quant_bits 4").unsupported


def test_a_batch_that_expr_divides_twice() -> None:
    words = "--gradient_accumulation_steps $(expr 32 / $n / $m)"
    found = read(words, "n=4\nm=2\nNPROC_PER_NODE=$n NNODES=$m ")
    assert found.field("/training/num_microbatches") == 4
    assert found.field("/parallelism/num_gpus") == 8


def test_a_name_for_the_model_or_the_tracker_changes_nothing() -> None:
    """As AlloyBunny/PESC and puzhiyuan/AiO start it."""
    tracker = "--report_to swanlab --swanlab_project p --swanlab_token t --swanlab_exp_name e"
    found = read(f"--tuner_type full --model_type qwen2_5 {tracker} --swanlab_mode cloud")
    assert not found.left_out
    assert {"model_type", "swanlab_token", "swanlab_exp_name"} <= found.irrelevant


def test_a_config_of_ones_own_for_deepspeed_is_a_file_to_send() -> None:
    words = "swift sft --model Qwen/Qwen3-8B --train_type full --torch_dtype bfloat16 "
    words = f"NPROC_PER_NODE=8 {words}--max_length 2048 --deepspeed ds/z2.json"
    with pytest.raises(LaunchError, match="send that file too"):
        read_files(launch_of({"run.sh": words}))
    config = '{"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}'
    found = read_files(launch_of({"run.sh": words, "ds/z2.json": config}))
    assert found.field("/parallelism/data_parallel_sharding_strategy") == "optim_grads"
