"""What a refused launch says is missing settles the refusal where it is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainfit.launch.missing import asked_for
from trainfit.launch.read import read_launch
from trainfit.questions.launches import job_from
from trainfit.questions.problems import Problem
from trainfit.resolve.findings import Finding
from trainfit.specs.launch import Launch

DATA = Path(__file__).parents[1] / "data" / "launch"
VALUES: dict[str, Any] = {
    "/argv": "",
    "/overrides/model": {"hf_id": "Qwen/Qwen3-8B"},
    "/overrides/model/hf_id": "Qwen/Qwen3-8B",
    "/overrides/training/precision": "bf16",
    "/overrides/training/recompute/granularity": "full",
    "/overrides/training/optimizer/name": "adam",
}
"""What is given where one is missing; elsewhere 8."""
SIZES = "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --max-position-embeddings 4096"
SCRIPT = f"""torchrun --nproc_per_node $GPUS --nnodes $2 pretrain_gpt.py {SIZES} \\
  --tensor-model-parallel-size $(cat tp) --seq-length $LENGTH --micro-batch-size 1 \\
  --tokenizer-type HuggingFaceTokenizer --tokenizer-model /data/tokenizer
"""


def refused(launch: dict[str, Any]) -> list[Finding]:
    result = job_from(Launch.model_validate(launch))
    return list(result.errors) if isinstance(result, Problem) else []


def with_given(launch: dict[str, Any], pointer: str) -> dict[str, Any]:
    """The launch with a value at a pointer into it."""
    value = VALUES.get(pointer, "8" if pointer.startswith("/env/") else 8)
    *parents, name = pointer.strip("/").split("/")
    for parent in reversed(parents):
        name, value = parent, {name: value}
    return {**launch, name: merged(launch.get(name), value)}


def merged(before: Any, value: Any) -> Any:
    if not (isinstance(before, dict) and isinstance(value, dict)):
        return value
    return before | {name: merged(before.get(name), inner) for name, inner in value.items()}


PUBLIC = [
    path
    for path in sorted(DATA.rglob("*"))
    if path.is_file() and path.name not in ("cases.yaml", "fields.json")
]


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.name)
def test_each_fact_settles_what_it_is_missing_for(path: Path) -> None:
    launch = {"files": [{"path": path.name, "content": path.read_text("utf-8")}]}
    for finding in refused(launch):
        for pointer in finding.missing:
            left = refused(with_given(launch, pointer))
            assert finding.message not in [each.message for each in left], pointer


def test_all_facts_together_make_a_job() -> None:
    launch: dict[str, Any] = {"files": [{"path": "train.sh", "content": SCRIPT}]}
    missing = [each.missing for each in refused(launch)]
    gpus = "/overrides/parallelism/num_gpus"
    assert ("/env/GPUS", gpus) in missing
    assert ("/argv", gpus) in missing
    assert ("/overrides/parallelism/tp",) in missing
    assert ("/env/LENGTH", "/overrides/training/seq_length") in missing
    assert ("/overrides/model/spec/vocab_size",) in missing
    for pointers in missing:
        launch = with_given(launch, pointers[-1])
    assert refused(launch) == []


def test_what_stands_in_a_question_is_missing_there() -> None:
    found = job_from(Launch.model_validate({"argv": "pretrain_gpt.py"}), "/launch")
    assert isinstance(found, Problem)
    pointers = {pointer for each in found.errors for pointer in each.missing}
    assert "/launch/overrides/parallelism/num_gpus" in pointers


@pytest.mark.parametrize(
    ("message", "pointers"),
    [
        ("N is not set (env.sh may set it and was not sent); give it in env", ["/env/N"]),
        ("N is taken from where compose is started; give it in env", ["/env/N"]),
        (
            "$1 is not given; give the arguments of the script in argv, [] for none",
            ["/argv"],
        ),
        ("holds no launch that is recognised", []),
    ],
)
def test_messages_are_read_as_they_are_written(message: str, pointers: list[str]) -> None:
    assert list(asked_for(message)) == pointers


def test_what_takes_the_place_of_a_key_that_is_not_modelled_settles_it() -> None:
    config = "base_model: Qwen/Qwen3-8B\nsequence_len: 512\nmicro_batch_size: 1\n"
    launch: dict[str, Any] = {
        "files": [{"path": "a.yaml", "content": config + "overrides_of_model_config: {x: 1}\n"}],
        "format": "axolotl",
        "overrides": {"parallelism": {"num_gpus": 8}},
    }
    [left] = read_launch(Launch.model_validate(launch)).launch.account.unsupported
    assert left.missing == ["/overrides/model/hf_config"]
    launch["overrides"]["model"] = {"hf_config": {"model_type": "qwen3"}}
    assert read_launch(Launch.model_validate(launch)).launch.account.unsupported == []
