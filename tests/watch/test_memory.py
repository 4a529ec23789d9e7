"""A watch on a loop whose card is made up: the statistics are those that PyTorch would tell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from time import process_time
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import trainfit
from trainfit.questions.python import estimate, reconcile
from trainfit.watch import (
    MemoryWarning,
    MemoryWatch,
    accelerate_tracker,
    lightning_callback,
    trainer_callback,
)
from trainfit.watch.memory import MOST_READINGS

SERVICE = Path(trainfit.__file__).parents[1]
GIB = 2**30
JOB: dict[str, Any] = {
    "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
    "parallelism": {"num_gpus": 8},
    "training": {"seq_length": 4096},
    "framework": {"name": "torchtitan"},
}


class Card:
    """What `torch.cuda` says of a card whose memory is set here. It has nothing that resets."""

    def __init__(self, capacity: float = 80) -> None:
        self.capacity = round(capacity * GIB)
        self.now = self.peak = self.reserved = 0
        self.outside = GIB
        self.read = 0

    def use(self, now: float, peak: float, slack: float = 0.0) -> None:
        """So many GiB are allocated, and were at the most, and so many are cached beside those."""
        self.now, self.peak = round(now * GIB), max(self.peak, round(peak * GIB))
        self.reserved = max(self.reserved, self.peak + round(slack * GIB))

    def memory_stats(self) -> dict[str, int]:
        self.read += 1
        return {
            "allocated_bytes.all.current": self.now,
            "allocated_bytes.all.peak": self.peak,
            "active_bytes.all.peak": self.peak,
            "reserved_bytes.all.current": self.reserved,
            "reserved_bytes.all.peak": self.reserved,
            "num_alloc_retries": 0,
            "num_ooms": 0,
        }

    def mem_get_info(self) -> tuple[int, int]:
        return self.capacity - self.reserved - self.outside, self.capacity


def run(watch: MemoryWatch, card: Card, steps: int) -> None:
    """A loop that takes what is predicted of JOB."""
    (stage,) = estimate(JOB).stages
    resident, peak = stage.resident_bytes / GIB, stage.allocated_bytes.expected / GIB
    slack = stage.reserved_bytes.expected / GIB - peak
    card.use(resident / 4, resident / 4)
    watch.moment("model")
    for _ in range(steps):
        card.use(resident, peak, slack)
        watch.step_end()


def test_what_was_read_stands_beside_what_was_predicted() -> None:
    card = Card()
    watch = MemoryWatch(JOB, rank=0, cuda=card)
    run(watch, card, 60)
    report = watch.report()
    told = {each.quantity: each for each in report.comparisons}
    assert {each.verdict for each in told.values()} == {"within"}
    assert told.keys() == {"resident", "allocated", "reserved", "device"}
    assert [each.step for each in watch.readings] == [0, 1, 2, 3, 28, 53]
    assert "allocated: " in str(report)
    assert "headroom" in {each.id for each in report.findings}


def test_what_is_read_of_a_run_of_which_nothing_is_known_can_be_printed() -> None:
    card = Card()
    watch = MemoryWatch(rank=0, cuda=card)
    run(watch, card, 3)
    assert "reserved_bytes.all.peak: " in str(watch.report())


def test_a_watch_that_compares_nothing_needs_no_package(tmp_path: Path) -> None:
    """A container that trains has PyTorch, and none of the service's packages. `-S` leaves out all
    that is installed, and `torch` is a file.
    """
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    (tmp_path / "torch" / "cuda.py").write_text(
        "memory_stats = lambda: {'allocated_bytes.all.peak': 2**30}\n"
        "mem_get_info = lambda: (2**30, 2**31)\n"
    )
    loop = f"""
import sys
sys.path[:0] = {[str(tmp_path), str(SERVICE)]!r}
from trainfit.watch import MemoryWatch
with MemoryWatch(rank=0, folder={str(tmp_path)!r}) as watch:
    watch.moment("model")
    watch.step_end()
    print(watch.report())
    raise RuntimeError("CUDA out of memory.")
"""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", loop], capture_output=True, text=True)
    assert "allocated_bytes.all.peak: 1.0 GiB, step 1" in done.stdout
    assert "RuntimeError: CUDA out of memory." in done.stderr
    question = json.loads((tmp_path / "trainfit-out-of-memory-rank0.json").read_text())
    assert len(question["run"]["measurements"]) == 14
    assert reconcile(JOB, **question["run"]).coverage.ranks == [0]


def test_its_figures_are_what_reconcile_takes() -> None:
    card = Card()
    watch = MemoryWatch(JOB, rank=3, cuda=card)
    run(watch, card, 3)
    found = reconcile(JOB, measurements=watch.question()["run"]["measurements"])
    assert found.comparisons == watch.report().comparisons
    assert found.coverage.ranks == [3]


@pytest.mark.parametrize("known", [True, False])
def test_the_second_step_is_told_before_it_begins(known: bool) -> None:
    """The first step peaks without the optimizer's states; the second has them beside its own."""
    (stage,) = estimate(JOB).stages
    adds = (stage.allocated_bytes.expected - stage.resident_bytes) / GIB
    resident = stage.resident_bytes / GIB
    before = resident / 3
    card = Card(capacity=resident + adds)  # which leaves nothing for what lies outside PyTorch
    watch = MemoryWatch(JOB if known else None, rank=0, cuda=card)
    card.use(before, before)
    watch.moment("model")
    card.use(resident, before + adds)
    with pytest.warns(MemoryWarning, match="the next step is expected to allocate"):
        watch.step_end()
    assert watch.foretold is not None
    expected = resident + adds
    assert watch.foretold.allocated_bytes / GIB == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("known", [True, False])
