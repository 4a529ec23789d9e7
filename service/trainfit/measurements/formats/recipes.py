"""Programs that run recipes of their own: NeMo Automodel, lingua, litgpt, LLaMA-Factory, Composer,
llama-cookbook, nanochat, Unsloth's notebooks and XTuner.

Sources: nemo_automodel/recipes/llm/train_ft.py (log_train_metrics) and components/loggers/
metric_logger.py, both of which reset the peak; lingua/metrics.py and apps/main/train.py, which
reset it, too; litgpt/utils.py (create_finetuning_performance_report) and pretrain.py, whose GB are
10^9 bytes; llamafactory/train/callbacks.py (LogCallback, with RECORD_VRAM=1);
composer/callbacks/memory_monitor.py, whose figures are 10^9 bytes in five digits, read between
backward and the optimizer's step; llama_recipes/utils/train_utils.py and memory_utils.py
(MemoryTrace, which resets the peaks at each epoch's begin, and prints whole GiB); nanochat's
scripts/base_train.py; Unsloth's notebooks, which show it before and after training;
mmengine/runner/log_processor.py and device/utils.py (get_max_cuda_memory, which resets the peak).
"""

from trainfit.measurements.line_format import (
    GB,
    GIB,
    MIB,
    Bytes,
    LineFormat,
    NamedCounter,
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

LLAMA_COOKBOOK = (
    *(
        known_by_its_words(
            "llama-cookbook",
            "CUDA memory ",
            Bytes(rf"{name} was ", counter, GIB, window),
            moment="an epoch",
        )
        for name, counter, window in (
            NamedCounter("Max CUDA memory allocated", "allocated_bytes.all.peak", "phase"),
            NamedCounter("Max CUDA memory reserved", "reserved_bytes.all.peak", "phase"),
            NamedCounter("Peak active CUDA memory", "active_bytes.all.peak", "phase"),
        )
    ),
    known_by_its_words(
        "llama-cookbook",
        "Cuda Malloc ",
        Times(r"Cuda Malloc ret(?:ires|ries) ?: ", "num_alloc_retries"),
        moment="an epoch",
    ),
)

NANOCHAT = known_by_its_words(
    "nanochat",
    "Peak memory usage",
    Bytes(r"Peak memory usage: (?=[\d.]+MiB)", "allocated_bytes.all.peak", MIB, "run"),
    moment="the end of training",
)

UNSLOTH = (
    LineFormat(
        "unsloth",
        " Max memory = ",
        r"\bGPU = [^=]{1,80}\. Max memory = (?=[\d.]+ GB)",
        (Bytes(r" Max memory = ", "device_capacity", GIB),),
        moment="start",
    ),
    known_by_its_words(
        "unsloth",
        "Peak reserved memory",
        Bytes(r"Peak reserved memory = (?=[\d.]+ GB)", "reserved_bytes.all.peak", GIB, "run"),
        moment="the end of training",
    ),
)

XTUNER = LineFormat(
    "xtuner",
    "Iter(train)",
    r"\bIter\(train\) +\[ *(?P<step>\d+)/\d+\](?=.{0,300}? memory: \d)",
    (Bytes(r" memory: ", "allocated_bytes.all.peak", MIB, "log"),),
)

FORMATS = (
    *(*AUTOMODEL, *LINGUA, *LITGPT, LLAMA_FACTORY, *COMPOSER),
    *(*LLAMA_COOKBOOK, NANOCHAT, *UNSLOTH, XTUNER),
)
