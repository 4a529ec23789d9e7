"""Programs that generate and train by turns: verl, AReaL, which prints what verl does, and slime.

Sources: verl's utils/profiler/performance.py (log_gpu_memory_usage) and workers/engine_workers.py;
areal/utils/perf_tracer.py; slime/utils/memory_utils.py (print_memory, report_peak_memory), which
miles has with peaks of the run beside.
"""

from trainfit.measurements.line_format import (
    GIB,
    Bytes,
    LineFormat,
    NamedCounter,
    known_by_its_words,
)

VERL = (
    LineFormat(
        "verl",
        " memory allocated (GB)",
        r"[,:] memory allocated \(GB\): ",
        (
            Bytes(r"memory allocated \(GB\): *", "allocated_bytes.all.current", GIB),
            Bytes(r"memory reserved \(GB\): *", "reserved_bytes.all.current", GIB),
            Bytes(r"used/total \(GB\): *", "device_used", GIB),
            Bytes(r"used/total \(GB\): *[\d.]+/", "device_capacity", GIB),
            Bytes(r"max memory allocated \(GB\): *", "allocated_bytes.all.peak", GIB, "run"),
            Bytes(r"max memory reserved \(GB\): *", "reserved_bytes.all.peak", GIB, "run"),
        ),
        moment_is="in front",
    ),
    *(
        known_by_its_words(
            "verl",
            "perf/max_memory_",
            Bytes(rf"perf/max_memory_{name}_gb['\"]?: *", counter, GIB, window),
            moment="a step",
        )
        for name, counter, window in (
            NamedCounter("allocated", "allocated_bytes.all.peak"),
            NamedCounter("reserved", "reserved_bytes.all.peak"),
        )
    ),
)

SLIME = (
    LineFormat(
        "slime",
        "Memory-Usage ",
        r"(?:\[Rank (?P<rank>\d+)\] )?\bMemory-Usage (?P<moment>[^:{}]{1,80}): (?=\{'gpu')",
        (
            Bytes(r"'total_GB': ", "device_capacity", GIB),
            Bytes(r"'free_GB': ", "device_free", GIB),
            Bytes(r"'used_GB': ", "device_used", GIB),
            Bytes(r"'allocated_GB': ", "allocated_bytes.all.current", GIB),
            Bytes(r"'reserved_GB': ", "reserved_bytes.all.current", GIB),
            Bytes(r"'max_allocated_GB': ", "allocated_bytes.all.peak", GIB, "run"),
            Bytes(r"'max_reserved_GB': ", "reserved_bytes.all.peak", GIB, "run"),
        ),
    ),
    LineFormat(
        "slime",
        "Peak-Memory ",
        r"(?:\[Rank (?P<rank>\d+)\] )?\bPeak-Memory (?P<moment>[^:{}]{1,80}): (?=max_)",
        (
            Bytes(r"\bmax_allocated_GB=", "allocated_bytes.all.peak", GIB, "phase"),
            Bytes(r"\bmax_reserved_GB=", "reserved_bytes.all.peak", GIB, "phase"),
        ),
    ),
)

FORMATS = (*VERL, *SLIME)
