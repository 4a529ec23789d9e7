"""A line of every format that is read, put together from the program's own format string."""

from __future__ import annotations

from typing import Any, NamedTuple

KIB, MIB, GIB, GB = 1024, 1024**2, 1024**3, 10**9


class Line(NamedTuple):
    """A line, who prints it, and the bytes by counter that it says."""

    format: str
    text: str
    bytes: dict[str, float]
    step: int | None = None
    rank: int | None = None


CURRENT, PEAK = "allocated_bytes.all.current", "allocated_bytes.all.peak"
RESERVED, MOST_RESERVED = "reserved_bytes.all.current", "reserved_bytes.all.peak"
ACTIVE, MOST_ACTIVE = "active_bytes.all.current", "active_bytes.all.peak"
SPLIT, MOST_SPLIT = "inactive_split_bytes.all.current", "inactive_split_bytes.all.peak"


def report(**figures: Any) -> str:
    return " | ".join(f"{name.replace('_', ' ')}: {value}" for name, value in figures.items())


LINES = [
    Line(
        "megatron",
        "after 5 iterations memory (MB) | allocated: 10250.5693359375 | max allocated: 12606.25 | "
        "reserved: 17482.0 | max reserved: 17482.0",
        {
            CURRENT: 10250.5693359375 * MIB,
            PEAK: 12606.25 * MIB,
            RESERVED: 17482 * MIB,
            MOST_RESERVED: 17482 * MIB,
        },
        step=5,
    ),
    Line(
        "nemo",
        " 0: Training epoch 0, iteration 8/29 | lr: 5.389e-06 | global_batch_size: 512 | "
        "global_step: 8 | max_memory_reserved: 57466159104 | max_memory_allocated: 53930270720 | "
        "reduced_train_loss: 10.22 | train_step_timing in s: 27.01 | TFLOPS_per_GPU: 48.58",
        {PEAK: 53930270720, MOST_RESERVED: 57466159104},
        step=8,
        rank=0,
    ),
    Line(
        "megatron",
        "[Rank 3] (after 2 iterations) memory (MB) | allocated: 18310.55 | max allocated: 52014.09 "
        "| reserved: 55210.00 | max reserved: 55300.00 | total device memory used: 57000.25",
        {
            CURRENT: 18310.55 * MIB,
            PEAK: 52014.09 * MIB,
            RESERVED: 55210 * MIB,
            MOST_RESERVED: 55300 * MIB,
            "device_used": 57000.25 * MIB,
        },
        step=2,
        rank=3,
    ),
    Line(
        "megatron",
        "(after 10 iterations) memory (MB) | allocated: 100.5 | max allocated: 200.5 | cached: "
        "300.0 | max cached: 301.0",
        {CURRENT: 100.5 * MIB, PEAK: 200.5 * MIB, RESERVED: 300 * MIB, MOST_RESERVED: 301 * MIB},
        step=10,
    ),
    Line(
        "megatron",
        "[Rank 0] (before save_checkpoint for iteration 50) memory (MB) | allocated: 1.00 | max "
        "allocated: 2.00 | reserved: 3.00 | max reserved: 4.00",
        {CURRENT: MIB, PEAK: 2 * MIB, RESERVED: 3 * MIB, MOST_RESERVED: 4 * MIB},
        step=50,
        rank=0,
    ),
    Line(
        "megatron",
        "[Rank 0] (memory phase: setup) memory (MB) | allocated: 1.00 | max allocated: 2.00 | "
        "reserved: 3.00 | max reserved: 4.00 | total device memory used: 9.00 | nccl memory (MB): "
        "total: 2.50 | outside reserved residual: 3.50",
        {
            CURRENT: MIB,
            PEAK: 2 * MIB,
            RESERVED: 3 * MIB,
            MOST_RESERVED: 4 * MIB,
            "device_used": 9 * MIB,
        },
        rank=0,
    ),
    Line(
        "megatron-bridge",
        "[Rank 8] (after 2 iterations) memory (GB) | mem-allocated-gigabytes: 12.346 | "
        "mem-active-gigabytes: 12.347 | mem-inactive-gigabytes: 0.51234 | mem-reserved-gigabytes: "
        "60.1 | mem-max-allocated-gigabytes: 55.012 | mem-max-active-gigabytes: 55.013 | "
        "mem-max-inactive-gigabytes: 1.5 | mem-max-reserved-gigabytes: 60.2 | mem-alloc-retires: 0 "
        "| mem-allocated-count: 433",
        {
            CURRENT: 12.346 * GB,
            ACTIVE: 12.347 * GB,
            SPLIT: 0.51234 * GB,
            RESERVED: 60.1 * GB,
            PEAK: 55.012 * GB,
            MOST_ACTIVE: 55.013 * GB,
            MOST_SPLIT: 1.5 * GB,
            MOST_RESERVED: 60.2 * GB,
        },
        step=2,
        rank=8,
    ),
    Line(
        "primus",
        " iteration 5/ 50 | hip mem usage/free/total/usage_ratio: 120.50GB/71.20GB/191.70GB/62.86%",
        {"device_used": 120.5 * GIB, "device_capacity": 191.7 * GIB},
        step=5,
    ),
    Line(
        "primus",
        " iteration 5/ 50 | rocm mem usage/free/total/usage_ratio: "
        "120.50GiB/71.20GiB/191.70GiB/62.86%",
        {"device_used": 120.5 * GIB, "device_capacity": 191.7 * GIB},
        step=5,
    ),
    Line(
        "primus",
        " | rank-5 rocm max mem usage/usage_ratio: 122.00GB/63.64%",
        {"device_used": 122 * GIB},
        rank=5,
    ),
    Line(
        "torchtitan",
        "[rank0]:[titan] 2025-11-02 10:00:00,123 - root - INFO - \x1b[31mstep:  7  \x1b[32mloss:  "
        "8.1234  \x1b[38;2;180;60;0mgrad_norm:  1.2345  \x1b[33mmemory: 45.67GiB(48.12%)  \x1b[34m"
        "tps: 7,123  \x1b[36mtflops: 412.33  \x1b[35mmfu: 41.69%\x1b[39m",
        {MOST_RESERVED: 45.67 * GIB},
        step=7,
        rank=0,
    ),
    Line(
        "torchtitan",
        "CUDA capacity: NVIDIA H100 80GB HBM3 with 94.99GiB memory",
        {"device_capacity": 94.99 * GIB},
    ),
    Line("torchtitan", "CUDA memory usage for model: 7.48GiB(7.87%)", {MOST_RESERVED: 7.48 * GIB}),
    Line(
        "torchtune",
        "Step 5 | loss:1.21 lr:2e-05 tokens_per_second_per_gpu:2012.5 peak_memory_active:12.375 "
        "peak_memory_alloc:12.25 peak_memory_reserved:14.5",
        {MOST_ACTIVE: 12.375 * GIB, PEAK: 12.25 * GIB, MOST_RESERVED: 14.5 * GIB},
        step=5,
    ),
    Line(
        "torchtune",
        "Step 100 | peak_memory_active:19.302629376 peak_memory_alloc:19.302629376 "
        "peak_memory_reserved:21.789409280",
        {MOST_ACTIVE: 19302629376, PEAK: 19302629376, MOST_RESERVED: 21789409280},
        step=100,
    ),
    Line(
        "torchtune",
        "{'peak_memory_active': 13.953493504, 'peak_memory_alloc': 13.953493504, "
        "'peak_memory_reserved': 13.96703232}",
        {MOST_ACTIVE: 13953493504, PEAK: 13953493504, MOST_RESERVED: 13967032320},
    ),
    Line(
        "torchtune",
        "Step 1 | loss:1.5729001760482788 lr:2e-05 gpu_resources:40627453440 ",
        {CURRENT: 40627453440},
        step=1,
    ),
    Line(
        "torchtune",
        "Step 3 | loss:1.2 lr:2e-05 gpu_mem_alloc:40.62745344 gpu_mem_reserved:43.102765056 ",
        {CURRENT: 40627453440, RESERVED: 43102765056},
        step=3,
    ),
    Line("torchtune", "\tGPU peak memory reserved: 15.12 GB", {MOST_RESERVED: 15.12 * GB}),
    Line(
        "torchtune",
        "Memory Stats after model init:, GPU peak memory allocation: 13.953493504GB, GPU peak "
        "memory reserved: 13.96703232GB, GPU peak memory active: 13.953493504GB",
        {PEAK: 13953493504, MOST_RESERVED: 13967032320, MOST_ACTIVE: 13953493504},
    ),
    Line("torchtune", "\tGPU peak memory active: 14.96 GiB", {MOST_ACTIVE: 14.96 * GIB}),
    Line("torchtune", "\tGPU peak memory allocation: 14.95 GiB", {PEAK: 14.95 * GIB}),
    Line("torchtune", "\tGPU peak memory reserved: 15.12 GiB", {MOST_RESERVED: 15.12 * GIB}),
    Line(
        "axolotl",
        "{'loss': 1.2, 'memory/max_active (GiB)': 12.34, 'memory/max_allocated (GiB)': 12.3, "
        "'memory/device_reserved (GiB)': 14.01, 'epoch': 0.5}",
        {MOST_ACTIVE: 12.34 * GIB, PEAK: 12.3 * GIB, RESERVED: 14.01 * GIB},
    ),
    Line(
        "axolotl",
        "[INFO] GPU memory usage after adapters: 4.25GB (+0.125GB cache, +0.5GB misc)",
        {CURRENT: 4.25 * GIB, RESERVED: 4.375 * GIB, "device_used": 4.875 * GIB},
    ),
    Line(
        "axolotl",
        "[INFO] cuda memory usage while training: 4.5GB (+0.5GB misc)",
        {CURRENT: 4.5 * GIB, "device_used": 5 * GIB},
    ),
    Line(
        "axolotl",
        "GPU memory usage after model load: 4.724 GB",
        {"device_used": 4.724 * GIB},
    ),
    Line(
        "nanotron",
        "iteration: 991 / 1000 | elapsed_time_per_iteration_ms: 45 | cuda_memory_allocated: 75.2M "
        "| cuda_max_memory_reserved: 1.5G | hd_total_memory_tb: 312G",
        {CURRENT: 75.2e6, MOST_RESERVED: 1.5e9},
        step=991,
    ),
    Line(
        "megatron",
        '{"mem-reserved-bytes": 57466159104, "mem-allocated-bytes": 1000, '
        '"mem-max-allocated-bytes": 53930270720, "mem-allocated-count": 433}',
        {RESERVED: 57466159104, CURRENT: 1000, PEAK: 53930270720},
    ),
    Line(
        "megatron",
        "memory/mem-max-reserved-bytes: 57466159104",
        {MOST_RESERVED: 57466159104},
    ),
    Line(
        "nanotron",
        "[INFO|DP=0|PP=0|TP=0]:  Memory usage: 1024.50MiB. Peak allocated 2048.25MiB. Peak "
        "reserved: 3000.00MiB",
        {CURRENT: 1024.5 * MIB, PEAK: 2048.25 * MIB, MOST_RESERVED: 3000 * MIB},
    ),
    Line(
        "deepspeed",
        "MA 12.34 GB         Max_MA 15.67 GB         CA 20.01 GB         Max_CA 21 GB ",
        {CURRENT: 12.34 * GIB, PEAK: 15.67 * GIB, RESERVED: 20.01 * GIB, MOST_RESERVED: 21 * GIB},
    ),
    Line(
        "deepspeed",
        "epoch=0/micro_step=40/global_step=20, RunningAvgSamplesPerSec=40.1, "
        "CurrSamplesPerSec=39.0, MemAllocated=12.34GB, MaxMemAllocated=20.5GB",
        {CURRENT: 12.34 * GIB, PEAK: 20.5 * GIB},
        step=20,
    ),
    Line(
        "deepspeed",
        "0/30, RunningAvgSamplesPerSec=232.7, CurrSamplesPerSec=227.4, MemAllocated=0.36GB, "
        "MaxMemAllocated=15.06GB",
        {CURRENT: 0.36 * GIB, PEAK: 15.06 * GIB},
        step=30,
    ),
    Line(
        "ms-swift",
        "{'loss': 2.9333, 'grad_norm': 2.4484, 'token_acc': 0.564, 'epoch': 0.06, "
        "'global_step/max_steps': '5/16', 'memory(GiB)': 24.8, 'train_speed(iter/s)': 0.118837}",
        {MOST_RESERVED: 24.8 * GIB},
        step=5,
    ),
    Line(
        "liger-kernel",
        "{'loss': 74.5, 'epoch': 1.5, 'step': 12, 'step_time_sec': 0.8, 'avg_step_time_sec': 0.9, "
        "'step_peak_memory_allocated_MB': 26279.24, 'total_peak_memory_allocated_MB': 26280.0, "
        "'step_peak_memory_reserved_MB': 47172.0, 'total_peak_memory_reserved_MB': 47172.0}",
        {PEAK: 26279.24 * MIB, MOST_RESERVED: 47172 * MIB},
        step=12,
    ),
    Line(
        "automodel",
        "step 9 | epoch 0 | loss 0.6974 | grad_norm 1.5436 | lr 1.00e-05 | mem 24.90 GiB | tps "
        "11278.56(1409.82/gpu) | num_label_tokens 21541",
        {PEAK: 24.9 * GIB},
        step=9,
    ),
    Line(
        "automodel",
        '{"step": 9, "epoch": 0, "timestamp": "2026-08-10T15:55:20.123Z", "loss": 0.6974, "lr": '
        '1e-05, "mem": 24.896484375, "tps": 11278.56, "tps_per_gpu": 1409.82}',
        {PEAK: 24.896484375 * GIB},
        step=9,
    ),
    Line(
        "lingua",
        '{"global_step": 10, "acc_step": 0, "speed/wps": 24123.5, "speed/curr_iter_time": 0.34, '
        '"memory/max_active_gib": 61.25, "memory/max_active_pct": 77.4, "memory/max_reserved_gib": '
        '66.5, "memory/max_reserved_pct": 84.0, "memory/num_alloc_retries": 0, "memory/num_ooms": '
        '0, "memory/power_draw": 644123, "loss/out": 3.2}',
        {MOST_ACTIVE: 61.25 * GIB, MOST_RESERVED: 66.5 * GIB},
        step=10,
    ),
    Line(
        "litgpt",
        "| - Memory Used               :  6.13 GB                                        ",
        {PEAK: 6.13 * GB},
    ),
    Line(
        "llama-factory",
        '{"current_steps": 10, "total_steps": 336, "loss": 1.53, "throughput": 1234.5, '
        '"vram_allocated": 21.34, "vram_reserved": 23.62}',
        {PEAK: 21.34 * GIB, MOST_RESERVED: 23.62 * GIB},
        step=10,
    ),
    Line(
        "composer",
        "         Train memory/current_inactive_mem: 0.6447",
        {SPLIT: 0.6447 * GB},
    ),
    Line(
        "composer",
        "         Train memory/peak_reserved_mem: 51.3280",
        {MOST_RESERVED: 51.328 * GB},
    ),
    Line(
        "slime",
        "[Rank 3] Memory-Usage after wake_up model (cleared before print): {'gpu': '3', "
        "'total_GB': 139.81, 'free_GB': 60.12, 'used_GB': 79.69, 'allocated_GB': 70.31, "
        "'reserved_GB': 72.5}",
        {
            "device_capacity": 139.81 * GIB,
            "device_free": 60.12 * GIB,
            "device_used": 79.69 * GIB,
            CURRENT: 70.31 * GIB,
            RESERVED: 72.5 * GIB,
        },
        rank=3,
    ),
    Line(
        "slime",
        "[Rank 3] Peak-Memory actor_train: max_allocated_GB=100.25, max_reserved_GB=110.5",
        {PEAK: 100.25 * GIB, MOST_RESERVED: 110.5 * GIB},
        rank=3,
    ),
    Line(
        "verl",
        "Before rollout, memory allocated (GB): 1.23, memory reserved (GB): 2.34, device memory "
        "used/total (GB): 5.67/79.10",
        {
            CURRENT: 1.23 * GIB,
            RESERVED: 2.34 * GIB,
            "device_used": 5.67 * GIB,
            "device_capacity": 79.1 * GIB,
        },
    ),
    Line(
        "verl",
        "step:3 - actor/loss:0.1 - perf/max_memory_allocated_gb:33.25 - perf/max_memory_reserved_gb"
        ":40.5",
        {PEAK: 33.25 * GIB, MOST_RESERVED: 40.5 * GIB},
    ),
    Line(
        "nvidia-smi",
        "| N/A   42C    P0   300W / 700W |  71234MiB / 81559MiB |     99%      Default |",
        {"device_used": 71234 * MIB, "device_capacity": 81559 * MIB},
    ),
    Line(
        "dcgm",
        'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1",device="nvidia0"} 71234',
        {"device_used": 71234 * MIB},
    ),
    Line(
        "dcgm",
        'DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-1",device="nvidia0"} 9000',
        {"device_free": 9000 * MIB},
    ),
    Line(
        "memory_summary",
        "| Allocated memory      |  12345 MiB |  23456 MiB |  99999 MiB |  87654 MiB |",
        {CURRENT: 12345 * MIB, PEAK: 23456 * MIB},
    ),
    Line(
        "memory_summary",
        "| GPU reserved memory   |  26 GiB |  27 GiB |  27 GiB |   0 B  |",
        {RESERVED: 26 * GIB, MOST_RESERVED: 27 * GIB},
    ),
    Line(
        "memory_stats",
        '{"allocated_bytes.all.current": 123392, "allocated_bytes.all.peak": 1234567890}',
        {CURRENT: 123392, PEAK: 1234567890},
    ),
    Line(
        "memory_stats",
        "DeviceStatsMonitor.on_train_batch_end/reserved_bytes.all.peak: 2147483648",
        {MOST_RESERVED: 2 * GIB},
    ),
    Line(
        "llama-cookbook",
        "Max CUDA memory reserved was 55 GB",
        {MOST_RESERVED: 55 * GIB},
    ),
    Line("nanochat", "Peak memory usage: 75422.02MiB", {PEAK: 75422.02 * MIB}),
    Line("unsloth", "Peak reserved memory = 14.605 GB.", {MOST_RESERVED: 14.605 * GIB}),
    Line(
        "xtuner",
        "08/16 11:26:39 - mmengine - INFO - Iter(train) [  10/5705]  lr: 1.0590e-05  eta: 1:20:07  "
        "time: 0.8442  data_time: 0.0113  memory: 11785  grad_norm: 0.7445  loss: 2.2287",
        {PEAK: 11785 * MIB},
        step=10,
    ),
    Line(
        "out of memory",
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.90 GiB total "
        "capacity; 14.10 GiB already allocated; 3.75 MiB free; 14.20 GiB reserved in total by "
        "PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb",
        {
            "tried_to_allocate": 20 * MIB,
            "device_capacity": 15.9 * GIB,
            CURRENT: 14.1 * GIB,
            "device_free": 3.75 * MIB,
            RESERVED: 14.2 * GIB,
        },
    ),
    Line(
        "out of memory",
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 4.00 GiB total "
        "capacity; 2.68 GiB already allocated; 8.46 MiB free; 28.00 MiB cached)",
        {
            "tried_to_allocate": 20 * MIB,
            "device_capacity": 4 * GIB,
            CURRENT: 2.68 * GIB,
            "device_free": 8.46 * MIB,
            "reserved_unallocated": 28 * MIB,
        },
    ),
    Line(
        "out of memory",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total "
        "capacty of 79.15 GiB of which 1.06 GiB is free. Process 123 has 78.08 GiB memory in use. "
        "Of the allocated memory 70.50 GiB is allocated by PyTorch, with 120.00 MiB allocated in "
        "private pools (e.g., CUDA Graphs), and 4.43 GiB is reserved by PyTorch but unallocated.",
        {
            "tried_to_allocate": 2 * GIB,
            "device_capacity": 79.15 * GIB,
            "device_free": 1.06 * GIB,
            "process_used": 78.08 * GIB,
            CURRENT: 70.5 * GIB,
            "reserved_unallocated": 4.43 * GIB,
        },
    ),
    Line(
        "out of memory",
        "CUDA out of memory. Tried to allocate 512.00 KiB. GPU 0 has a total capacity of 23.64 GiB "
        "of which 0 bytes is free. Including non-PyTorch memory, this process has "
        "17179869184.00 GiB memory in use. Of the allocated memory 20.00 GiB is allocated by "
        "PyTorch, and 1.50 GiB is reserved by PyTorch but unallocated.",
        {
            "tried_to_allocate": 512 * KIB,
            "device_capacity": 23.64 * GIB,
            "device_free": 0,
            CURRENT: 20 * GIB,
            "reserved_unallocated": 1.5 * GIB,
        },
    ),
]
