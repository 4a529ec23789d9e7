"""Launches over HTTP: by themselves, and in the place of a job."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import AsyncClient

from trainfit.api.examples import DRAFT_EXAMPLES, LAUNCH_EXAMPLES, LLAMA_8B, TO_LAUNCH_EXAMPLES

PATH = "/v1/jobs:from-launch"
TOML = """
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 1
seq_len = 8192
[parallelism]
data_parallel_shard_degree = 8
[metrics]
log_freq = 10
"""
UNKNOWN = TOML + '[nonsense]\nwarp_drive = "on"\n'


def launch(content: str = TOML, **fields: Any) -> dict[str, Any]:
    files = [{"path": "runs/llama.toml", "content": content}]
    return {"files": files, "gpu": "H100-80GB", **fields}


@pytest.mark.parametrize("name", LAUNCH_EXAMPLES)
async def test_the_documented_examples_become_jobs_that_are_answered(
    client: AsyncClient, name: str
) -> None:
    response = await client.post(PATH, json=LAUNCH_EXAMPLES[name]["value"])
    assert response.status_code == 200
    answer = response.json()
    assert answer["account"]["unsupported"] == []
    assert (await client.post("/v1/fit-check", json=answer["job"])).status_code == 200


async def test_every_key_is_accounted_for(client: AsyncClient) -> None:
    answer = (await client.post(PATH, json=launch(UNKNOWN))).json()
    assert answer["format"] == "torchtitan"
    account = answer["account"]
    read = {each["key"]: (each["line"], each["became"]) for each in account["recognised"]}
    assert read["training.seq_len"] == (
        7,
        [{"pointer": "/training/seq_length", "value": 8192}],
    )
    assert [each["key"] for each in account["irrelevant"]] == ["metrics.log_freq"]
    assert {each["pointer"] for each in account["defaulted"]} >= {"/framework/name"}
    (unsupported,) = account["unsupported"]
    assert (unsupported["file"], unsupported["line"]) == ("runs/llama.toml", 13)
    assert (unsupported["key"], unsupported["value"]) == ("nonsense.warp_drive", "on")
    assert unsupported["accepted"] is False


async def test_a_launch_is_answered_as_its_job(client: AsyncClient) -> None:
    sent = launch(framework_version="v0.2.2")
    job = (await client.post(PATH, json=sent)).json()["job"]
    for path in ("/v1/estimate", "/v1/fit-check"):
        launched = (await client.post(path, json={"launch": sent})).json()
        alone = (await client.post(path, json=job)).json()
        assert launched.pop("launch")["format"] == "torchtitan"
        assert alone.pop("launch") is None
        assert launched.pop("request_digest") != alone.pop("request_digest")
        assert launched == alone


async def test_what_is_not_modelled_makes_a_verdict_unknown_unless_accepted(
    client: AsyncClient,
) -> None:
    asked = {"launch": launch(UNKNOWN)}
    answer = (await client.post("/v1/fit-check", json=asked)).json()
    assert (answer["verdict"], answer["passes"]) == ("unknown", False)
    (missing,) = answer["not_modelled"]
    assert (missing["pointer"], missing["line"]) == ("/launch/files/0/content", 13)
    assert missing["message"].startswith("runs/llama.toml:13: nonsense.warp_drive: ")
    estimate = (await client.post("/v1/estimate", json=asked)).json()
    assert estimate["warnings"] == [missing["message"]]
    for accepted in ("nonsense.warp_drive", "*"):
        asked = {"launch": launch(UNKNOWN, accept_unsupported=[accepted])}
        answer = (await client.post("/v1/fit-check", json=asked)).json()
        assert (answer["verdict"], answer["not_modelled"]) == ("fits", [])
        assert answer["launch"]["account"]["unsupported"][0]["accepted"] is True


async def test_a_verdict_that_is_unknown_is_so_beside_others(client: AsyncClient) -> None:
    jobs = [{"id": "known", "launch": launch()}, {"id": "unknown", "launch": launch(UNKNOWN)}]
    answer = (await client.post("/v1/compare", json={"jobs": jobs})).json()
    verdicts = [each["comparison"]["verdict"] for each in answer["jobs"]]
    assert verdicts == ["fits", "unknown"]
    assert [each["launch"]["format"] for each in answer["jobs"]] == ["torchtitan"] * 2
    patch = [{"op": "add", "path": "/parallelism/tp", "value": 2}]
    question = {"launch": launch(UNKNOWN), "changes": [{"id": "tp 2", "patch": patch}]}
    answer = (await client.post("/v1/compare", json=question)).json()
    assert answer["jobs"][0]["comparison"]["verdict"] == "unknown"


async def test_a_batch_takes_launches_beside_jobs(client: AsyncClient) -> None:
    wrong = launch(TOML.replace("8192", '"many"'))
    jobs = [{"id": "one", "launch": launch()}, {"id": "other", "launch": wrong}]
    one, other = (await client.post("/v1/estimate:batch", json={"jobs": jobs})).json()["jobs"]
    assert one["estimate"]["launch"]["format"] == "torchtitan"
    assert other["problem"]["type"] == "/problems/invalid-launch"
    assert other["problem"]["errors"][0]["pointer"] == "/launch/files/0/content"


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (TOML.replace("8192", '"many"'), 7, "training.seq_len: must be"),
        (TOML.replace("8192", "0"), 7, "training.seq_len: must be"),
        (TOML.replace("llama3", "llama33"), 3, "model.name: "),
        ("[model\n", 1, "runs/llama.toml:1: "),
    ],
)
async def test_what_is_wrong_is_told_at_its_line(
    client: AsyncClient, content: str, line: int, words: str
) -> None:
    for path, body, prefix in (
        (PATH, launch(content, format="torchtitan"), ""),
        ("/v1/estimate", {"launch": launch(content, format="torchtitan")}, "/launch"),
    ):
        response = await client.post(path, json=body)
        assert response.status_code == 422
        error = response.json()["errors"][0]
        assert (error["pointer"], error["line"]) == (f"{prefix}/files/0/content", line)
        assert words in error["message"]


async def test_a_layout_that_does_not_hold_is_told_where_the_launch_says_it(
    client: AsyncClient,
) -> None:
    content = TOML.replace("[metrics]", "pipeline_parallel_degree = 64\n[metrics]")
    response = await client.post("/v1/estimate", json={"launch": launch(content)})
    assert response.status_code == 422
    error = response.json()["errors"][0]
    assert error["pointer"] == "/launch/files/0/content"
    assert error["message"].startswith("runs/llama.toml:10: ")


async def test_what_a_launch_leaves_open_is_asked_for_in_its_overrides(
    client: AsyncClient,
) -> None:
    response = await client.post("/v1/fit-check", json={"launch": launch(gpu=None)})
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["pointer"] == "/launch/overrides/gpu"
    overrides = {"gpu": "B200", "training": {"seq_length": 4096}}
    asked = {"launch": launch(gpu=None, overrides=overrides)}
    answer = (await client.post("/v1/fit-check", json=asked)).json()
    assert answer["job"]["training"]["seq_length"] == 4096
    assert answer["job"]["gpu"].startswith("B200")


async def test_what_others_hold_is_held_of_the_card_that_the_launch_is_given(
    client: AsyncClient,
) -> None:
    overrides = {"gpu": {"reserved_other_bytes": 2**30}}
    plain, shared = [
        (await client.post("/v1/fit-check", json={"launch": each})).json()
        for each in (launch(), launch(overrides=overrides))
    ]
    assert shared["usable_bytes"] == plain["usable_bytes"] - 2**30
    assert shared["job"]["gpu"] == {"name": plain["job"]["gpu"], "reserved_other_bytes": 2**30}


@pytest.mark.parametrize(
    ("gpu", "pointer"),
    [
        ("H1000", "/launch/gpu"),
        ({"name": "H1000"}, "/launch/gpu/name"),
    ],
)
async def test_an_unknown_card_is_told_where_the_launch_is_given_it(
    client: AsyncClient, gpu: Any, pointer: str
) -> None:
    response = await client.post("/v1/fit-check", json={"launch": launch(gpu=gpu)})
    assert [each["pointer"] for each in response.json()["errors"]] == [pointer]


async def test_a_null_in_overrides_takes_a_field_away(client: AsyncClient) -> None:
    overrides = {"parallelism": {"num_gpus": None}}
    answer = (await client.post(PATH, json=launch(overrides=overrides))).json()
    assert "num_gpus" not in answer["job"]["parallelism"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, ""),
        ({"files": [{"path": "a"}]}, "/files/0/content"),
        ({"files": [{"path": "a", "content": ""}] * 2}, ""),
        ({"argv": 3}, "/argv"),
        ({"argv": "a", "env": {"A": 3}}, "/env/A"),
        ({"argv": "a", "format": "perl"}, "/format"),
        ({"argv": "a", "file": []}, "/file"),
    ],
)
async def test_a_launch_that_is_none_is_refused(
    client: AsyncClient, body: dict[str, Any], pointer: str
) -> None:
    response = await client.post(PATH, json=body)
    assert (response.status_code, response.json()["type"]) == (422, "/problems/invalid-job")
    assert response.json()["errors"][0]["pointer"] == pointer


async def test_launches_are_counted_by_format_and_outcome(client: AsyncClient) -> None:
    for content in (TOML, UNKNOWN, "[model"):
        await client.post(PATH, json=launch(content))
    metrics = (await client.get("/metrics")).text
    assert 'trainfit_launches_total{format="torchtitan",outcome="read"} 1.0' in metrics
    assert 'trainfit_launches_total{format="torchtitan",outcome="partly"} 1.0' in metrics
    assert 'trainfit_launches_total{format="unrecognised",outcome="refused"} 1.0' in metrics


@pytest.mark.parametrize("name", TO_LAUNCH_EXAMPLES)
async def test_a_job_is_written_in_keys_that_make_it_again(client: AsyncClient, name: str) -> None:
    question: Any = TO_LAUNCH_EXAMPLES[name]["value"]
    response = await client.post("/v1/jobs:to-launch", json=question)
    assert response.status_code == 200
    written, job = response.json(), question["job"]
    releases = {"megatron-args": "core_v0.16.0", "torchtitan": "v0.2.2"}
    program = {"megatron-args": "pretrain_gpt.py", "torchtitan": "torchtitan.train"}
    again = {
        "argv": [program[written["to"]], *written["arguments"]],
        "env": written["environment"],
        "overrides": {"parallelism": {"num_gpus": job["parallelism"]["num_gpus"]}},
        "gpu": job["gpu"],
        "framework_version": releases[written["to"]],
    }
    one = (await client.post("/v1/estimate", json=job)).json()
    other = (await client.post("/v1/estimate", json={"launch": again})).json()
    assert other["stages"] == one["stages"]


async def test_what_keys_cannot_say_is_refused_by_name(client: AsyncClient) -> None:
    question = {"job": LLAMA_8B, "to": "torchtitan"}
    response = await client.post("/v1/jobs:to-launch", json=question)
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert (error["pointer"], error["code"]) == ("/job/framework/name", "not_expressible")


OLD = {
    "argv": "torchrun --nproc_per_node=1 sft.py --model_name_or_path meta-llama/Llama-3.1-8B "
    "--max_seq_length 4096 --bf16 True --torch_dtype bfloat16 --gradient_checkpointing True "
    "--per_device_train_batch_size 2 --use_peft True --lora_target_modules all-linear",
    "gpu": "A100-80GB",
}
"""A key of TRL that went with 0.20, when the loss was not in chunks yet."""


async def test_every_question_spans_the_releases_that_a_launch_can_be_of(
    client: AsyncClient,
) -> None:
    estimate = (await client.post("/v1/estimate", json={"launch": OLD})).json()
    bounds = estimate["binding"]["device_bytes"]
    releases = estimate["launch"]["releases"]
    assert releases == "transformers from 4.56 to before 5.0 and trl from 0.9 to before 0.20"
    pointers = {
        each["pointer"] for other in estimate["launch"]["variants"] for each in other["differences"]
    }
    assert pointers == {"/training/optimizer/implementation", "/training/loss/shifted"}

    check = (await client.post("/v1/fit-check", json={"launch": OLD})).json()
    assert check["binding"]["device_bytes"] == bounds
    assert check["estimate"]["assumptions"] == estimate["assumptions"]

    batch = {"jobs": [{"id": "a", "launch": OLD}]}
    (answered,) = (await client.post("/v1/estimate:batch", json=batch)).json()["jobs"]
    assert answered["estimate"]["binding"]["device_bytes"] == bounds

    patch = [{"op": "replace", "path": "/training/micro_batch_size", "value": 4}]
    side = {"launch": OLD, "changes": [{"id": "twice", "patch": patch}]}
    compared = (await client.post("/v1/compare", json=side)).json()
    assert compared["baseline"]["comparison"]["binding"]["device_bytes"] == bounds
    twice = compared["jobs"][0]["comparison"]["binding"]["device_bytes"]
    longer = OLD | {"argv": str(OLD["argv"]).replace("batch_size 2", "batch_size 4")}
    alone = (await client.post("/v1/estimate", json={"launch": longer})).json()
    assert twice == alone["binding"]["device_bytes"]


async def test_a_change_of_what_releases_differ_in_counts_for_all(client: AsyncClient) -> None:
    """What is changed is as the change says, whatever a release would have made of it; in what it
    leaves alone, releases differ as before.
    """
    patch = [{"op": "add", "path": "/training/loss", "value": {"cross_entropy": "liger"}}]
    side = {"launch": OLD, "changes": [{"id": "liger", "patch": patch}]}
    (liger,) = (await client.post("/v1/compare", json=side)).json()["jobs"]
    job = (await client.post("/v1/jobs:from-launch", json=OLD)).json()["job"]
    job["training"]["loss"] = {"cross_entropy": "liger"}
    alone = []
    for implementation in ("fused", "foreach"):
        job["training"]["optimizer"]["implementation"] = implementation
        answer = (await client.post("/v1/estimate", json=job)).json()
        alone.append(answer["binding"]["device_bytes"])
    bounds = liger["comparison"]["binding"]["device_bytes"]
    assert bounds["expected"] in [each["expected"] for each in alone]
    assert bounds["low"] == min(each["low"] for each in alone)
    assert bounds["high"] == max(each["high"] for each in alone)


async def test_a_release_too_old_is_refused_by_the_first_that_is_known(client: AsyncClient) -> None:
    old = OLD | {"framework_version": "4.28.1"}
    response = await client.post("/v1/fit-check", json={"launch": old})
    assert response.status_code == 422
    assert "transformers 4.28.1 is too old; known since 4.36" in response.json()["detail"]


async def test_what_an_unknown_program_says_is_a_draft_to_confirm(client: AsyncClient) -> None:
    response = await client.post("/v1/jobs:draft", json=DRAFT_EXAMPLES["script"]["value"])
    assert response.status_code == 200
    answer = response.json()
    assert answer["programs"] == ["mytrainer"]
    assert answer["job"] == {
        "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
        "parallelism": {"tp": 2},
        "training": {"micro_batch_size": 4, "seq_length": 4096},
    }
    (length,) = [each for each in answer["said"] if each["key"] == "seq_len"]
    assert (length["file"], length["line"], length["used"]) == ("train.sh", 2, True)


async def test_a_script_that_is_not_followed_makes_no_draft(client: AsyncClient) -> None:
    twice = "for i in $(seq 9999); do for j in $(seq 9999); do X=$i$j; done; done\n"
    files = [{"path": "train.sh", "content": twice}]
    response = await client.post("/v1/jobs:draft", json={"files": files})
    assert response.status_code == 422
    assert {each["code"] for each in response.json()["errors"]} == {"invalid_launch"}
