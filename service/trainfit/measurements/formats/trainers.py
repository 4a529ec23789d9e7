"""torchtitan, torchtune, axolotl, nanotron, DeepSpeed, ms-swift and Liger's callback.

Sources: torchtitan/components/metrics.py and trainer.py; torchtune/training/memory.py
(get_memory_stats, log_memory_stats) and, before its 0.1, torchtune/utils/memory.py
(memory_stats_log) and the recipes; axolotl's core/trainers/base.py and utils/bench.py;
nanotron/logging/base.py and trainer.py; deepspeed/runtime/utils.py (see_memory_usage) and
utils/timer.py (ThroughputTimer, which resets no peak) and runtime/zero/stage3.py (step);
swift/trainers/callback.py (get_max_reserved_memory); Liger-Kernel's
examples/huggingface/callback.py (EfficiencyCallback, which resets the peaks at each step's begin).
"""

from collections.abc import Mapping
from decimal import Decimal

from trainfit.measurements.line_format import (
    BLOCK,
    DECIMAL,
    GB,
    GIB,
    MIB,
    MOST_BYTES,
    Bytes,
    LineFormat,
    NamedCounter,
    SpeedPattern,
    Times,
    known_by_its_words,
)
from trainfit.specs.artifacts import Counter

TORCHTITAN = (
    LineFormat(
        "torchtitan",
        "step:",
        r"\bstep: *(?P<step>\d+)(?= +loss:)",
        (
            Bytes(r"memory: *", "reserved_bytes.all.peak", GIB, "log"),
            SpeedPattern(r"\b(?:tps|wps): *", "tokens_per_second_per_gpu"),
            SpeedPattern(r"tflops: *", "tflops_per_gpu"),
        ),
    ),
    LineFormat(
        "torchtitan",
        " capacity: ",
        r"\b(?:CUDA|XPU) capacity: ",
        (Bytes(r" with ", "device_capacity", GIB),),
        moment="start",
    ),
    known_by_its_words(
        "torchtitan",
        "memory usage for model",
        Bytes(
            r"(?:CUDA|XPU|GPU) memory usage for model: +", "reserved_bytes.all.peak", GIB, "phase"
        ),
        moment="the model is built",
    ),
    LineFormat(
        "torchtitan",
        "memory allocation retries",
        r"\b(?=\d+ CUDA memory allocation retries)",
        (Times(r"", "num_alloc_retries"),),
    ),
)


def unit_of_torchtune(figure: str) -> int:
    """Its figures name no unit: decimal gigabytes before 0.3, GiB since. With all their digits they
    are whole blocks in one of the two; those of whole gigabytes, and rounded ones, are today's.
    """
    size = Decimal(figure.replace(",", ""))
    if size * GIB >= MOST_BYTES:
        return GIB
    return GB if size * GB % BLOCK == 0 and size * GIB % BLOCK else GIB


TORCHTUNE_UNITS = {"GB": GB, "GiB": GIB}
TORCHTUNE_PEAKS: Mapping[str, Counter] = {
    "active": "active_bytes.all.peak",
    "alloc(?:ation)?": "allocated_bytes.all.peak",
    "reserved": "reserved_bytes.all.peak",
}
TORCHTUNE = (
    LineFormat(
        "torchtune",
        "peak_memory_active",
        r"(?:\bStep (?P<step>\d+) \|(?:(?!\bStep \d).){0,2000}?)?\bpeak_memory_active['\"]?[:=]",
        (
            SpeedPattern(r"tokens_per_second_per_gpu[:=] *", "tokens_per_second_per_gpu"),
            *(
                Bytes(rf"peak_memory_{name}['\"]?[:=] *", counter, unit_of_torchtune, "log")
                for name, counter in TORCHTUNE_PEAKS.items()
            ),
        ),
        moment="a step",
    ),
    LineFormat(
        "torchtune",
        " gpu_",
        r"\bStep (?P<step>\d+) \|(?=.{0,200}? gpu_(?:resources|mem_alloc):)",
        (
            Bytes(r" gpu_resources:", "allocated_bytes.all.current", 1),
            Bytes(r" gpu_mem_alloc:", "allocated_bytes.all.current", GB),
            Bytes(r" gpu_mem_reserved:", "reserved_bytes.all.current", GB),
        ),
        moment="before the backward",
    ),
    *(
        known_by_its_words(
            "torchtune",
            "peak memory ",
            Bytes(rf"(?:GPU|XPU|NPU) peak memory {name}: +", counter, TORCHTUNE_UNITS, "phase"),
            moment="before training",
        )
        for name, counter in TORCHTUNE_PEAKS.items()
    ),
)

USAGE = r"(?:GPU|cuda(?::\d+)?) memory usage "
ALLOCATED: Counter = "allocated_bytes.all.current"
RESERVED: Counter = "reserved_bytes.all.current"

