"""What a caller knows of software, network and kernels, and what the time of a step makes of it."""

from typing import Any

import pytest

from tests.steptime.test_step_time import LLAMA, plan, timed
from trainfit import TrainfitError, estimate, search
from trainfit.catalog.gpus import find_gpu
from trainfit.catalog.speed import clusters, gpu_speeds, stacks
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.steptime import StepTime, step_time, surroundings
from trainfit.steptime.calibration import carried
from trainfit.steptime.kernels import rates, tiled_seconds
from trainfit.steptime.measured import Measured, MeasuredRatio

MOE = {"hf_id": "Qwen/Qwen3-30B-A3B"}
FOUR_NODES: dict[str, Any] = {"parallelism": {"num_gpus": 32, "ep": 32}}
H100 = gpu_speeds()["H100-80GB-SXM"]


def test_bridges_software_is_faster_without_experts_and_as_fast_with_them() -> None:
    """By Megatron-Bridge's own tables; experts' products are the same kernels, and reach what
    others do under either.
    """
    software = {"stack": "megatron-bridge-26.06"}
    assert timed(speed=software).seconds.expected < 0.96 * timed().seconds.expected
    plain, bridge = timed(MOE, **FOUR_NODES), timed(MOE, **FOUR_NODES, speed=software)
    assert bridge.seconds.expected == pytest.approx(plain.seconds.expected, rel=0.03)
    assert bridge.basis == "known_stack"
    job = plan(MOE, **FOUR_NODES)
    on = surroundings(job)
    assert on is not None
    assert step_time(job, on=on._replace(stack=stacks()["megatron-bridge-26.06"])) == bridge


def test_software_of_another_framework_is_refused() -> None:
    with pytest.raises(TrainfitError, match="2025 runs torchtitan, the job megatron"):
        plan(speed={"stack": "torchtitan"})
    allowed = plan(framework={"name": "torchtitan"}, speed={"stack": "torchtitan"})
    assert surroundings(allowed) == surroundings(plan(framework={"name": "torchtitan"}))


@pytest.mark.parametrize(
    ("speed", "words"),
    [
        ({"products": [{"m": 8192, "n": 8192, "k": 8192, "seconds": 1e-4}]}, "10,995 TFLOP/s"),
        ({"link_bus_bytes_per_second": 10**12}, "1,000 GB/s are more"),
    ],
)
def test_what_is_faster_than_the_card_is_refused(speed: dict[str, Any], words: str) -> None:
    with pytest.raises(TrainfitError, match=words):
        plan(speed=speed)
    assert plan(gpu=None, speed=speed).speed is not None


def test_cards_run_above_the_clock_of_their_data_sheets() -> None:
    """A product of 8,192 each way at 76.7 TFLOP/s on an RTX 3090, whose peak is 71."""
    measured = {"m": 8192, "n": 8192, "k": 8192, "seconds": 2 * 8192**3 / 76.7e12}
    assert plan(gpu="RTX 3090", speed={"products": [measured]}).speed is not None


def test_no_generation_is_told_as_known_by_runs_of_another() -> None:
    """An A10G, an A6000 and an L40S were told as surely as the A100 and H100 whose constants stand
    in for theirs.
    """
    generations: dict[str, set[str | None]] = {}
    for name, speed in gpu_speeds().items():
        generations.setdefault(speed.reach.name, set()).add(find_gpu(name).compute_capability)
    assert [name for name, several in generations.items() if len(several) > 1] == []


@pytest.mark.parametrize(
    ("card", "measured"),
    [
        ("A100-80GB-SXM", 264.5),
        ("H100-80GB-SXM", 789.2),
        ("RTX 3090", 76.7),
        ("RTX 4090", 163.1),
        ("L20", 114.1),
    ],
)
def test_products_reach_less_than_the_best_that_was_measured(card: str, measured: float) -> None:
    """TFLOP/s of bf16 products under PyTorch (zzc0721/torch-performance-test-data@bbb8e247d5dc,
    database.md; of the L20 its issue 107).
    """
    gpu = gpu_speeds()[card]
    unit = gpu.bf16_flops * gpu.reach.bf16 / gpu.multiprocessors
    seconds = tiled_seconds(8192, 8192, 8192, unit, gpu.multiprocessors)
    assert 0.75 < 2 * 8192**3 / seconds / (1e12 * measured) < 1.0


def test_switches_that_add_up_pass_what_links_carry() -> None:
    speed = {"link_bus_bytes_per_second": round(1.1 * H100.link_bytes_per_second)}
    assert plan(speed=speed).speed is not None


