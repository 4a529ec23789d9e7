"""The constants of step time: what they may be, and where they are from."""

from typing import get_args

from trainfit.catalog.gpus import find_gpu
from trainfit.catalog.speed import clusters, gpu_speeds, stacks
from trainfit.specs.framework import FrameworkName
from trainfit.specs.speed import StackName


def test_no_gpu_exceeds_its_peaks() -> None:
    for name, gpu in gpu_speeds().items():
        reach = gpu.reach
        assert find_gpu(name).name == name
        assert (gpu.fp8_flops is None) == (reach.fp8 is None), name
        assert gpu.fp4_flops is None or gpu.fp4_flops >= 2 * (gpu.fp8_flops or 0), name
        for ratio in (reach.bf16, reach.fp8 or 0.5, reach.attention, reach.flash2, reach.memory):
            assert 0.2 < ratio < 0.95, name
        assert reach.flash2 <= reach.attention, name
        assert gpu.domain >= 1
        assert reach.source


def test_products_of_no_stack_exceed_what_was_measured() -> None:
    """Microbenchmarks reach 0.87 of the dense peak at most."""
    gpus = {gpu.reach.name: gpu for gpu in gpu_speeds().values()}
    for stack in stacks().values():
        for name in stack.compared:
            assert gpus[name].reach.bf16 * stack.products <= 0.87, (stack.name, name)


def test_a_job_names_every_stack() -> None:
    assert set(get_args(StackName)) == set(stacks())
    assert {stack.framework for stack in stacks().values()} == set(get_args(FrameworkName))


def test_shares_are_ratios_and_have_sources() -> None:
    for stack in stacks().values():
        for ratio in (
            stack.grouped,
            stack.tensor_hidden,
            stack.tensor_overlapped,
            stack.expert_hidden,
            stack.expert_overlapped,
            stack.pipeline_hidden,
            stack.data_hidden,
            stack.data_floor,
            stack.gathered_hidden,
            stack.gathered_floor,
        ):
            assert 0 <= ratio <= 1, stack.name
        assert stack.expert_host_seconds >= stack.host_seconds > 0, stack.name
        assert stack.pieces_host_ratio >= 1, stack.name
        assert stack.tensor_overlapped >= stack.tensor_hidden, stack.name
        assert stack.what
        assert bool(stack.sources) == bool(stack.compared), stack.name
    for cluster in clusters().values():
        assert 0 < cluster.link_efficiency <= 1
        assert 0 < cluster.nic_efficiency <= 1
        assert 0 < cluster.products <= 1
        assert cluster.sources