AXOLOTL = (
    *(
        known_by_its_words(
            "axolotl",
            "memory/",
            Bytes(rf"memory/{name} ?\(GiB\)['\"]?: +", counter, GIB, window),
            moment="a step",
        )
        for name, counter, window in (
            NamedCounter("max_active", "active_bytes.all.peak"),
            NamedCounter("max_allocated", "allocated_bytes.all.peak"),
            NamedCounter("device_reserved", "reserved_bytes.all.current", None),
        )
    ),
    LineFormat(
        "axolotl",
        " memory usage ",
        rf"\b{USAGE}(?P<moment>[^:]{{1,40}}): *(?=[\d.]+GB)",
        (
            Bytes(rf"{USAGE}[^:]{{1,40}}: *", ALLOCATED, GIB),
            Bytes(r"\+(?=[\d.]+GB cache)", RESERVED, GIB, above=(ALLOCATED,)),
            Bytes(r"\+(?=[\d.]+GB misc)", "device_used", GIB, above=(RESERVED, ALLOCATED)),
        ),
    ),
    LineFormat(
        "axolotl",
        "GPU memory usage ",
        r"\bGPU memory usage (?P<moment>[^:]{1,40}): *(?=[\d.]+ GB)",
        (Bytes(r"GPU memory usage [^:]{1,40}: *", "device_used", GIB),),
    ),
    LineFormat(
        "axolotl",
        "cuda memory active",
        r"\bcuda memory active: *(?=[\d.]+GB)",
        (
            Bytes(r"memory active: *", "active_bytes.all.peak", GIB, "run"),
            Bytes(r"\+", "allocated_bytes.all.peak", GIB, "run"),
            Bytes(r"allocated, \+", "reserved_bytes.all.current", GIB),
        ),
        moment="a step",
    ),
)

NANOTRON_STEP = LineFormat(
    "nanotron",
    "elapsed_time_per_iteration_ms",
    r"\biteration: (?P<step>\d+) / \d+ \|",
    (
        SpeedPattern(r"elapsed_time_per_iteration_ms: ", "seconds", 1e-3, DECIMAL),
        SpeedPattern(r"tokens_per_sec_per_gpu: ", "tokens_per_second_per_gpu", units=DECIMAL),
        SpeedPattern(r"hardware_tflops_per_gpu: ", "tflops_per_gpu", units=DECIMAL),
        Bytes(r"cuda_memory_allocated: ", "allocated_bytes.all.current", DECIMAL),
        Bytes(r"cuda_max_memory_reserved: ", "reserved_bytes.all.peak", DECIMAL, "phase"),
    ),
)

NANOTRON = LineFormat(
    "nanotron",
    "Memory usage",
    r"\bMemory usage: *(?=[\d.]+MiB)",
    (
        Bytes(r"Memory usage: *", "allocated_bytes.all.current", MIB),
        Bytes(r"Peak allocated:? *", "allocated_bytes.all.peak", MIB, "phase"),
        Bytes(r"Peak reserved:? *", "reserved_bytes.all.peak", MIB, "phase"),
    ),
    moment="logged",
)

DEEPSPEED = (
    LineFormat(
        "deepspeed",
        "MA ",
        r"\bMA (?=[\d.]+ GB)",
        (
            Bytes(r"\bMA ", "allocated_bytes.all.current", GIB),
            Bytes(r"Max_MA ", "allocated_bytes.all.peak", GIB, "log"),
            Bytes(r"\bCA ", "reserved_bytes.all.current", GIB),
            Bytes(r"Max_CA ", "reserved_bytes.all.peak", GIB, "log"),
        ),
        moment_is="a line before",
    ),
    LineFormat(
        "deepspeed",
        "MemAllocated=",
        r"(?:\b(?:global_step=|\d+/)(?P<step>\d+), RunningAvg[^|]{0,200}?, )?\bMemAllocated=",
        (
            Bytes(r"\bMemAllocated=", "allocated_bytes.all.current", GIB),
            Bytes(r"MaxMemAllocated=", "allocated_bytes.all.peak", GIB, "run"),
        ),
    ),
    LineFormat(
        "deepspeed",
        "allocator cache flushes",
        r"\b(?=\d+ pytorch allocator cache flushes since last step)",
        (Times(r"", "num_alloc_retries"),),
    ),
)

LOSS = r"\{['\"]loss['\"]: "
OF_A_LOG = r"(?:(?!\{['\"]loss).)"
"""A character that begins no other log."""

SWIFT = LineFormat(
    "ms-swift",
    "memory(GiB)",
    rf"{LOSS}(?:{OF_A_LOG}{{0,2000}}?['\"]global_step(?:/max_steps)?['\"]: ['\"]?(?P<step>\d+))?",
    (Bytes(r"['\"]memory\(GiB\)['\"]: ['\"]?", "reserved_bytes.all.peak", GIB, "run"),),
)

LIGER = LineFormat(
    "liger-kernel",
    "step_peak_memory_",
    rf"{LOSS}(?:{OF_A_LOG}{{0,2000}}?['\"]step['\"]: (?P<step>\d+))?",
    (
        SpeedPattern(r"['\"]step_time_sec['\"]: ", "seconds"),
        Bytes(r"step_peak_memory_allocated_MB['\"]: ", "allocated_bytes.all.peak", MIB, "log"),
        Bytes(r"step_peak_memory_reserved_MB['\"]: ", "reserved_bytes.all.peak", MIB, "log"),
    ),
)

FORMATS = (
    *(*TORCHTITAN, *TORCHTUNE, *AXOLOTL, NANOTRON_STEP, NANOTRON, *DEEPSPEED),
    *(SWIFT, LIGER),
)
