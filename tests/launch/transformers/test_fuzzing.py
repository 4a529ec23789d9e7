"""Whatever is sent is read, or refused with words; nothing crashes or hangs."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.launch.launches import DATA, launch_of, read, within
from trainfit.launch.errors import LaunchError
from trainfit.specs.launch import LaunchFormat

FORMATS: tuple[LaunchFormat, ...] = (
    "transformers",
    "accelerate",
    "deepspeed",
    "llama_factory",
    "axolotl",
)
KEYS = sorted(
    {
        key
        for fields in json.loads((DATA / "fields.json").read_text(encoding="utf-8")).values()
        for key in fields["keys"]
    }
    | {"fsdp_config.version", "deepspeed_config.zero_stage", "fsdp_config.fsdp_version"}
    | {"bf16.enabled", "fp16.enabled", "optimizer.type", "train_batch_size", "use_peft"}
)
SECONDS = 2

values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["auto", "none", "True", "bf16", "FULL_SHARD", "cpu", "1e400", "{", "3.5"]),
    st.text(max_size=8),
    st.lists(st.one_of(st.text(max_size=4), st.integers()), max_size=3),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
)
settings_of_files = st.dictionaries(st.sampled_from(KEYS), values, max_size=12)


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for key, value in flat.items():
        *parents, name = key.split(".")
        part = whole
        for parent in parents:
            inner = part.get(parent)
            part[parent] = inner if isinstance(inner, dict) else {}
            part = part[parent]
        part[name] = value
    return whole


@given(st.lists(settings_of_files, min_size=1, max_size=3), st.sampled_from(FORMATS))
@settings(max_examples=300)
def test_keys_at_any_value(files: list[dict[str, Any]], form: LaunchFormat) -> None:
    contents = {f"{n}.json": json.dumps(nested(file)) for n, file in enumerate(files)}
    with within(SECONDS), suppress(LaunchError):
        read(launch_of(contents, format=form))


@given(
    st.lists(
        st.one_of(
            st.sampled_from([f"--{key}" for key in KEYS]),
            st.sampled_from(
                ["x.yaml", "--config", "--deepspeed", "ds.json", "--no_bf16", "=", "--"]
            ),
            st.text(max_size=6),
        ),
        max_size=20,
    ),
    st.text(max_size=60),
    st.sampled_from(FORMATS),
)
@example(["--deepspeed", "ds.json", "--bf16"], "{}", "deepspeed")
@settings(max_examples=200)
def test_any_command_line(words: list[str], text: str, form: LaunchFormat) -> None:
    files = {"x.yaml": text, "ds.json": "{}"}
    with within(SECONDS), suppress(LaunchError):
        read(launch_of(files, ["sft.py", *words], format=form))


@given(st.text(max_size=200), st.sampled_from(["x.yaml", "x.json"]), st.sampled_from(FORMATS))
@settings(max_examples=200)
def test_any_text(text: str, path: str, form: LaunchFormat) -> None:
    with within(SECONDS), suppress(LaunchError):
        read(launch_of({path: text}, format=form))


def test_a_file_of_many_keys_takes_no_time() -> None:
    content = yaml.safe_dump({f"key_{n}": n for n in range(8000)} | {"output_dir": "x"})
    with suppress(LaunchError):
        read(launch_of({"x.yaml": content}, format="transformers"))