def test_what_the_backward_took_is_what_the_second_step_adds(known: bool) -> None:
    """Where the optimizer's step is the highest moment of the first, that is none of the second:
    weights of 10 GiB and gradients of 10, moments of 20, activations of 12.
    """
    card = Card()
    watch = MemoryWatch(JOB if known else None, rank=0, cuda=card)
    card.use(10, 10)
    watch.moment("model")
    card.use(20, 22)
    watch.before_optimizer()
    card.use(30, 40)
    watch.step_end()
    assert watch.foretold is not None
    assert watch.foretold.allocated_bytes == (30 + 12) * GIB


def test_nothing_is_warned_of_where_there_is_room() -> None:
    card = Card()
    watch = MemoryWatch(estimate(JOB), rank=0, cuda=card)
    run(watch, card, 1)
    assert watch.foretold is not None
    assert watch.foretold.device_bytes < watch.foretold.capacity_bytes


class OutOfMemoryError(RuntimeError):
    """PyTorch's own has this name."""


@pytest.mark.parametrize(
    "error",
    [
        OutOfMemoryError("CUDA out of memory."),
        RuntimeError("CUDA out of memory. Tried"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)
def test_a_full_memory_leaves_a_question(error: Exception, tmp_path: Path) -> None:
    card = Card()
    watch = MemoryWatch(JOB, rank=2, folder=tmp_path, cuda=card)
    run(watch, card, 2)
    with pytest.warns(MemoryWarning, match="rank2"), pytest.raises(type(error)), watch:
        raise error
    question = json.loads((tmp_path / "trainfit-out-of-memory-rank2.json").read_text())
    assert question["run"]["artifacts"][0]["text"] == str(error)
    asked = {name: value for name, value in question.items() if name != "run"}
    assert reconcile(asked, **question["run"]).coverage.ranks == [2]


def test_another_error_leaves_nothing(tmp_path: Path) -> None:
    watch = MemoryWatch(JOB, rank=0, folder=tmp_path, cuda=Card())
    with pytest.raises(ValueError, match="shapes"), watch:
        raise ValueError("shapes")
    assert not list(tmp_path.iterdir())


def test_a_long_run_is_read_less_often() -> None:
    card = Card()
    watch = MemoryWatch(rank=0, every=1, cuda=card)
    for _ in range(10 * MOST_READINGS):
        watch.step_end()
    assert len(watch.readings) <= MOST_READINGS
    assert card.read < 5 * MOST_READINGS
    assert watch.report().figures


@pytest.mark.alone
def test_a_step_costs_less_than_50_microseconds() -> None:
    watch = MemoryWatch(JOB, rank=0, cuda=Card())
    began = process_time()
    for _ in range(20_000):
        watch.step_end()
    assert (process_time() - began) / 20_000 < 50e-6


def module(name: str, monkeypatch: pytest.MonkeyPatch, **contents: Any) -> None:
    """A library that is not installed, with what is used of it."""
    made = ModuleType(name)
    vars(made).update(contents)
    monkeypatch.setitem(sys.modules, name, made)


class Base:
    """What the libraries' classes are to those that derive from them."""


def test_a_trainer_of_transformers_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    module("transformers", monkeypatch, TrainerCallback=Base)
    watch = MemoryWatch(rank=0, cuda=Card())
    callback = trainer_callback(watch)
    callback.on_train_begin(None, None, None, model=None)
    callback.on_pre_optimizer_step(None, None, None, model=None)
    callback.on_step_end(None, SimpleNamespace(global_step=7), None, model=None)
    callback.on_pre_optimizer_step(None, None, None, model=None)
    assert [(each.step, each.moment) for each in watch.readings] == [
        (0, "model"),
        (0, "before the optimizer step"),
        (7, "end of a step"),
    ]


@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
def test_a_trainer_of_lightning_calls_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """As Lightning 2.6 does where a gradient is accumulated over two batches of a resumed run."""
    module(name, monkeypatch, Callback=Base)
    watch = MemoryWatch(rank=0, folder=tmp_path, cuda=Card())
    callback = lightning_callback(watch)
    callback.on_train_start(SimpleNamespace(global_step=10), None)
    for step in (11, 12):
        callback.on_train_batch_end(SimpleNamespace(global_step=step - 1), None, None, None, 0)
        callback.on_before_optimizer_step(None, None, None)
        callback.on_train_batch_end(SimpleNamespace(global_step=step), None, None, None, 1)
    callback.on_exception(None, None, ValueError("shapes"))
    assert not list(tmp_path.iterdir())
    with pytest.warns(MemoryWarning):
        callback.on_exception(None, None, OutOfMemoryError("CUDA out of memory."))
    assert [(each.step, each.moment) for each in watch.readings] == [
        (0, "model"),
        (0, "before the optimizer step"),
        (11, "end of a step"),
    ]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_loop_of_accelerate_logs_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    module("accelerate.tracking", monkeypatch, GeneralTracker=Base)
    watch = MemoryWatch(rank=0, cuda=Card())
    tracker = accelerate_tracker(watch)
    tracker.store_init_configuration({})
    tracker.log({"loss": 1.0}, step=4)
    assert tracker.tracker is watch
    assert [each.step for each in watch.readings] == [0, 4]


def test_without_a_card_of_ones_own_it_is_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card()
    module(
        "torch.cuda", monkeypatch, memory_stats=card.memory_stats, mem_get_info=card.mem_get_info
    )
    module("torch", monkeypatch)
    monkeypatch.setenv("RANK", "5")
    watch = MemoryWatch(JOB)
    watch.step_end()
    assert {each.rank for each in watch.report().figures} == {5}
