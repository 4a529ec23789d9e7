"""What a release of axolotl demands of the libraries below."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.launch.launches import Read, launch_of, read
from trainfit.launch.axolotl.releases import PINNED, with_pinned

CONFIG = """
base_model: openai/gpt-oss-20b
fsdp_version: 2
fsdp_config:
  reshard_after_forward: true
sequence_len: 4096
sample_packing: true
micro_batch_size: 1
gradient_accumulation_steps: 2
bf16: true
"""
EACH = "/framework/sync_each_micro_batch"


def run(version: str | None) -> Read:
    words = ("accelerate", "launch", "--num_processes", "4", "-m", "axolotl.cli.train", "a.yaml")
    return read(launch_of({"a.yaml": CONFIG}, words, framework_version=version))


@pytest.mark.parametrize(
    ("version", "reduces_each"),
    [
        ("0.12.2", True),
        ("axolotl==0.12.0 accelerate==1.11.0", None),
        ("axolotl 0.13.0", None),
        (None, None),
    ],
)
def test_gradients_of_fsdp2_wait_unsharded_since_axolotl_0_13(
    version: str | None, reduces_each: bool | None
) -> None:
    assert run(version).fields().get(EACH) is reduces_each


def test_releases_before_those_that_are_known_demand_nothing() -> None:
    assert with_pinned({"axolotl": (0, 4, 1)}) == {"axolotl": (0, 4, 1)}
    assert with_pinned({}) == {}


def test_libraries_only_grow() -> None:
    for before, after in pairwise(PINNED.values()):
        assert all(before[library] <= after[library] for library in after)
