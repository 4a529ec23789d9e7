"""The GPU catalogue: every datum holds, every spelling finds its card."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from collections import Counter
from importlib.resources import files
from typing import get_args

import pytest

from trainfit.catalog.gpus import (
    Confidence,
    Gpu,
    Mig,
    MigProfile,
    UnknownGpuError,
    find_gpu,
    gpus,
    spelling_key,
)

GIB = 2**30
MAX_SAFE_INTEGER = 2**53 - 1
CATALOGUE = files("trainfit.catalog").joinpath("gpus.json")

every_gpu = pytest.mark.parametrize("gpu", gpus(), ids=lambda gpu: gpu.name)

SLICES = [(gpu, gpu.mig, each) for gpu in gpus() if gpu.mig for each in gpu.mig.profiles]
every_slice = pytest.mark.parametrize(
    ("gpu", "mig", "profile"), SLICES, ids=[f"{gpu.name} {each.name}" for gpu, _, each in SLICES]
)


@every_gpu
def test_numbers_are_positive_integers_that_json_keeps(gpu: Gpu) -> None:
    numbers = [
        gpu.marketing_gb,
        gpu.reported_bytes,
        gpu.memory_bandwidth_bytes_per_second,
        gpu.gpus_per_node,
        *(flops for flops in (gpu.bf16_flops, gpu.fp8_flops) if flops is not None),
    ]
    for number in numbers:
        assert type(number) is int
        assert 0 < number <= MAX_SAFE_INTEGER


@every_gpu
def test_reported_memory_is_close_to_what_is_sold(gpu: Gpu) -> None:
    assert 0.85 <= gpu.reported_bytes / (gpu.marketing_gb * GIB) <= 1.02


@every_gpu
def test_words_are_of_their_kind(gpu: Gpu) -> None:
    assert gpu.vendor in ("nvidia", "amd", "intel", "huawei")
    assert gpu.confidence in get_args(Confidence)
    assert gpu.source
    assert gpu.interconnect
    if gpu.vendor == "nvidia":
        assert gpu.compute_capability is not None
        assert re.fullmatch(r"sm_\d{2,3}", gpu.compute_capability)
    else:
        assert gpu.compute_capability is None


@every_gpu
def test_compute_follows_the_generation(gpu: Gpu) -> None:
    if gpu.fp8_flops is not None:
        assert gpu.bf16_flops is not None
        assert gpu.fp8_flops >= gpu.bf16_flops
    if gpu.compute_capability is not None:
        generation = int(gpu.compute_capability.removeprefix("sm_"))
        assert (gpu.bf16_flops is not None) == (generation >= 80)
        assert (gpu.fp8_flops is not None) == (generation >= 89)


@every_gpu
def test_the_card_is_found_by_its_name_and_every_alias(gpu: Gpu) -> None:
    for name in (gpu.name, *gpu.aliases):
        assert find_gpu(name) is gpu
        assert find_gpu(f" {name.upper().replace(' ', '_')} ") is gpu
        assert find_gpu(name.lower().replace("-", "")) is gpu


@every_slice
def test_a_slice_is_a_share_of_its_card(gpu: Gpu, mig: Mig, profile: MigProfile) -> None:
    assert mig.confidence in get_args(Confidence)
    assert mig.source
    assert profile.instances * profile.memory_eighths <= 8
    share = gpu.reported_bytes * profile.memory_eighths / 8
    assert 0.91 * share <= profile.reported_bytes <= share


@every_slice
def test_a_slice_is_named_after_its_compute_and_memory(
    gpu: Gpu, mig: Mig, profile: MigProfile
) -> None:
    named = re.fullmatch(r"(\d)g\.(\d+)gb", profile.name)
    assert named is not None
    most_compute = max(int(each.name[0]) for each in mig.profiles)
    assert int(named[1]) * profile.instances <= most_compute
    assert 0.88 <= profile.reported_bytes / (int(named[2]) * GIB) <= 1
    assert find_gpu(f"{gpu.name} {profile.name}").marketing_gb == int(named[2])


@every_slice
def test_a_slice_is_found_as_a_card_of_its_own(gpu: Gpu, mig: Mig, profile: MigProfile) -> None:
    for name in (gpu.name, *gpu.aliases):
        for spelling in (f"{name} {profile.name}", f"{name} MIG {profile.name}+me"):
            found = find_gpu(spelling)
            assert found.name == f"{gpu.name} {profile.name}"
            assert found.reported_bytes == profile.reported_bytes
            assert found.compute_capability == gpu.compute_capability
            assert found.confidence == mig.confidence
            assert found.mig is None
            assert found.bf16_flops is not None
            assert gpu.bf16_flops is not None
            assert found.bf16_flops <= gpu.bf16_flops
    assert find_gpu(found.name) == found


def test_slices_are_of_cards_that_have_them() -> None:
    named = [
        name
        for family in json.loads(CATALOGUE.read_text("utf-8"))["mig"]
        for name in family["cards"]
    ]
    assert len(set(named)) == len(named)
    assert set(named) == {gpu.name for gpu in gpus() if gpu.mig is not None}


@pytest.mark.parametrize(
    ("spelling", "close"),
    [
        ("A100 3g.40gb", {"A100-80GB-SXM 3g.40gb", "A100-80GB-PCIe 3g.40gb"}),
        ("A100 1g.5gb", {"A100-40GB 1g.5gb"}),
        ("B300 1g.23gb", {"B300 1g.34gb", "B300 4g.135gb"}),
        ("L4 1g.5gb", set()),
        ("3g.40gb", set()),
    ],
)
def test_a_slice_that_no_card_has_is_refused_with_those_that_are_near(
    spelling: str, close: set[str]
) -> None:
    with pytest.raises(UnknownGpuError) as caught:
        find_gpu(spelling)
    assert close <= set(caught.value.close_matches)
    assert bool(close) == bool(caught.value.close_matches)


@pytest.mark.parametrize("size", ["80", "80g", "80GB", "80 GiB"])
def test_a_size_in_the_place_of_a_name_asks_which_card(size: str) -> None:
    with pytest.raises(UnknownGpuError, match=r"^which card of 80 GB: A100-80GB-SXM, .*\?$"):
        find_gpu(size)


def test_a_size_of_no_card_is_no_name() -> None:
    with pytest.raises(UnknownGpuError, match=r"^no such GPU"):
        find_gpu("81GB")


def test_no_name_or_alias_stands_for_two_cards() -> None:
    keys = Counter(spelling_key(name) for gpu in gpus() for name in (gpu.name, *gpu.aliases))
    assert [key for key, count in keys.items() if count > 1] == []


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("H100-80GB", "H100-80GB-SXM"),
        ("h100", "H100-80GB-SXM"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB-SXM"),
        ("H100 PCIe", "H100-80GB-PCIe"),
        ("a100-80gb", "A100-80GB-SXM"),
        ("A100-40G", "A100-40GB"),
        ("a100_sxm4_40gb", "A100-40GB"),
        ("h200", "H200-141GB"),
        ("H20", "H20-96GB"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("rtx4090", "RTX 4090"),
        ("a6000", "RTX A6000"),
        ("mi300x", "MI300X"),
        ("b200", "B200"),
        ("DGX Spark", "GB10"),
        ("tesla p100-pcie-16gb", "P100-16GB"),
        ("A100-SXM-64GB", "A100-64GB"),
        ("NVIDIA L20", "L20"),
        ("H100 MIG 3g.40gb", "H100-80GB-SXM 3g.40gb"),
        ("A100-40GB-SXM 1g.5gb", "A100-40GB 1g.5gb"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100-40GB 1g.5gb"),
        ("h200_1g.18gb+me", "H200-141GB 1g.18gb"),
    ],
)
def test_what_people_type_finds_the_card(spelling: str, name: str) -> None:
    assert find_gpu(spelling).name == name


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        ("A100", {"A100-40GB", "A100-64GB", "A100-80GB-SXM"}),
        ("V100", {"V100-16GB", "V100-32GB"}),
        ("GH200", {"GH200-96GB", "GH200-144GB"}),
    ],
)
def test_a_family_sold_in_several_sizes_is_refused_with_its_sizes(
    family: str, sizes: set[str]
) -> None:
    with pytest.raises(UnknownGpuError) as caught:
        find_gpu(family)
    assert sizes <= set(caught.value.close_matches)
    assert all(name in str(caught.value) for name in sizes)


def test_a_typing_error_gets_close_matches_that_are_names() -> None:
    with pytest.raises(UnknownGpuError) as caught:
        find_gpu("H10O 80GB")
    names = {gpu.name for gpu in gpus()}
    assert "H100-80GB-SXM" in caught.value.close_matches
    assert set(caught.value.close_matches) <= names


@pytest.mark.parametrize("name", ["", " -_", "§§§", "x" * 100_000])
def test_a_name_like_no_other_is_refused_without_matches_or_echo(name: str) -> None:
    with pytest.raises(UnknownGpuError) as caught:
        find_gpu(name)
    assert caught.value.close_matches == ()
    assert str(caught.value) == "no such GPU in the catalogue; give its memory_bytes"


def test_a_card_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        find_gpu("H100").marketing_gb = 81  # type: ignore[misc]


def test_importing_the_catalogue_brings_in_no_framework() -> None:
    script = (
        "import sys, trainfit.catalog.configs, trainfit.catalog.gpus\n"
        "print(sorted({'pydantic', 'httpx', 'fastapi', 'yaml'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