def test_half_of_the_nics_take_longer_between_nodes_only() -> None:
    speed = {"nic_bytes_per_second": H100.nic_bytes_per_second // 2}
    slow, usual = (timed(MOE, **FOUR_NODES, speed=each) for each in (speed, None))
    assert slow.parts.expert_parallel_seconds > 1.5 * usual.parts.expert_parallel_seconds
    assert timed(speed=speed) == timed()


def test_bus_bandwidths_take_the_place_of_what_collectives_usually_reach() -> None:
    usual = clusters()["usual"]
    nics = H100.domain * H100.nic_bytes_per_second
    same = {
        "link_bus_bytes_per_second": round(H100.link_bytes_per_second * usual.link_efficiency),
        "network_bus_bytes_per_second": round(nics * usual.nic_efficiency),
    }
    layout = {"parallelism": {"num_gpus": 64, "tp": 4}}
    assert timed(**layout, speed=same).parts == timed(**layout).parts
    for part, field in (("tensor", "link"), ("data", "network")):
        name = f"{field}_bus_bytes_per_second"
        times = [timed(**layout, speed=each) for each in ({name: same[name] // 8}, None)]
        slow, fast = (getattr(each.parts, f"{part}_parallel_seconds") for each in times)
        assert slow > fast


def usual_seconds(m: int, n: int, k: int) -> float:
    """What is said of a product that was not measured, in bf16 under Megatron."""
    job = plan()
    own = rates(H100, stacks()["megatron"], framework_of(job).execution(job))
    units = H100.multiprocessors
    return tiled_seconds(m, n, k, own.bf16 / units, units)


def test_measured_products_take_the_place_of_the_formula() -> None:
    """The products of the down projection of Llama-3.1-8B: forward, and its two gradients."""
    sizes = [(8192, 4096, 14336), (8192, 14336, 4096), (4096, 14336, 8192)]

    def measured(factor: float) -> StepTime:
        products = [
            {"m": m, "n": n, "k": k, "seconds": factor * usual_seconds(m, n, k)}
            for m, n, k in sizes
        ]
        return timed(speed={"products": products})

    usual, slow = timed(), measured(2.0)
    assert measured(1.0).seconds.expected == pytest.approx(usual.seconds.expected)
    each = sum(usual_seconds(*size) for size in sizes)
    micro_batches = 128 // 8
    assert slow.parts.compute_seconds > usual.parts.compute_seconds + 32 * micro_batches * each
    assert slow.seconds.expected < 2 * usual.seconds.expected


def test_products_in_bf16_say_nothing_of_those_in_fp8() -> None:
    fp8 = {"precision": {"fp8_recipe": "tensorwise"}}
    slow = {"products": [{"m": 8192, "n": 4096, "k": 14336, "seconds": 1.0}]}
    head = timed(training=fp8, speed=slow).parts.compute_seconds
    assert timed(speed=slow).parts.compute_seconds > 2 * head
    in_fp8 = {"products": [{**slow["products"][0], "precision": "fp8"}]}
    assert timed(speed=in_fp8) == timed()
    assert timed(training=fp8, speed=in_fp8) != timed(training=fp8)


def test_what_is_nearest_counts_most() -> None:
    table = Measured([MeasuredRatio(1024, 1024, 1024, 1.0), MeasuredRatio(8192, 8192, 8192, 4.0)])
    assert table.ratio(1024, 1024, 1024) == 1.0
    assert table.ratio(8192, 8192, 8192) == pytest.approx(4.0)
    assert 1.0 < table.ratio(2048, 1024, 1024) < 1.2
    assert 3.2 < table.ratio(8192, 8192, 4096) < 4.0
    assert Measured([]).ratio(3, 5, 7) == 1.0


def test_no_memory_follows_from_it() -> None:
    job = {
        "model": LLAMA,
        "parallelism": {"num_gpus": 8, "tp": 2},
        "gpu": "H100-80GB",
        "training": {"seq_length": 4096, "global_batch_size": 64},
    }
    with_speed, without = (
        estimate({**job, **more}) for more in ({"speed": {"stack": "megatron-bridge"}}, {})
    )
    assert with_speed.stages == without.stages
    assert with_speed.step_seconds != without.step_seconds


def test_a_search_goes_by_it() -> None:
    job: dict[str, Any] = {
        "model": MOE,
        "parallelism": {"num_gpus": 16, "tp": 1, "pp": 1, "cp": 1, "ep": 16},
        "training": {"micro_batch_size": 1, "global_batch_size": 64, "seq_length": 4096},
        "gpu": "H100-80GB",
    }
    best = search({**job, "speed": {"stack": "megatron-bridge-26.06"}}).best[0]
    assert best.job["speed"]["stack"] == "megatron-bridge-26.06"
    assert best.step_seconds == estimate(best.job).step_seconds


def test_equal_ones_are_worked_out_once() -> None:
    speed = {"stack": "megatron-bridge", "nic_bytes_per_second": 10**10}
    assert surroundings(plan(speed=speed)) is surroundings(plan(speed=dict(speed)))


def test_own_runs_say_nothing_of_other_software() -> None:
    plain, bridge = (
        carried(plan(speed=speed), H100) for speed in (None, {"stack": "megatron-bridge"})
    )
    assert plain != bridge
