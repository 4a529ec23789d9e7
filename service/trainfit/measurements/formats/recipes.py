"""Programs that run recipes of their own: NeMo Automodel, lingua, litgpt, LLaMA-Factory, Composer.

Sources: nemo_automodel/recipes/llm/train_ft.py (log_train_metrics) and components/loggers/
metric_logger.py, both of which reset the peak; lingua/metrics.py and apps/main/train.py, which
reset it, too; litgpt/utils.py (create_finetuning_performance_report) and pretrain.py, whose GB are
10^9 bytes; llamafactory/train/callbacks.py (LogCallback, with RECORD_VRAM=1);
composer/callbacks/memory_monitor.py, whose figures are 10^9 bytes in five digits, read between
backward and the optimizer's step.
"""

from trainfit.measurements.line_format import (
    GB,
    GIB,
    Bytes,
    LineFormat,
    SpeedPattern,
    Times,
    current_and_peak,
    known_by_its_words,
)

AUTOMODEL = (
    LineFormat(
        "automodel",
        " GiB | tps ",
        r"\bstep (?P<step>\d+) \| epoch \d+ \|",
        (
            Bytes(r"\| mem ", "allocated_bytes.all.peak", GIB, "log"),
            SpeedPattern(r"tps [\d.]+\((?=[\d.]+/gpu)", "tokens_per_second_per_gpu"),
        ),
    ),
    LineFormat(
        "automodel",
        '"tps_per_gpu"',
        r'"step": (?P<step>\d+), "epoch": ',
        (
            Bytes(r'"mem": ', "allocated_bytes.all.peak", GIB, "log"),
            SpeedPattern(r'"tps_per_gpu": ', "tokens_per_second_per_gpu"),
        ),
    ),
)

LINGUA = (
    LineFormat(
        "lingua",
        "memory/max_active_gib",
        r"(?:\{['\"]global_step['\"]: (?P<step>\d+),[^{}]{0,3000}?)?\bmemory/max_active_gib['\"]?:",
        (
            SpeedPattern(r"speed/wps['\"]?: ", "tokens_per_second_per_gpu"),
            Bytes(r"max_active_gib['\"]?: ", "active_bytes.all.peak", GIB, "log"),
            Bytes(r"max_reserved_gib['\"]?: ", "reserved_bytes.all.peak", GIB, "log"),
            Times(r"memory/num_alloc_retries['\"]?: ", "num_alloc_retries"),
            Times(r"memory/num_ooms['\"]?: ", "num_ooms"),
        ),
    ),
    LineFormat(
        "lingua",
        "  acc: ",
        r"\bstep: (?P<step>\d+)  acc: \d+  loss:",
        (SpeedPattern(r"\bwps: ", "tokens_per_second_per_gpu"),),
    ),
)

LITGPT = (
    LineFormat(
        "litgpt",
        "- Memory Used ",
        r"\| - Memory Used +: +(?=[\d.]+ GB)",
        (Bytes(r"Memory Used +: +", "allocated_bytes.all.peak", GB, "run"),),
        moment="the end of training",
    ),
    LineFormat(
        "litgpt",
        "Memory used: ",
        r"\bMemory used: (?=[\d.]+ GB)",
        (Bytes(r"Memory used: ", "allocated_bytes.all.peak", GB, "run"),),
        moment="the end of training",
        behind=r"\bTraining time: ",
    ),
)
"""What it prints behind a generation is another counter."""

LLAMA_FACTORY = LineFormat(
    "llama-factory",
    "vram_allocated",
    r"['\"]current_steps['\"]: (?P<step>\d+),",
    (
        Bytes(r"vram_allocated['\"]: ", "allocated_bytes.all.peak", GIB, "run"),
        Bytes(r"vram_reserved['\"]: ", "reserved_bytes.all.peak", GIB, "run"),
    ),
)

DIGITS = 5
COMPOSER = (
    *(
        known_by_its_words(
            "composer",
            "memory/",
            Bytes(rf"memory/{name}_mem['\"]?: (?=\d+\.)", counter, GB, window, DIGITS),
            moment="after the backward",
        )
        for name, counter, window in current_and_peak("(?:current_)?", "peak_")
    ),
    known_by_its_words(
        "composer",
        "memory/alloc_retries",
        Times(r"memory/alloc_retries['\"]?: ", "num_alloc_retries"),
    ),
)
"""Before Composer 0.13 its figures were whole bytes, of allocated ones all that ever were."""

FORMATS = (*AUTOMODEL, *LINGUA, *LITGPT, LLAMA_FACTORY, *COMPOSER)
