"""Megatron-LM, Megatron-Bridge, NeMo and Primus.

Sources: megatron/training/utils/common_utils.py (report_memory) and training.py (training_log);
megatron/bridge/training/utils/train_utils.py (report_memory, MEMORY_KEYS); Primus'
patches/training_log/print_rank_last_patches.py; NeMo's lightning/pytorch/callbacks
(progress_printer.py) and lightning/megatron_parallel.py.
"""

from trainfit.measurements.line_format import (
    GB,
    GIB,
    MIB,
    Bytes,
    LineFormat,
    SpeedPattern,
    Times,
    current_and_peak,
    known_by_its_words,
)

AFTER = (
    r"(?:\[Rank (?P<rank>\d+)\] *)?\((?P<moment>(?:after|before|memory phase:)[^()|]{1,60}?)\) *"
)

REPORTED = (
    Bytes(r"\| allocated: *", "allocated_bytes.all.current", MIB),
    Bytes(r"max allocated: *", "allocated_bytes.all.peak", MIB, "run"),
    Bytes(r"\| (?:reserved|cached): *", "reserved_bytes.all.current", MIB),
    Bytes(r"max (?:reserved|cached): *", "reserved_bytes.all.peak", MIB, "run"),
    Bytes(r"total device memory used: *", "device_used", MIB),
)
REPORT = LineFormat("megatron", "memory (MB)", AFTER + r"memory \(MB\)", REPORTED)
REPORT_BEFORE = LineFormat(
    "megatron",
    "memory (MB)",
    r"(?P<moment>\bafter \d+ iterations) memory \(MB\)",
    REPORTED,
)
"""As it was before Megatron-LM 2.2, which put the moment in brackets."""

DIGITS = 5
"""Digits that Megatron-Bridge leaves of a figure."""

COUNTERS = current_and_peak("", "max-")

BRIDGE = LineFormat(
    "megatron-bridge",
    "memory (GB)",
    AFTER + r"memory \(GB\)",
    (
        *(
            Bytes(rf"mem-{name}-gigabytes: *", counter, GB, window, DIGITS)
            for name, counter, window in COUNTERS
        ),
        Times(r"mem-alloc-reti?r(?:ie|e)s: *", "num_alloc_retries"),
    ),
)

SCALARS = tuple(
    [
        known_by_its_words(
            "megatron",
            f"mem-{name}-bytes",
            Bytes(rf"mem-{name}-bytes['\"]?[:=,] *", counter, 1, window),
        )
        for name, counter, window in COUNTERS
    ]
)
"""As TensorBoard and others get them, in JSON or beside the name. Megatron-LM has three of them,
Megatron-Bridge all, before which it puts `memory/`. From its 0.5 each is the highest of a
pipeline's ranks, so that none is of one rank.
"""

ITERATION = r"\biteration +(?P<step>\d+)/ *\d+ \|"
PACE = (
    SpeedPattern(r"elapsed time per iteration \(ms\): *", "seconds", 1e-3),
    SpeedPattern(r"throughput per GPU \(TFLOP/s/GPU\): *", "tflops_per_gpu"),
)
STEP = LineFormat("megatron", "iteration ", ITERATION, PACE)

BRIDGE_STEP = LineFormat(
    "megatron-bridge",
    "GPU utilization: ",
    r"\bStep Time ?: (?=[\d.]+s GPU utilization: )",
    (SpeedPattern(r"GPU utilization: *", "tflops_per_gpu"),),
)
"""What its line of a step does not say; that has the seconds, too."""

PRIMUS = LineFormat(
    "primus",
    "mem usage/free/total",
    rf"(?:{ITERATION}(?:(?!iteration +\d)[^\n]){{0,400}}?)?"
    r"\b(?:hip|rocm) mem usage/free/total/usage_ratio:",
    (
        *PACE,
        Bytes(r"usage_ratio: *", "device_used", GIB),
        Bytes(r"usage_ratio: *[\d.]+Gi?B/[\d.]+Gi?B/", "device_capacity", GIB),
    ),
)
"""Within the line of a step; as HIP tells it or, with use_rocm_mem_info, rocm-smi."""

PRIMUS_HIGHEST = LineFormat(
    "primus",
    "rocm max mem usage",
    r"\brank-(?P<rank>\d+) rocm max mem usage/usage_ratio:",
    (Bytes(r"usage_ratio: *", "device_used", GIB),),
    moment="end of a step, the rank that uses most",
)

NEMO = LineFormat(
    "nemo",
    "max_memory_",
    r"\biteration (?P<step>\d+)/\d+ \| lr:",
    (
        Bytes(r"max_memory_allocated: *", "allocated_bytes.all.peak", 1, "run"),
        Bytes(r"max_memory_reserved: *", "reserved_bytes.all.peak", 1, "run"),
        SpeedPattern(r"train_step_timing in s: *", "seconds"),
        SpeedPattern(r"TFLOPS_per_GPU: *", "tflops_per_gpu"),
    ),
)
"""Of NeMo 2, whose steps are counted from 0."""

FORMATS = (
    *(REPORT, REPORT_BEFORE, BRIDGE, *SCALARS, BRIDGE_STEP, NEMO, PRIMUS, PRIMUS_HIGHEST, STEP),
)
