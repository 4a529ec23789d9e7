"""What launches say of PyTorch's allocator, as public scripts write it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.launch.launches import launch_of, read
from trainfit.launch.allocator import written_allocator
from trainfit.specs.framework import Torchtitan

CONFIG = "model_name_or_path: Qwen/Qwen3-8B\nper_device_train_batch_size: 1\nmax_length: 4096\n"
WORDS = "accelerate launch --num_processes 1 -m trl.scripts.sft --config a.yaml"
CUDA, HIP, BOTH = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
MIB = 2**20
GROWS, WHOLE = "expandable_segments", "max_split_size_bytes"
DIVISIONS = "roundup_power2_divisions"
UNSLOTH = "expandable_segments:True,roundup_power2_divisions:[32:256,64:128,256:64,>:32]"


@pytest.mark.parametrize(
    ("environment", "fields", "left"),
    [
        ({CUDA: "max_split_size_mb:128"}, {WHOLE: 128 * MIB}, ""),
        ({BOTH: " expandable_segments:True, "}, {GROWS: True}, ""),
        ({HIP: "garbage_collection_threshold:0.9,max_split_size_mb:128"}, {WHOLE: 128 * MIB}, ""),
        ({HIP: "max_split_size_mb:512", BOTH: "expandable_segments:True"}, {WHOLE: 512 * MIB}, ""),
        ({HIP: "expandable_segments:True", CUDA: "max_split_size_mb:512"}, {WHOLE: 512 * MIB}, ""),
        (
            {CUDA: UNSLOTH},
            {GROWS: True, DIVISIONS: [256] * 6 + [128, 1, 64, 32]},
            "",
        ),
        (
            {CUDA: "max_split_size_mb:32,roundup_power2_divisions:32"},
            {WHOLE: 32 * MIB, DIVISIONS: [32]},
            "",
        ),
        ({CUDA: "garbage_collection_threshold:0.8,backend:native"}, {}, ""),
        ({CUDA: "pinned_use_cuda_host_register:True"}, {}, ""),
        (
            {BOTH: "per_process_memory_fraction:0.9,garbage_collection_threshold:0.8"},
            {},
            "per_process_memory_fraction of PyTorch's allocator is not modelled; "
            "garbage_collection_threshold of PyTorch's allocator is not modelled",
        ),
        (
            {BOTH: "backend:cudaMallocAsync,expandable_segments:True"},
            {GROWS: True},
            "backend is cudaMallocAsync: CUDA's own allocator, which is not replayed",
        ),
        (
            {CUDA: "expandable_segments:True,roundup_power2_divisions:False"},
            {GROWS: True},
            "roundup_power2_divisions is False; a whole number is right",
        ),
        (
            {CUDA: "max_split_size_mb=512"},
            {},
            "'max_split_size_mb=512' is no option; write name:value, divided by commas",
        ),
    ],
)
def test_variables_are_read_as_pytorch_reads_them(
    environment: dict[str, str], fields: dict[str, Any], left: str
) -> None:
    found = read(launch_of({"a.yaml": CONFIG}, WORDS.split(), env=environment))
    names = (GROWS, WHOLE, DIVISIONS)
    said = {name: found.fields().get(f"/framework/{name}") for name in names}
    assert {name: value for name, value in said.items() if value is not None} == fields
    assert [each.why for each in found.account.unsupported] == ([left] if left else [])


POWERS = st.sampled_from([1, 2, 4, 16, 256])


@given(
    st.booleans(), st.none() | st.integers(20, 4096).map(MIB.__mul__), st.lists(POWERS, max_size=16)
)
def test_what_is_written_is_read(grows: bool, whole: int | None, divisions: list[int]) -> None:
    said = {GROWS: grows, WHOLE: whole, DIVISIONS: divisions}
    framework = Torchtitan.model_validate({"name": "torchtitan"} | said)
    while divisions[-2:-1] == divisions[-1:] != []:
        divisions.pop()
    written = {GROWS: grows or None, WHOLE: whole, DIVISIONS: divisions or None}
    found = read(
        launch_of({"a.yaml": CONFIG}, WORDS.split(), env={BOTH: written_allocator(framework)})
    )
    assert {name: found.field(f"/framework/{name}") for name in written} == written
