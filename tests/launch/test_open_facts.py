"""Facts that a launch leaves open: the verdict that holds whatever they are, or where it turns."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.launch.launches import launch_of, read
from trainfit.catalog.configs import bundled_config, bundled_ids
from trainfit.estimator.results import Estimate
from trainfit.launch.errors import LaunchError
from trainfit.launch.open_facts import VOCABULARIES
from trainfit.questions.pricing import Pricing
from trainfit.questions.python import QuestionError, estimate, fit_check
from trainfit.specs.job import Job

TITAN = """
[model]
name = "llama3"
flavor = "FLAVOR"
[training]
local_batch_size = 1
seq_len = 8192
[activation_checkpoint]
mode = "full"
"""
TUNE = """
model: {_component_: torchtune.models.qwen2_5.qwen2_5_0_5b}
tokenizer: {_component_: torchtune.models.qwen2_5.qwen2_5_tokenizer, max_seq_len: null}
optimizer: {_component_: torch.optim.AdamW, fused: true}
loss: {_component_: torch.nn.CrossEntropyLoss}
batch_size: SAMPLES
gradient_accumulation_steps: 1
enable_activation_checkpointing: true
dtype: bf16
"""
MEGATRON = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size HIDDEN "
    "--num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 "
    "--micro-batch-size 1 --bf16 --tokenizer-type HuggingFaceTokenizer\n"
)


def titan(flavor: str, **overrides: Any) -> dict[str, Any]:
    return asked("train.toml", TITAN.replace("FLAVOR", flavor), **overrides)


def asked(path: str, text: str, **overrides: Any) -> dict[str, Any]:
    launch = {"files": [{"path": path, "content": text}], "gpu": "H100-80GB"}
    return {"launch": {**launch, "overrides": overrides}}


def test_a_verdict_that_the_number_of_gpus_does_not_change_stands() -> None:
    answer = fit_check(titan("debugmodel"), suggest=False)
    assert answer.verdict == "fits"
    assert answer.estimate is not None
    (told,) = [each.text for each in answer.estimate.assumptions if each.id == "open-facts"]
    assert told.endswith("Here: 1 GPUs.")
    alone = fit_check(titan("debugmodel", parallelism={"num_gpus": 1}), suggest=False)
    assert alone.estimate is not None
    assert answer.estimate.stages == alone.estimate.stages


def test_no_more_is_replayed_than_a_verdict_turns_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of eleven numbers of GPUs, the one whose figures are shown; and the ends of the ranges, but
    of that which tensors alone decide.
    """
    replayed: set[int | None] = set()
    priced = Pricing.estimate

    def counted(pricing: Pricing, job: Job, *, replay: bool = True) -> Estimate:
        if replay:
            replayed.add(job.parallelism.num_gpus)
        return priced(pricing, job, replay=replay)

    monkeypatch.setattr(Pricing, "estimate", counted)
    assert fit_check(titan("debugmodel"), suggest=False).verdict == "fits"
    assert replayed == {1}
    replayed.clear()
    message = fit_check(titan("70B"), suggest=False).not_modelled[0].message
    ends = _told(message)
    assert replayed & {*ends} == {each for each in ends if ends[each] != "does_not_fit"}
    assert len(replayed) < 8


