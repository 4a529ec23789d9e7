"""Small requests that would take gigabytes or minutes, were their work not bounded.

Each is a path and a body. What must come of any of them: an answer below 500, or 503, in time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Request = tuple[str, Mapping[str, Any]]

LLAMA_405B = {
    "model": {"hf_id": "meta-llama/Llama-3.1-405B"},
    "training": {"micro_batch_size": 1, "seq_length": 8192},
    "framework": {"name": "torchtitan"},
    "gpu": "H100-80GB",
}


def pipeline(pp: int, vpp: int, layers: int, microbatches: int) -> dict[str, Any]:
    """A job of torchtitan with a long interleaved pipeline."""
    config = {
        "model_type": "llama",
        "num_hidden_layers": layers,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    }
    return {
        **LLAMA_405B,
        "model": {"hf_config": config},
        "parallelism": {"num_gpus": pp, "pp": pp, "vpp": vpp},
        "training": {
            "micro_batch_size": 1,
            "num_microbatches": microbatches,
            "seq_length": 8192,
        },
    }


LONG = pipeline(64, 12, 768, 128)
LONGEST = pipeline(512, 4, 2048, 1024)


def script(text: str) -> Request:
    """A launch script of these lines before what it starts."""
    launched = f"{text}\ntorchrun --nproc_per_node 8 pretrain_gpt.py --micro-batch-size $X\n"
    return "/v1/jobs:from-launch", {"files": [{"path": "train.sh", "content": launched}]}


def document(name: str, text: str) -> Request:
    """A launch of one file."""
    return "/v1/jobs:from-launch", {"files": [{"path": name, "content": text}]}


def log(text: str) -> tuple[str, Any]:
    """A text that is read for measurements."""
    return "/v1/measurements:from-logs", {"artifacts": [{"name": "a.log", "text": text}]}


RECORDING = {
    "rank": 0,
    "events": 2**31,
    "wrapped": True,
    "expandable_segments": False,
    "peak_bytes": 2**53 - 1,
    "peak": [
        {
            "bytes": 512 * n,
            "count": 2**20,
            "phase": "forward",
            "kept": True,
            "stack": ["f" * 256] * 8,
        }
        for n in range(1, 400)
    ],
    "allocated_bytes": 2**53 - 1,
    "reserved_bytes": 2**53 - 1,
    "segments": [
        {"bytes": n, "count": 2**31, "allocated_bytes": n, "kind": "small", "expandable": True}
        for n in range(1, 1024)
    ],
}
"""A recording that is as long as a body may be."""


REPORT = "[Rank %d] (after 7 iterations) memory (MB) | allocated: 9.00 | max allocated: 9000.00"
FIGURES = {
    "measurements": [
        {"counter": "allocated_bytes.all.peak", "bytes": 10**10 + rank, "rank": rank}
        for rank in range(1000)
    ]
}


def reviewed(annotation: str) -> Request:
    """An object on its way into a cluster, with this job."""
    metadata = {"name": "a", "annotations": {"trainfit.dev/job": annotation}}
    kind = {"group": "batch", "version": "v1", "kind": "Job"}
    return "/v1/admission?timeout=5s", {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "1", "kind": kind, "object": {"metadata": metadata, "spec": {}}},
    }


def merges(width: int, depth: int) -> str:
    """Mappings that each merge the one before many times."""
    lines = ["a0: &a0 {k: v}"]
    lines += [
        f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * width)}], k{n}: v}}"
        for n in range(1, depth)
    ]
    return "\n".join(lines)


def aliases(width: int, depth: int) -> str:
    """Lists that each hold the one before many times."""
    lines = ["a0: &a0 [x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, depth)]
    return "\n".join(lines)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def batch(job: Mapping[str, Any], jobs: int = 64) -> dict[str, Any]:
    return {"jobs": [{"id": str(number), "job": job} for number in range(jobs)]}


def changes(job: Mapping[str, Any]) -> dict[str, Any]:
    path = "/training/seq_length"
    return {
        "job": job,
        "changes": [
            {"id": str(n), "patch": [{"op": "replace", "path": path, "value": 1024 + n}]}
            for n in range(64)
        ],
    }


def values_of_values(depth: int) -> str:
    """Variables whose values are sums of the one before, which arithmetic works out each time."""
    return "a0=1\n" + "".join(f"a{n}='a{n - 1}+a{n - 1}'\n" for n in range(1, depth))


def command(*words: str) -> Request:
    """A command line in words."""
    return "/v1/jobs:from-launch", {"argv": words}


def trained(**config: Any) -> Request:
    """A job of a model with these keys of its config."""
    job = pipeline(1, 1, 32, 1)
    return "/v1/estimate", {**job, "model": {"hf_config": {**job["model"]["hf_config"], **config}}}


def scheduled(**spec: Any) -> Request:
    """A job of Megatron's with these fields of its model."""
    model = {"num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "vocab_size": 128256}
    job = {**LLAMA_405B, "model": {"spec": {**model, **spec}}, "framework": {"name": "megatron"}}
    return "/v1/estimate", job


HOSTILE: Mapping[str, Request] = {
    "a key of many parts": command(
        *["accelerate", "launch", "sft.py", "--model_name_or_path", "Qwen/Qwen3-8B"],
        f"--{'a.' * 30_000}b",
    ),
    "merge keys of YAML": document("train.yaml", merges(9, 30)),
    "aliases of YAML": document("train.yaml", aliases(9, 30)),
    "a number to the base of sixty": document("train.yaml", f"a: {':'.join(['1'] * 100_000)}"),
    "a float to the base of sixty": document("train.yaml", f"a: {':'.join(['1'] * 400)}.5"),
    "hexadecimal digits": document("train.yaml", f"a: 0x{'f' * 20_000}"),
    "brackets": document("train.yaml", "[" * 90_000),
    "keys of YAML": document("train.yaml", "".join(f"k{n}: 1\n" for n in range(18_000))),
    "tags of YAML": document("train.yaml", "".join(f"%TAG !{n}! a\n" for n in range(15_000))),
    "dotted keys of TOML": document("train.toml", f"{'.'.join(['a'] * 100_000)} = 1"),
    "tables of TOML": document("train.toml", f"[{'.'.join(['a'] * 100_000)}]"),
    "brackets of JSON": document("config.json", "[" * 90_000),
    "exported variables": script("".join(f"export V{n}={n}\n" for n in range(4_000))),
    "open parameters": script("${" * 100_000),
    "open substitutions": script("$(" * 50_000),
    "open brackets of arithmetic": script(f"X=$(({'(' * 50_000}"),
    "a loop without end": script("while true; do X=$X$X; done"),
    "a loop of a thousand million": script("for ((i = 0; i < 1000000000; i++)); do X=$i; done"),
    "a text that doubles": script("X=ab\n" + "X=$X$X\n" * 60),
    "a function that calls itself": script("f() { f; f; }\nf"),
    "a power of a power": script("X=$((9**9**9**9))"),
    "braces": script("for i in {1..1000000000}; do X=$i; done"),
    "braces of braces": script(f"X={'{a,b}' * 30}"),
    "a pattern of stars": script(f"case {'a' * 60}b in {'*a' * 30}*c) X=1;; esac"),
    "an expression that goes back": script(f"[[ {'a' * 60}b =~ ^((a+)+)+$ ]] && X=1"),
    "a wide field": script("printf -v X '%1000000000d' 1"),
    "values of values in arithmetic": script(f"{values_of_values(60)}X=$((a59))"),
    "an index of an array in itself": script("X='a[X]'\na[0]=1\nY=$((a[X]))"),
    "a script of semicolons": script(f"true{';:' * 80_000}"),
    "a script of pipes": script(f"a{'|a' * 60_000}"),
    "an array that doubles": script("A=(a)\n" + "A+=(${A[@]})\n" * 60),
    "a pattern within patterns": script(
        f"shopt -s extglob\ncase {'a' * 60}b in +(a|aa|+(a))c) X=1;; esac"
    ),
    "a replacement that grows": script("X=aaaaaaaaaa\n" + "X=${X//a/aaaaaaaaaa}\n" * 30),
    "references in a circle": script("declare -n a=b\ndeclare -n b=a\na=1\nX=$b"),
    "a file that includes itself": script("source train.sh"),
    "a text that evaluates itself": script('X=\'X=$X$X; eval "$X"\'\neval "$X"'),
    "here-documents in here-documents": script(
        "".join(f"cat <<E{n}\n$(cat <<F{n}\nx\nF{n}\n)\nE{n}\n" for n in range(3_000))
    ),
    "a recipe of open brackets": document("train.py", f"x = {'(' * 90_000}1{')' * 90_000}"),
    "a recipe of powers": document("train.py", "num_layers = 9**9**9**9"),
    "options that do not exist": command(
        "torchrun", "pretrain_gpt.py", *(f"--num-layer{n}" for n in range(4_000))
    ),
    "an override of many levels": command(
        "python", "-m", "verl.trainer.main_ppo", f"{'.'.join(['a'] * 30_000)}=1"
    ),
    "a schedule of experts that is long": command(
        "torchrun",
        "pretrain_gpt.py",
        "--num-experts=8",
        "--moe-layer-freq=([0]*1000000000+[1])",
    ),
    "thousands of classes": trained(architectures=["Qwen2ForCausalLM"] * 9_000),
    "a card of a megabyte": ("/v1/estimate", {**LLAMA_405B, "gpu": "x" * 1_000_000}),
    "a config of thousands of layer types": trained(
        num_hidden_layers=2048, layer_types=["full_attention", "sliding_attention"] * 1024
    ),
    "a schedule of experts as a power": scheduled(num_moe_experts=8, moe_layer_freq="[1]*9**9**9"),
    "a number that is none": ("/v1/estimate", {**LLAMA_405B, "gpu": {"memory_bytes": 1e308}}),
    "half a surrogate pair": ("/v1/estimate", {**LLAMA_405B, "gpu": "\ud800"}),
    "as many dear jobs as are taken": ("/v1/estimate:batch", batch(pipeline(1, 1, 2000, 1))),
    "endless launches in a batch": (
        "/v1/estimate:batch",
        {
            "jobs": [
                {"id": str(n), "launch": script("while true; do X=$X$X; done")[1]}
                for n in range(64)
            ]
        },
    ),
    "a long pipeline": ("/v1/estimate", LONG),
    "the longest pipeline": ("/v1/estimate", LONGEST),
    "a check of a long pipeline": ("/v1/fit-check", LONG),
    "a check of the longest pipeline": ("/v1/fit-check", LONGEST),
    "limits of the longest pipeline": (
        "/v1/fit-check",
        {**LONGEST, "limits": {"micro_batch_size": True, "seq_length": True}},
    ),
    "a ledger of the longest pipeline": ("/v1/ledger", LONGEST),
    "a batch of the longest pipelines": ("/v1/estimate:batch", batch(LONGEST)),
    "several of the longest pipelines": ("/v1/estimate:batch", batch(LONGEST, 16)),
    "changes to the longest pipeline": ("/v1/compare", changes(LONGEST)),
    "a million layers": ("/v1/estimate", pipeline(1, 1, 1_000_000, 1)),
    "a million micro-batches": ("/v1/estimate", pipeline(16, 4, 64, 1_000_000)),
    "a million stages": ("/v1/estimate", pipeline(1_000_000, 1, 1_000_000, 1)),
    "a deep config": (
        "/v1/estimate",
        {**LLAMA_405B, "model": {"hf_config": {"model_type": "llama", "a": nested(300)}}},
    ),
    "merge keys in an annotation": reviewed(merges(9, 30)),
    "aliases in an annotation": reviewed(aliases(9, 30)),
    "the longest pipeline in an annotation": reviewed(json.dumps(LONGEST)),
    "brackets in an annotation": reviewed("[" * 90_000),
    "a log of figures without end": log("1MiB / 2MiB\n" * 80_000),
    "a log of one line": log("[Rank 1] (after memory (MB) | " * 34_000),
    "a log of beginnings": log(("DCGM_FI_DEV_FB_USED{" * 900 + "\n") * 55),
    "a long log beside a long job": (
        "/v1/reconcile",
        LONG | {"run": log(f"{REPORT % 5}\n" * 20_000)[1]},
    ),
    "layouts of many cards and alternatives": (
        "/v1/search",
        {
            "model": {"hf_id": "deepseek-ai/DeepSeek-V3"},
            "training": {"global_batch_size": 6_720_000},
            "gpus": [
                "H100-80GB",
                "H200",
                "B200",
                "B300",
                "A100-80GB",
                "A100-40GB",
                "GB200",
                "GB300",
            ],
            "max_gpus": 131_072,
            "alternatives": {"/training/seq_length": [1024 * n for n in range(1, 17)]},
        },
    ),
    "the longest sequence of two thousand layers": (
        "/v1/search",
        {
            "model": LONGEST["model"],
            "framework": {"name": "torchtitan"},
            "gpu": "B300",
            "objective": "longest_sequence",
            "max_gpus": 131_072,
        },
    ),
    "many figures beside the longest job": ("/v1/reconcile", LONGEST | {"run": FIGURES}),
    "a recording of many blocks beside the longest job": (
        "/v1/reconcile",
        LONGEST | {"run": {"snapshot_summary": RECORDING}},
    ),
    "many of the longest jobs to calibrate by": (
        "/v1/calibrations:fit",
        {"runs": [LONGEST | {"run": FIGURES}] * 16},
    ),
}