def test_releases_that_a_replay_cannot_move_are_not_replayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a launch that can be of ten releases, where some fit on 16 GPUs and others never do."""
    script = (
        "torchrun --nproc-per-node $(nvidia-smi -L | wc -l) train/sft.py --block_size=32768 "
        "--model_name=Qwen/Qwen2.5-32B-Instruct --per_device_train_batch_size=1 "
        '--warmup_ratio=0.05 --bf16 --fsdp="full_shard auto_wrap" --output_dir=out'
    )
    replayed: Counter[int | None] = Counter()
    priced = Pricing.estimate

    def counted(pricing: Pricing, job: Job, *, replay: bool = True) -> Estimate:
        replayed[job.parallelism.num_gpus] += replay
        return priced(pricing, job, replay=False)

    monkeypatch.setattr(Pricing, "estimate", counted)
    answer = fit_check(asked("run.sh", script), suggest=False)
    assert "does not fit with 1 to 8 GPUs, tight with 16" in answer.not_modelled[0].message
    assert (replayed[8], replayed[1024]) == (0, 10)
    assert 0 < replayed[16] < 10


def test_where_it_changes_is_said_and_what_to_give() -> None:
    answer = fit_check(titan("70B"), suggest=False)
    assert answer.verdict == "unknown"
    (missing,) = answer.not_modelled
    assert missing.pointer == "/launch/overrides/parallelism/num_gpus"
    assert "give /parallelism/num_gpus in overrides" in missing.message
    assert ": does not fit with 1 to " in missing.message
    assert missing.message.endswith(" to 1,024 GPUs")
    for count, verdict in _told(missing.message).items():
        given = titan("70B", parallelism={"num_gpus": count})
        assert fit_check(given, suggest=False).verdict == verdict, count


def _told(message: str) -> dict[int, str]:
    """The verdict at each end of the ranges of a message."""
    found = {}
    for part in message.rpartition(": ")[2].replace("1,024", "1024").split(", "):
        verdict, _, span = part.removesuffix(" GPUs").partition(" with ")
        for count in span.split(" to "):
            found[int(count)] = verdict.replace(" ", "_")
    return found


def test_figures_need_the_fact() -> None:
    with pytest.raises(QuestionError) as refused:
        estimate(titan("debugmodel"))
    (error,) = refused.value.errors
    assert "/launch/overrides/parallelism/num_gpus" in error.missing


def test_another_error_is_told_as_ever() -> None:
    text = TITAN.replace("FLAVOR", "70B") + "[parallelism]\ntensor_parallel_degree = 0\n"
    with pytest.raises(QuestionError):
        fit_check(asked("train.toml", text))


@pytest.mark.parametrize(
    ("samples", "verdict"), [(1, "fits"), (16, "unknown"), (4096, "does_not_fit")]
)
def test_a_length_is_tried_to_what_the_model_has_positions_for(samples: int, verdict: str) -> None:
    question = asked(
        "config.yaml", TUNE.replace("SAMPLES", str(samples)), parallelism={"num_gpus": 1}
    )
    answer = fit_check(question, suggest=False)
    assert answer.verdict == verdict
    assert "tokens" in str(answer.not_modelled) or verdict != "unknown"
    assert "65,536" not in str(answer.not_modelled)  # Qwen2.5 0.5B has 32,768 positions


def test_several_facts_are_asked_for_together() -> None:
    answer = fit_check(asked("config.yaml", TUNE.replace("SAMPLES", "2")), suggest=False)
    assert answer.verdict == "unknown"
    assert [each.pointer.rpartition("/")[2] for each in answer.not_modelled] == [
        "num_gpus",
        "seq_length",
    ]


@pytest.mark.parametrize(("hidden", "verdict"), [(512, "fits"), (65536, "does_not_fit")])
def test_a_vocabulary_that_does_not_matter(hidden: int, verdict: str) -> None:
    answer = fit_check(asked("run.sh", MEGATRON.replace("HIDDEN", str(hidden))), suggest=False)
    assert answer.verdict == verdict


def test_vocabularies_are_those_of_the_bundled_models() -> None:
    sizes = set()
    for hf_id in bundled_ids():
        bundled = bundled_config(hf_id)
        assert bundled is not None
        for config in (bundled.config, bundled.config.get("text_config") or {}):
            sizes.update({config["vocab_size"]} if config.get("vocab_size") else set())
    assert (min(sizes), max(sizes)) == VOCABULARIES


def test_what_is_wrong_with_one_of_several_runs_is_said() -> None:
    words = "--model Qwen/Qwen3-8B --train_type full --torch_dtype bfloat16 --max_length 2048"
    script = f"swift sft {words} --deepspeed zero3\nswift sft {words} --deepspeed ds/own.json\n"
    with pytest.raises(LaunchError) as error:
        read(launch_of({"run.sh": f"export NPROC_PER_NODE=8\n{script}"}))
    several, missing = (each.message for each in error.value.complaints)
    assert "starts more than one program that trains" in several
    assert "names ds/own.json; send that file too" in missing
