"""What runs printed where their authors reported them, shortened to what bears on memory and speed,
with all that can be read of it: no figure is missed, and none is found in what merely looks alike.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.measurements.lines import (
    ACTIVE,
    CURRENT,
    GB,
    GIB,
    KIB,
    MIB,
    MOST_ACTIVE,
    MOST_RESERVED,
    MOST_SPLIT,
    PEAK,
    RESERVED,
    SPLIT,
)


class Told(NamedTuple):
    """A figure in bytes, and of which rank and step it is."""

    counter: str
    bytes: float
    rank: int | None = None
    step: int | None = None


class Log(NamedTuple):
    """A log, where it was reported, its figures, the seconds and tokens a second of its steps, and
    how many of its lines speak of memory without a figure that is one.
    """

    source: str
    text: str
    figures: list[Told]
    seconds: tuple[float, ...] = ()
    tokens: tuple[float, ...] = ()
    retries: tuple[int, ...] = ()
    unread: int = 0


def megatron(sizes: list[float], rank: int | None, step: int) -> list[Told]:
    counters = (CURRENT, PEAK, RESERVED, MOST_RESERVED)
    return [Told(c, size * MIB, rank, step) for c, size in zip(counters, sizes, strict=True)]


def deepspeed(*sizes: float) -> list[Told]:
    counters = (CURRENT, PEAK, RESERVED, MOST_RESERVED)
    return [Told(c, size * GIB) for c, size in zip(counters, sizes, strict=True)]


def torchtune(step: int, *sizes: float) -> list[Told]:
    counters = (MOST_ACTIVE, PEAK, MOST_RESERVED)
    return [Told(c, size * GIB, None, step) for c, size in zip(counters, sizes, strict=True)]


LOGS = [
    Log(
        "NVIDIA/Megatron-LM#756, Mixtral on 16 H100",
        "[Rank 1] (after 1 iterations) memory (MB) | allocated: 54250.97802734375 | max allocated: "
        "54250.98583984375 | reserved: 61480.0 | max reserved: 61480.0\n"
        " [2024-04-06 02:55:45] iteration        2/     100 | consumed samples:          256 | "
        "elapsed time per iteration (ms): 5630.1 | throughput per GPU (TFLOP/s/GPU): 231.9 | "
        "learning rate: 4.000000E-07 | global batch size:   128 | lm loss: 2.021530E+00 |\n",
        megatron([54250.97802734375, 54250.98583984375, 61480.0, 61480.0], 1, 1),
        seconds=(5.6301,),
    ),
    Log(
        "NVIDIA/Megatron-LM#60, V100 in 2020",
        " iteration        5/  120000 | elapsed time per iteration (ms): 16491.5 | learning rate: "
        "0.000E+00 | loss scale: 268435456.0 | number of skipped iterations:   5 |\n"
        "after 5 iterations memory (MB) | allocated: 10250.5693359375 | max allocated: "
        "12606.06201171875 | reserved: 17482.0 | max reserved: 17482.0\n"
        "time (ms) | forward: 11716.18 | backward: 4770.37 | backward-backward: 1742.88\n"
        "RuntimeError: CUDA out of memory. Tried to allocate 2.29 GiB (GPU 0; 31.72 GiB total "
        "capacity; 19.22 GiB already allocated; 1.88 GiB free; 28.32 GiB reserved in total by "
        "PyTorch)\n",
        [
            *megatron([10250.5693359375, 12606.06201171875, 17482.0, 17482.0], None, 5),
            Told("tried_to_allocate", 2.29 * GIB),
            Told("device_capacity", 31.72 * GIB),
            Told(CURRENT, 19.22 * GIB),
            Told("device_free", 1.88 * GIB),
            Told(RESERVED, 28.32 * GIB),
        ],
        seconds=(16.4915,),
    ),
    Log(
        "NVIDIA/Megatron-LM#5662, with a report by layer",
        "[2026-07-10 05:46:31.627699] iteration       20/      20 | consumed samples:          320 "
        "| elapsed time per iteration (ms): 744.0 | learning rate: 0.000000E+00 |\n"
        "[Rank 0] (after 20 iterations) memory (MB) | allocated: 3270.16 | max allocated: 5670.39 "
        "| reserved: 6406.00 | max reserved: 6406.00\n"
        "memory source = PRECISE trace  (peak=window high-water; retained=held to backward)\n"
        "cell = mean/max   (time in ms, memory in MiB)\n"
        "     0 dense      26.3/     28.4    3870.2/   3870.2     528.1/    528.1     608.0/    "
        "608.0     128.0/    128.0       0.0/      0.0\n",
        megatron([3270.16, 5670.39, 6406.0, 6406.0], 0, 20),
        seconds=(0.744,),
        unread=2,
    ),
    Log(
        "pytorch/torchtitan#2389, ranks that say not who they are",
        "[titan] 2026-02-24 19:44:31,996 - root - INFO - step:  2  loss:  9.69482  grad_norm: "
        "26.5000  memory: 175.54GiB(98.42%)  tps: 7,439  tflops: 232.94  mfu: 10.35%\n"
        "[titan] 2026-02-24 19:44:31,996 - root - WARNING - 1 CUDA memory allocation retries.\n"
        "[titan] 2026-02-24 19:44:34,452 - root - INFO - step:  3  loss: 10.47314  grad_norm: "
        "24.7500  memory: 175.62GiB(98.46%)  tps: 6,672  tflops: 208.93  mfu: 9.29%\n",
        [
            Told(MOST_RESERVED, 175.54 * GIB, None, 2),
            Told(MOST_RESERVED, 175.62 * GIB, None, 3),
        ],
        tokens=(7439, 6672),
        retries=(1,),
    ),
    Log(
        "pytorch/torchtitan#1287, between lines of other matters",
        "[rank0]:[titan] 2025-06-16 22:30:48,735 - root - INFO - [GC] Peforming periodical GC "
        "collection. 0.06 seconds.\n"
        "[rank0]:[titan] 2025-06-16 22:30:50,322 - root - INFO - step: 200  loss:  6.1384  memory: "
        "49.66GiB(52.28%)  tps: 5,856  tflops: 339.16  mfu: 34.29%\n"
        "[rank0]:[titan] 2025-06-16 22:30:50,758 - root - INFO - Dumping profiler traces at step "
        "200\n",
        [Told(MOST_RESERVED, 49.66 * GIB, 0, 200)],
        tokens=(5856,),
    ),
    Log(
        "huggingface/nanotron#23, in thousands",
        "01/17/2024 13:47:27 [INFO|DP=0|PP=0|TP=0|ip-26-0-160-225]: iteration: 991 / 1000 | "
        "consumed_tokens: 634K | elapsed_time_per_iteration_ms: 45 | tokens_per_sec: 14.2K | "
        "tokens_per_sec_per_gpu: 1.78K | global_batch_size: 20 | lm_loss: 10.6 | lr: 1e-05 | "
        "model_tflops_per_gpu: 0.00869 | hardware_tflops_per_gpu: 0.00869 | grad_norm: 0.515 | "
        "cuda_memory_allocated: 75.2M | cuda_max_memory_reserved: 547M | hd_total_memory_tb: 312G "
        "| hd_used_memory_tb: 61.8G | hd_free_memory_tb: 250G\n"
        "01/17/2024 13:47:27 [INFO|DP=0|PP=0|TP=0|ip-26-0-160-225]: iteration: 992 / 1000 | "
        "consumed_tokens: 635K | elapsed_time_per_iteration_ms: 11.5K | tokens_per_sec: 15.5K | "
        "tokens_per_sec_per_gpu: 1.94K | global_batch_size: 20 | lm_loss: 10.6 | lr: 1e-05 |\n",
        [Told(CURRENT, 75.2e6, None, 991), Told(MOST_RESERVED, 547e6, None, 991)],
        seconds=(0.045, 11.5),
        tokens=(1780, 1940),
    ),
    Log(
        "deepspeedai/DeepSpeed#522, ZeRO-2 with checkpoints on the host",
        "[2022-02-21 23:35:29,950] [INFO] [utils.py:822:see_memory_usage] before optimizer 1\n"
        "[2022-02-21 23:35:29,951] [INFO] [utils.py:827:see_memory_usage] MA 4.89 GB         "
        "Max_MA 5.55 GB         CA 6.39 GB         Max_CA 6 GB\n"
        "[2022-02-21 23:35:29,951] [INFO] [utils.py:832:see_memory_usage] CPU Virtual Memory:  "
        "used = 50.5 GB, percent = 40.2%\n",
        deepspeed(4.89, 5.55, 6.39, 6),
        unread=1,
    ),
    Log(
        "cscs-benchmarking's DeepSpeed example, whose timer resets no peak",
        "[2022-08-29 06:58:56,121] [INFO] [logging.py:68:log_dist] [Rank 0] step=20, skipped=17, "
        "lr=[5e-05], mom=[(0.9, 0.999)]\n"
        "[2022-08-29 06:58:56,176] [INFO] [timer.py:198:stop] 0/20, "
        "RunningAvgSamplesPerSec=232.7340551694273, CurrSamplesPerSec=227.48090316379353, "
        "MemAllocated=0.36GB, MaxMemAllocated=15.06GB\n",
        [Told(CURRENT, 0.36 * GIB, None, 20), Told(PEAK, 15.06 * GIB, None, 20)],
    ),
    Log(
        "modelscope/ms-swift#4146, whose step stands behind the figure",
        "{'loss': 0.21932983, 'grad_norm': 0.57172734, 'learning_rate': 6.8e-07, 'memory(GiB)': "
        "63.16, 'train_speed(iter/s)': 0.011239, 'logps/chosen': -182.0, 'epoch': 0.89, "
        "'global_step/max_steps': '78/176', 'percentage': '44.32%', 'elapsed_time': '1h 54m 53s'}\n"
        "{'loss': 0.21930949, 'grad_norm': 0.54369718, 'learning_rate': 6.8e-07, 'memory(GiB)': "
        "73.75, 'train_speed(iter/s)': 0.011243, 'logps/chosen': -191.0, 'epoch': 0.9, "
        "'global_step/max_steps': '79/176', 'percentage': '44.89%'}\n",
        [
            Told(MOST_RESERVED, 63.16 * GIB, None, 78),
            Told(MOST_RESERVED, 73.75 * GIB, None, 79),
        ],
    ),
    Log(
        "linkedin/Liger-Kernel#110, of a release that does not tell the step",
        "{'loss': 75.1831, 'grad_norm': 9.36429500579834, 'epoch': 1.0, 'num_input_tokens_seen': "
        "65536, 'step_peak_memory_allocated_MB': 26279.24, 'total_peak_memory_allocated_MB': "
        "26279.24, 'step_peak_memory_reserved_MB': 47172.0, 'total_peak_memory_reserved_MB': "
        "47172.0, 'step_tokens_per_second': 18801.85, 'avg_tokens_per_second': 18801.85}\n",
        [Told(PEAK, 26279.24 * MIB), Told(MOST_RESERVED, 47172 * MIB)],
    ),
    Log(
        "NVIDIA/Megatron-LM#5662, with a report by layer that is of no counter",
        "[2026-07-10 05:46:31.627699] iteration       20/      20 | consumed samples:          320 "
        "| elapsed time per iteration (ms): 744.0 | learning rate: 0.0 | global batch size:    16 "
        "| lm loss: 1.020935E+00 | loss scale: 1.0 | number of skipped iterations:   0 |\n"
        "[Rank 0] (after 20 iterations) memory (MB) | allocated: 3270.16 | max allocated: 5670.39 "
        "| reserved: 6406.00 | max reserved: 6406.00\n"
        "memory source = PRECISE trace  (peak=window high-water; retained=activation held)\n"
        "cell = mean/max   (time in ms, memory in MiB)\n"
        "     0 dense      26.3/     28.4    3870.2/   3870.2     528.1/    528.1\n",
        megatron([3270.16, 5670.39, 6406, 6406], 0, 20),
        seconds=(0.744,),
        unread=2,
    ),
    Log(
        "salesforce/CodeGen2#3, two ranks of ROCm glued together",
        "c05r2n11: RuntimeErrorRuntimeError: : HIP out of memory. Tried to allocate 576.00 MiB "
        "(GPU 3; 15.98 GiB total capacity; 15.83 GiB already allocated; 0 bytes free; 15.84 GiB "
        "reserved in total by PyTorch) If reserved memory is >> allocated memory try setting "
        "max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and "
        "PYTORCH_HIP_ALLOC_CONFHIP out of memory. Tried to allocate 576.00 MiB (GPU 1; 15.98 GiB "
        "total capacity; 15.83 GiB already allocated; 0 bytes free; 15.84 GiB reserved in total by "
        "PyTorch)",
        2
        * [
            Told("tried_to_allocate", 576 * MIB),
            Told("device_capacity", 15.98 * GIB),
            Told(CURRENT, 15.83 * GIB),
            Told("device_free", 0),
            Told(RESERVED, 15.84 * GIB),
        ],
    ),
    Log(
        "axolotl-ai-cloud/axolotl#1153, with what lies outside PyTorch",
        "trainable params: 746,610,688 || all params: 47,449,419,776 || trainable%: 1.5734\n"
        "[2024-01-19 08:21:59,758] [INFO] [axolotl.load_model:625] [PID:6553] [RANK:5] GPU memory "
        "usage after adapters: 25.701GB (+0.079GB cache, +1.045GB misc)\n"
        "[2024-01-19 08:22:00,088] [INFO] [axolotl.load_model:625] [PID:6548] [RANK:0] GPU memory "
        "usage after adapters: 25.701GB (+0.071GB cache, +1.162GB misc)\n"
        "[2024-01-19 08:22:00,097] [INFO] [axolotl.utils.samplers.multipack._len_est:178] "
        "[PID:6553] [RANK:5] packing_efficiency_estimate: 0.91 total_num_tokens per device: "
        "64375\n",
        [
            Told(counter, size * GIB, rank)
            for rank, sizes in ((5, (25.701, 25.78, 26.825)), (0, (25.701, 25.772, 26.934)))
            for counter, size in zip((CURRENT, RESERVED, "device_used"), sizes, strict=True)
        ],
    ),
    Log(
        "axolotl-ai-cloud/axolotl#354, before it told them apart",
        "[2023-08-09 08:14:22,195] [INFO] [axolotl.load_model:368] [PID:741158] GPU memory after "
        "adapters: 4917 MB.\n",
        [],
        unread=1,
    ),
    Log(
        "pytorch/pytorch#35901, half of a card that cannot be used",
        "|            CUDA OOMs: 1            |        cudaMalloc retries: 1         |\n"
        "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n"
        "| Allocated memory      |    1062 MB |    4877 MB |   89299 MB |   88237 MB |\n"
        "|       from large pool |    1048 MB |    4865 MB |   89263 MB |   88215 MB |\n"
        "| Active memory         |  183578 KB |    4877 MB |   89299 MB |   88237 MB |\n"
        "| GPU reserved memory   |   12420 MB |   12420 MB |   16924 MB |    4504 MB |\n",
        [
            Told(CURRENT, 1062 * MIB),
            Told(PEAK, 4877 * MIB),
            Told(ACTIVE, 183578 * KIB),
            Told(MOST_ACTIVE, 4877 * MIB),
            Told(RESERVED, 12420 * MIB),
            Told(MOST_RESERVED, 12420 * MIB),
        ],
        retries=(1, 1),
    ),
    Log(
        "NVIDIA-NeMo/Speech#14850, under srun --label",
        " 0: Training epoch 0, iteration 11/29 | lr: 7.186e-06 | global_batch_size: 512 | "
        "global_step: 11 | max_memory_reserved: 57675874304 | max_memory_allocated: 53930270720 | "
        "reduced_train_loss: 9.924 | train_step_timing in s: 26.93 | consumed_samples: 6144 | "
        "TFLOPS_per_GPU: 85.8\n 0: \n",
        [Told(PEAK, 53930270720, 0, 11), Told(MOST_RESERVED, 57675874304, 0, 11)],
        seconds=(26.93,),
    ),
    Log(
        "meta-pytorch/torchtune#2406, with all the digits of a float",
        "Step 2 | loss:1.4622046947479248 lr:2e-05 tokens_per_second_per_gpu:45.71133041381836 "
        "peak_memory_active:47.32469987869263 peak_memory_alloc:53.99104309082031 "
        "peak_memory_reserved:53.99104309082031 \n",
        torchtune(2, 47.32469987869263, 53.99104309082031, 53.99104309082031),
        tokens=(45.71133041381836,),
    ),
    Log(
        "mosaicml/llm-foundry#117, before its peaks were told",
        "         Train memory/allocated_mem: 3.8951\n"
        "         Train memory/reserved_mem: 13.5500\n"
        "         Train memory/alloc_retries: 3\n",
        [Told(CURRENT, 3.8951 * GB), Told(RESERVED, 13.55 * GB)],
        retries=(3,),
    ),
    Log(
        "huggingface/optimum-habana#89, on another kind of card",
        "{'loss': 0.6188, 'learning_rate': 2.9e-05, 'epoch': 0.09, 'memory_allocated (GB)': 3.82, "
        "'max_memory_allocated (GB)': 6.32, 'total_memory_available (GB)': 29.85}\n",
        [],
        unread=1,
    ),
    Log(
        "AMD-AGI/Primus#169, by rocm-smi, in bold",
        "[20250825 13:42:35][rank-7/8][INFO ] [--------trainer.py:2154] :  iteration        5/"
        "       6 | consumed samples: 80 | elapsed time per iteration (ms): 1595.5/1630.1 | **rocm "
        "mem usage/free/total/usage_ratio: 99.07GB/92.92GB/191.98GB/51.60%** | throughput per GPU "
        "(TFLOP/s/GPU): 92.8/90.8 | tokens per GPU (tokens/s/GPU): 5134.5/5026.5 |\n",
        [
            Told("device_used", 99.07 * GIB, 7, 5),
            Told("device_capacity", 191.98 * GIB, 7, 5),
        ],
        seconds=(1.5955,),
    ),
    Log(
        "NVIDIA/Megatron-LM#965, by hand",
        "[Start] Allocated: 36659.26 MB, Reserved: 37246.00 MB\n"
        "[After baddbmm] Allocated: 38707.26 MB, Reserved: 39294.00 MB\n",
        [],
        unread=2,
    ),
    Log(
        "fe1ixxu/ALMA#42, a cache that is released",
        "[2024-05-12 12:22:22,437] [WARNING] [stage3.py:1898:step] 2 pytorch allocator cache "
        "flushes since last step. this happens when there is high memory pressure and is "
        "detrimental to performance. if this is happening frequently consider adjusting settings\n",
        [],
        retries=(2,),
    ),
    Log(
        "pytorch/torchtitan#735, a table with its pools",
        "|===========================================================================|\n"
        "|                  PyTorch CUDA memory summary, device ID 0                 |\n"
        "|---------------------------------------------------------------------------|\n"
        "|            CUDA OOMs: 0            |        cudaMalloc retries: 0         |\n"
        "|===========================================================================|\n"
        "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n"
        "|---------------------------------------------------------------------------|\n"
        "| Allocated memory      |  13975 MiB |  18803 MiB |   2142 GiB |   2128 GiB |\n"
        "|       from large pool |  13959 MiB |  18790 MiB |   2140 GiB |   2127 GiB |\n"
        "|       from small pool |     16 MiB |     17 MiB |      1 GiB |      1 GiB |\n",
        [Told(CURRENT, 13975 * MIB), Told(PEAK, 18803 * MIB)],
        retries=(0, 0),
    ),
    Log(
        "pytorch/pytorch#137145, what the driver had no room for",
        "[rank0]:     tensor = _SymmetricMemory.empty_strided_p2p(\n"
        "[rank0]: RuntimeError: CUDA driver error: out of memory\n"
        "h1:1420:1533 [3] alloc.h:178 NCCL WARN Cuda failure 2 'out of memory'\n",
        [],
        retries=(1, 1),
        unread=1,
    ),
    Log(
        "deepspeedai/DeepSpeedExamples#323, what cuBLAS had no room for",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
        "`cublasCreate(handle)`\n",
        [],
        retries=(1,),
    ),
    Log(
        "NVIDIA/nccl#1235, what NCCL had no room for in older words",
        "ng30903:3063028:3066152 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\n"
        "ng30903:3063028:3066152 [3] include/alloc.h:185 NCCL WARN Failed to CUDA calloc 6291456 "
        "bytes\n",
        [],
        retries=(1,),
    ),
    Log(
        "NVIDIA-NeMo/Automodel#3473, whose peak is of each step",
        "2026-08-10 15:55:20 | INFO | root | step 9 | epoch 0 | loss 0.6974 | grad_norm 1.5436 | "
        "lr 1.00e-05 | mem 24.90 GiB | tps 11278.56(1409.82/gpu) | num_label_tokens 21541\n"
        "2026-08-10 15:55:23 | INFO | root | step 10 | epoch 0 | loss 0.8534 | grad_norm 1.5040 | "
        "lr 1.00e-05 | mem 29.67 GiB | tps 13746.23(1718.28/gpu) | num_label_tokens 29550\n",
        [Told(PEAK, 24.9 * GIB, None, 9), Told(PEAK, 29.67 * GIB, None, 10)],
        tokens=(1409.82, 1718.28),
    ),
    Log(
        "princeton-nlp/LLM-Shearing#24, Composer in decimal gigabytes",
        "[batch=366/48000]:\n"
        "         Train time/token: 382730240\n"
        "         Train memory/current_allocated_mem: 9.7173\n"
        "         Train memory/current_active_mem: 9.7173\n"
        "         Train memory/current_inactive_mem: 0.6447\n"
        "         Train memory/current_reserved_mem: 51.3280\n"
        "         Train memory/peak_allocated_mem: 44.6420\n"
        "         Train memory/peak_active_mem: 44.8020\n"
        "         Train memory/peak_inactive_mem: 17.7940\n"
        "         Train memory/peak_reserved_mem: 51.3280\n"
        "         Train memory/alloc_retries: 0\n"
        "         Train trainer/device_train_microbatch_size: 16\n",
        [
            Told(counter, size * GB)
            for counter, size in (
                (CURRENT, 9.7173),
                (ACTIVE, 9.7173),
                (SPLIT, 0.6447),
                (RESERVED, 51.328),
                (PEAK, 44.642),
                (MOST_ACTIVE, 44.802),
                (MOST_SPLIT, 17.794),
                (MOST_RESERVED, 51.328),
            )
        ],
        retries=(0,),
    ),
    Log(
        "areal-project/AReaL#1157, with verl's function behind another word",
        "(AReaL) 20260409-23:04:52.389 TestExamples INFO: [Example Output] (AReaL) "
        "20260409-23:04:52.389 IOStruct INFO: Memory-Usage critic values: memory allocated (GB): "
        "7.08, memory reserved (GB): 16.29, device memory used/total (GB): 52.89/139.81\n",
        [
            Told(CURRENT, 7.08 * GIB),
            Told(RESERVED, 16.29 * GIB),
            Told("device_used", 52.89 * GIB),
            Told("device_capacity", 139.81 * GIB),
        ],
    ),
    Log(
        "NVIDIA-NeMo/Megatron-Bridge#841, cut by a terminal, with the FLOPs of an older release",
        "[Rank 0] (after 10 iterations) memory (MB) | allocated: 11908.05029296875 | max alloca\n"
        "ted: 12712.43603515625 | reserved: 12954.0 | max reserved: 12954.0\n"
        "Step Time : 14.26s GPU utilization: 58.2TFLOP/s/GPU\n",
        [Told(CURRENT, 11908.05029296875 * MIB, 0, 10)],
        unread=1,
    ),
    Log(
        "NVIDIA-NeMo/Megatron-Bridge#682, glued to a count, and torn at the end",
        "Number of parameters in transformer layers in billions:  6.98 [2025-09-17 22:26:24] "
        "iteration        1/      25 | consumed samples:            8 | elapsed time per iteration "
        "(ms): 69179.8 | learning rate: 1.500000E-07 | global batch size:     8 |\n"
        "Theoretical memory footprints: weight and optimizer=38972.29 MB\n"
        "[Rank 4] (after 1 iterations) memory (MB) | allocated: 21540.77294921875 | max allocated: "
        "21540.7734375 | reserved: 31336.0 | max reserved: 31336.0\n"
        "[Rank 3] (after 1 iterations) me\n",
        megatron([21540.77294921875, 21540.7734375, 31336.0, 31336.0], 4, 1),
        seconds=(69.1798,),
        unread=1,
    ),
    Log(
        "founder-phi2-lora, litgpt's table",
        "| - Training Time             :  184.27 s\n"
        "| - Tok/sec                   :  1249.93 tok/s\n"
        "| Memory Usage                                                                 \n"
        "| - Memory Used               :  6.13 GB                                        \n",
        [Told(PEAK, 6.13 * GB)],
    ),
    Log(
        "Lightning-AI/litgpt#553, before its table; behind a generation it is another counter",
        "Training time: 134.21s\n"
        "Memory used: 13.30 GB\n"
        "Time for inference: 2.01 sec total, 24.89 tokens/sec\n"
        "Memory used: 14.21 GB\n",
        [Told(PEAK, 13.3 * GB)],
        unread=1,
    ),
    Log(
        "axolotl-ai-cloud/axolotl#2819, with nothing allocated yet",
        "[2025-06-20 20:51:15,182] [INFO] [axolotl.utils.config.log_gpu_memory_usage:107] "
        "[PID:76471] [RANK:0] cuda memory usage baseline: 0.000GB (+0.554GB misc)    \n",
        [Told(CURRENT, 0, 0), Told("device_used", 0.554 * GIB, 0)],
    ),
    Log(
        "modelscope/ms-swift#3399, which a progress bar has cut",
        "...{'loss': 0.10009546, 'token_acc': 0.98598949, 'learning_rate': 5.415e-05, "
        "'memory(GiB)': 75.22, 'train_speed(iter/s)': 0.051415, 'epoch': 0.05, "
        "'global_step/max_steps': '600/22156', 'percentage': '2.71%', 'elapsed_tim\n"
        "e': '3h 14m 25s', 'remaining_time': '4d 20h 25m 7s'}\n",
        [Told(MOST_RESERVED, 75.22 * GIB, None, 600)],
    ),
    Log(
        "huggingface/trl#2784, DeepSpeed with all on the host",
        "[2025-02-07 01:13:40,037] [INFO] [utils.py:781:see_memory_usage] After creating fp32 "
        "partitions\n"
        "[2025-02-07 01:13:40,037] [INFO] [utils.py:782:see_memory_usage] MA 0.0 GB         Max_MA "
        "0.0 GB         CA 0.77 GB         Max_CA 1 GB\n"
        "[2025-02-10 07:34:25,340] [INFO] [utils.py:782:see_memory_usage] MA 0.0 GB         Max_MA "
        "0.0 GB         CA 0.0 GB         Max_CA 0 GB \n",
        deepspeed(0, 0, 0.77, 1),
        unread=1,
    ),
    Log(
        "AMD-AGI/Primus#317, since its units are called GiB",
        "[20251202 09:12:08][rank-7/8][INFO ] [--------trainer.py:2560] :  iteration      126/"
        "    5000 | elapsed time per iteration (ms): 13372.8/13364.7 | rocm mem usage/free/total/"
        "usage_ratio: 153.81GiB/102.17GiB/255.98GiB/60.09% | rank-3 rocm max mem usage/usage_ratio"
        ": 157.25GiB/61.43% | throughput per GPU (TFLOP/s/GPU): 567.6/568.0 |\n",
        [
            Told("device_used", 153.81 * GIB, 7, 126),
            Told("device_capacity", 255.98 * GIB, 7, 126),
            Told("device_used", 157.25 * GIB, 3),
        ],
        seconds=(13.3728,),
    ),
    Log(
        "verl-project/verl#3992, which tells the most there was, too, and its rank",
        "(WorkerDict pid=393228, ip=172.16.0.197) [Rank 5 | Local Rank 5] 2025-12-04 09:46:19,701 "
        "INFO [/cache/algo/verl/verl/workers/megatron_workers.py:103] => After load actor params "
        "and grad during update_actor, memory allocated (GB): 65.70, max memory allocated (GB): "
        "66.10, memory reserved (GB): 70.72, max memory reserved (GB): 71.72, device memory "
        "used/total (GB): 28.81/60.96, cpu_memory: {'total': '1511.10 GB', 'used': '769.08 GB'}\n",
        [
            Told(CURRENT, 65.7 * GIB, 5),
            Told(RESERVED, 70.72 * GIB, 5),
            Told("device_used", 28.81 * GIB, 5),
            Told("device_capacity", 60.96 * GIB, 5),
            Told(PEAK, 66.1 * GIB, 5),
            Told(MOST_RESERVED, 71.72 * GIB, 5),
        ],
    ),
    Log(
        "InternLM/xtuner#658",
        "2024/05/07 12:40:23 - mmengine - INFO - Iter(train) [1510/2046]  lr: 3.3994e-05  eta: "
        "0:29:39  time: 24.9128  data_time: 22.0483  memory: 15266  loss: 0.7818  grad_norm: "
        "0.0005\n",
        [Told(PEAK, 15266 * MIB, None, 1510)],
    ),
    Log(
        "meta-llama/llama-cookbook#206",
        "Training Epoch: 2/3, step 23/24 completed (loss: 1.12): 100%|####| 24/24 [04:20<00:00]\n"
        "Max CUDA memory allocated was 47 GB\n"
        "Max CUDA memory reserved was 55 GB\n"
        "Peak active CUDA memory was 47 GB\n"
        "Cuda Malloc retires : 0\n"
        "CPU Total Peak Memory consumed during the train (max): 6 GB\n",
        [
            Told(PEAK, 47 * GIB),
            Told(MOST_RESERVED, 55 * GIB),
            Told(MOST_ACTIVE, 47 * GIB),
        ],
        retries=(0,),
        unread=1,
    ),
    Log(
        "a notebook of unslothai/notebooks, whose other figures are differences",
        "GPU = NVIDIA A100-SXM4-40GB. Max memory = 39.564 GB.\n5.4 GB of memory reserved.\n"
        "4212.3 seconds used for training.\nPeak reserved memory = 14.605 GB.\n"
        "Peak reserved memory for training = 9.205 GB.\n",
        [Told("device_capacity", 39.564 * GIB), Told(MOST_RESERVED, 14.605 * GIB)],
        unread=2,
    ),
    Log(
        "meta-pytorch/torchrec#3580, of memory_stats() in another unit",
        "[('active_bytes.all.allocated', 5959), ('active_bytes.all.current', 5959), "
        "('allocated_bytes.all.peak', 5959), ('reserved_bytes.all.peak', 5964)]\n",
        [],
        unread=1,
    ),
    Log(
        "huggingface/transformers#279, a table of two cards and what runs there",
        "| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"
        "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |\n"
        "|   0  Tesla P40           Off  | 00000275:00:00.0 Off |                    0 |\n"
        "| N/A   43C    P0    61W / 250W |  11151MiB / 22919MiB |     99%      Default |\n"
        "|   1  Tesla P40           Off  | 00004D2D:00:00.0 Off |                    0 |\n"
        "| N/A   35C    P0    49W / 250W |   3979MiB / 22919MiB |     20%      Default |\n"
        "| Processes:                                                       GPU Memory |\n"
        "|    0   N/A  N/A     12345      C   python                           11141MiB |\n",
        [
            Told("device_used", 11151 * MIB),
            Told("device_capacity", 22919 * MIB),
            Told("device_used", 3979 * MIB),
            Told("device_capacity", 22919 * MIB),
        ],
    ),
    Log(
        "what speaks of memory in words of its own: PrimeIntellect-ai/prime-rl#1126, "
        "Alpha-VLLM/LLaMA2-Accessory#48, rwth-i6/returnn#1626, ml-explore/mlx-examples#724, "
        "EleutherAI/gpt-neox#631, microsoft/onnxruntime#19620, ecmwf/WeatherGenerator#2628, "
        "NVIDIA/nccl#1284",
        "12:54:25 SUCCESS Step 1 | Time: 0.58s | Loss: 12.3125 | Peak Mem.: 7.8/23.7 GiB (32.9%)\n"
        "[03:23:49.951215] Epoch: [0]  [1480/1504]  lr: 0.000026  time: 4.5833  max mem: 51710\n"
        "ep 13 train, step 95, ctc_4 4.363, mem_usage:cuda:0 8.9GB, 0.750 sec/step\n"
        "Iter 860: Train loss 0.413, Trained Tokens 473342, Peak mem 100.759 GB\n"
        "Memory Report, Device 0: After iter 1 memory (MB) | allocated: 19613.29 | max allocated: "
        "21296.51 | reserved: 22138.0 | max reserved: 22138.0Memory Report, Device 1: After iter\n"
        "rank-0 step 1 memory (MiB) | phase: pre_forward | allocated: 5331 | max allocated: 9039\n"
        '{"stage": "train", "weathergen.step": 280, "memory.train.max_allocated_gib": 15.09}\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.\n",
        [],
        unread=8,
    ),
]

ERRORS = [
    Log(
        "rwth-i6/returnn#1469, others on the card before one's own",
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 52.00 MiB. GPU 0 has a total "
        "capacty of 31.74 GiB of which 39.62 MiB is free. Process 101553 has 1.19 GiB memory in "
        "use. Process 101552 has 1.19 GiB memory in use. Including non-PyTorch memory, this "
        "process has 13.82 GiB memory in use. Of the allocated memory 11.54 GiB is allocated by "
        "PyTorch, and 677.26 MiB is reserved by PyTorch but unallocated.",
        [
            Told("tried_to_allocate", 52 * MIB),
            Told("device_capacity", 31.74 * GIB),
            Told("device_free", 39.62 * MIB),
            Told("process_used", 13.82 * GIB),
            Told(CURRENT, 11.54 * GIB),
            Told("reserved_unallocated", 677.26 * MIB),
        ],
    ),
    Log(
        "Lightning-AI/pytorch-lightning#20299, others behind one's own",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 948.00 MiB. GPU 0 has "
        "a total capacity of 31.74 GiB of which 474.12 MiB is free. Including non-PyTorch memory, "
        "this process has 30.97 GiB memory in use. Process 136372 has 306.00 MiB memory in use. Of "
        "the allocated memory 29.07 GiB is allocated by PyTorch, and 1.27 GiB is reserved by "
        "PyTorch but unallocated.",
        [
            Told("tried_to_allocate", 948 * MIB),
            Told("device_capacity", 31.74 * GIB),
            Told("device_free", 474.12 * MIB),
            Told("process_used", 30.97 * GIB),
            Told(CURRENT, 29.07 * GIB),
            Told("reserved_unallocated", 1.27 * GIB),
        ],
    ),
    Log(
        "huggingface/trl#4237, several of which one has room for what is reserved",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.11 GiB. GPU 0 has a total "
        "capacity of 14.74 GiB of which 1.65 GiB is free. Process 19066 has 6.79 GiB memory in "
        "use. Process 19069 has 514.00 MiB memory in use. Process 19060 has 4.93 GiB memory in "
        "use. Of the allocated memory 4.50 GiB is allocated by PyTorch, and 2.14 GiB is reserved "
        "by PyTorch but unallocated.",
        [
            Told("tried_to_allocate", 2.11 * GIB),
            Told("device_capacity", 14.74 * GIB),
            Told("device_free", 1.65 * GIB),
            Told(CURRENT, 4.5 * GIB),
            Told("reserved_unallocated", 2.14 * GIB),
            Told("process_used", 6.79 * GIB),
        ],
    ),
    Log(
        "Alibaba-NLP/ZeroSearch#11, two of which either may be one's own",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 148.00 MiB. GPU 0 has a "
        "total capacity of 31.60 GiB of which 87.44 MiB is free. Process 441650 has 30.51 GiB "
        "memory in use. Process 449657 has 1022.00 MiB memory in use. Of the allocated memory "
        "594.01 MiB is allocated by PyTorch, and 5.99 MiB is reserved by PyTorch but unallocated.",
        [
            Told("tried_to_allocate", 148 * MIB),
            Told("device_capacity", 31.6 * GIB),
            Told("device_free", 87.44 * MIB),
            Told(CURRENT, 594.01 * MIB),
            Told("reserved_unallocated", 5.99 * MIB),
        ],
    ),
    Log(
        "huggingface/peft#1703, in a container, alone",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.92 GiB. GPU 1 has a "
        "total capacity of 39.39 GiB of which 2.00 MiB is free. Process 112077 has 39.38 GiB "
        "memory in use. Of the allocated memory 37.36 GiB is allocated by PyTorch, and 76.66 MiB "
        "is reserved by PyTorch but unallocated.",
        [
            Told("tried_to_allocate", 3.92 * GIB),
            Told("device_capacity", 39.39 * GIB),
            Told("device_free", 2 * MIB),
            Told("process_used", 39.38 * GIB),
            Told(CURRENT, 37.36 * GIB),
            Told("reserved_unallocated", 76.66 * MIB),
        ],
    ),
    Log(
        "jason9693/MusicTransformer-pytorch#9, cached beside what is allocated",
        "RuntimeError: CUDA out of memory. Tried to allocate 1024.00 MiB (GPU 0; 10.73 GiB total "
        "capacity; 9.03 GiB already allocated; 946.69 MiB free; 221.61 MiB cached)",
        [
            Told("tried_to_allocate", 1024 * MIB),
            Told("device_capacity", 10.73 * GIB),
            Told(CURRENT, 9.03 * GIB),
            Told("device_free", 946.69 * MIB),
            Told("reserved_unallocated", 221.61 * MIB),
        ],
    ),
    Log(
        "meta-pytorch/torchtune#2071, a driver that does not answer",
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 1 "
        "has a total capacity of 23.43 GiB of which 210.06 MiB is free. Including non-PyTorch "
        "memory, this process has 0 bytes memory in use. Of the allocated memory 22.41 GiB is "
        "allocated by PyTorch, and 206.09 MiB is reserved by PyTorch but unallocated.",
        [
            Told("tried_to_allocate", 1.96 * GIB, 1),
            Told("device_capacity", 23.43 * GIB, 1),
            Told("device_free", 210.06 * MIB, 1),
            Told(CURRENT, 22.41 * GIB, 1),
            Told("reserved_unallocated", 206.09 * MIB, 1),
        ],
    ),
    Log(
        "axolotl-ai-cloud/axolotl#1717, a device whose number is not printed",
        "[rank1]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 112.00 MiB. "
        "GPU  has a total capacity of 23.68 GiB of which 60.31 MiB is free. Including non-PyTorch "
        "memory, this process has 23.61 GiB memory in use. Of the allocated memory 23.15 GiB is "
        "allocated by PyTorch, and 64.54 MiB is reserved by PyTorch but unallocated.",
        [
            Told("tried_to_allocate", 112 * MIB, 1),
            Told("device_capacity", 23.68 * GIB, 1),
            Told("device_free", 60.31 * MIB, 1),
            Told("process_used", 23.61 * GIB, 1),
            Told(CURRENT, 23.15 * GIB, 1),
            Told("reserved_unallocated", 64.54 * MIB, 1),
        ],
    ),
    Log(
        "axolotl-ai-cloud/axolotl#998, under WSL",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a "
        "total capacty of 24.00 GiB of which 0 bytes is free. Including non-PyTorch memory, this "
        "process has 17179869184.00 GiB memory in use. Process 2954422 has 17179869184.00 GiB "
        "memory in use. Of the allocated memory 23.01 GiB is allocated by PyTorch, and 121.23 MiB "
        "is reserved by PyTorch but unallocated.",
        [
            Told("tried_to_allocate", 20 * MIB),
            Told("device_capacity", 24 * GIB),
            Told("device_free", 0),
            Told(CURRENT, 23.01 * GIB),
            Told("reserved_unallocated", 121.23 * MIB),
        ],
    ),
    Log(
        "shibing624/MedicalGPT#318, ranks that wrote at once",
        "torch.cudasingle_grad_partition = torch.zeros(int(self.partition_size[i]),\n"
        ".OutOfMemoryError: CUDA out of memory. Tried to allocate 8.01 GiB. GPU 6 has a total "
        "capacty of 79.33 GiB of which 6.37 GiB is free. Including non-PyTorch memory, this "
        "process has 72.95 GiB memory in use. Of the allocated memory 72.18 GiB is allocated by "
        "PyTorch, and 3.01 MiB is reserved by PyTorch but unallocated. See documentation for "
        "Memory Management and PYTORCH_CUDA_ALLOC_CONFtorch.cuda\n",
        [
            Told("tried_to_allocate", 8.01 * GIB),
            Told("device_capacity", 79.33 * GIB),
            Told("device_free", 6.37 * GIB),
            Told("process_used", 72.95 * GIB),
            Told(CURRENT, 72.18 * GIB),
            Told("reserved_unallocated", 3.01 * MIB),
        ],
    ),
    Log(
        "karpathy/nanoGPT#208, an older release",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 100.00 MiB (GPU 0; "
        "23.68 GiB total capacity; 21.67 GiB already allocated; 85.06 MiB free; 21.92 GiB reserved "
        "in total by PyTorch) If reserved memory is >> allocated memory try setting "
        "max_split_size_mb to avoid fragmentation.",
        [
            Told("tried_to_allocate", 100 * MIB),
            Told("device_capacity", 23.68 * GIB),
            Told(CURRENT, 21.67 * GIB),
            Told("device_free", 85.06 * MIB),
            Told(RESERVED, 21.92 * GIB),
        ],
    ),
    Log(
        "xingchensong/TouchNet#100, on Ascend, with what is active",
        "RuntimeError: NPU out of memory. Tried to allocate 5.03 GiB (NPU 3; 60.96 GiB total "
        "capacity; 49.47 GiB already allocated; 49.47 GiB current active; 1.32 GiB free; 57.55 GiB "
        "reserved in total by PyTorch) If reserved memory is >> allocated memory try setting "
        "max_split_size_mb to avoid fragmentation.",
        [
            Told("tried_to_allocate", 5.03 * GIB),
            Told("device_capacity", 60.96 * GIB),
            Told(CURRENT, 49.47 * GIB),
            Told(ACTIVE, 49.47 * GIB),
            Told("device_free", 1.32 * GIB),
            Told(RESERVED, 57.55 * GIB),
        ],
    ),
    Log(
        "intel/intel-extension-for-pytorch#629, which says nothing of what is free",
        "RuntimeError: XPU out of memory. Tried to allocate 1.71 GiB (GPU 0; 15.56 GiB total "
        "capacity; 176.00 MiB already allocated; 180.00 MiB reserved in total by PyTorch)",
        [
            Told("tried_to_allocate", 1.71 * GIB),
            Told("device_capacity", 15.56 * GIB),
            Told(CURRENT, 176 * MIB),
            Told(RESERVED, 180 * MIB),
        ],
    ),
    Log(
        "intel/intel-extension-for-pytorch#846, PyTorch's own allocator for Intel's GPUs",
        "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total "
        "capacity of 15.11 GiB. Of the allocated memory 4.25 GiB is allocated by PyTorch, and "
        "12.50 MiB is reserved by PyTorch but unallocated. Please use `empty_cache` to release all "
        "unoccupied cached memory.",
        [
            Told("tried_to_allocate", 8 * GIB),
            Told("device_capacity", 15.11 * GIB),
            Told(CURRENT, 4.25 * GIB),
            Told("reserved_unallocated", 12.5 * MIB),
        ],
    ),
    Log(
        "intel/torch-xpu-ops#5046, as of 2.14",
        "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 16.00 GiB. GPU 0 has a total "
        "capacity of 16.48 GiB of which 16.07 GiB is free. Of the allocated memory 0 bytes is "
        "allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.",
        [
            Told("tried_to_allocate", 16 * GIB),
            Told("device_capacity", 16.48 * GIB),
            Told("device_free", 16.07 * GIB),
            Told(CURRENT, 0),
            Told("reserved_unallocated", 0),
        ],
    ),
    Log(
        "sgl-project/sglang#29838, Ascend in 2026",
        "torch.OutOfMemoryError: NPU out of memory. Tried to allocate 72.00 MiB (NPU 0; 61.27 GiB "
        "total capacity; 56.05 GiB already allocated; 56.05 GiB current active; 5.04 MiB free; "
        "58.39 GiB reserved in total by PyTorch).If reserved memory is >> allocated memory try",
        [
            Told("tried_to_allocate", 72 * MIB),
            Told("device_capacity", 61.27 * GIB),
            Told(CURRENT, 56.05 * GIB),
            Told(ACTIVE, 56.05 * GIB),
            Told("device_free", 5.04 * MIB),
            Told(RESERVED, 58.39 * GIB),
        ],
    ),
    Log(
        "predibase/lorax#94, which may not take the whole card",
        "Server error: CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 47.54 GiB total "
        "capacity; 23.68 GiB already allocated; 23.44 GiB free; 23.77 GiB allowed; 23.76 GiB "
        "reserved in total by PyTorch) If reserved memory is >> allocated memory",
        [
            Told("tried_to_allocate", 2 * MIB),
            Told("device_capacity", 47.54 * GIB),
            Told(CURRENT, 23.68 * GIB),
            Told("device_free", 23.44 * GIB),
            Told(RESERVED, 23.76 * GIB),
        ],
    ),
]
"""Errors of a full memory, whose releases and surroundings print them differently."""

OTHER_ERRORS = [
    Log(
        "cubiq/ComfyUI_InstantID#46, of cudaMallocAsync, in lines of its own",
        "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of "
        "memory)\n"
        "Currently allocated     : 11.10 GiB\n"
        "Requested               : 25.00 MiB\n"
        "Device limit            : 12.00 GiB\n"
        "Free (according to CUDA): 0 bytes\n"
        "PyTorch limit (set by user-supplied memory fraction)\n"
        "                        : 17179869184.00 GiB\n",
        [
            Told(CURRENT, 11.1 * GIB),
            Told("tried_to_allocate", 25 * MIB),
            Told("device_capacity", 12 * GIB),
            Told("device_free", 0),
        ],
    ),
    Log(
        "Comfy-Org/ComfyUI#7440, on a Mac",
        "MPS backend out of memory (MPS allocated: 9.57 GiB, other allocations: 17.35 GiB, max "
        "allowed: 27.20 GiB). Tried to allocate 292.50 MiB on private pool. Use "
        "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations\n",
        [Told(CURRENT, 9.57 * GIB), Told("tried_to_allocate", 292.5 * MIB)],
    ),
    Log(
        "hpcaitech/ColossalAI#4537, three ranks at once, the last of them torn",
        "torch.cuda.OutOfMemoryErrortorch.cuda: torch.cuda.OutOfMemoryError.OutOfMemoryError: CUDA "
        "out of memory. Tried to allocate 32.00 GiB (GPU 6; 79.20 GiB total capacity; 54.76 GiB "
        "already allocated; 22.56 GiB free; 55.44 GiB reserved in total by PyTorch) If reserved "
        "memory is >> allocated memory try setting PYTORCH_CUDA_ALLOC_CONF: \n"
        "CUDA out of memory. Tried to allocate 32.00 GiB (GPU 1; 79.20 GiB total capacity; 54.76 "
        "GiB already allocated; 22.56 GiB free; 55.44 GiB reserved in total by PyTorch) See "
        "documentation for PYTORCH_CUDA_ALLOC_CONFCUDA out of memory. Tried to allocate 32.00 GiB "
        "(GPU 0; 79.20 GiB total capacity; 54.76",
        2
        * [
            Told("tried_to_allocate", 32 * GIB),
            Told("device_capacity", 79.2 * GIB),
            Told(CURRENT, 54.76 * GIB),
            Told("device_free", 22.56 * GIB),
            Told(RESERVED, 55.44 * GIB),
        ]
        + [Told("tried_to_allocate", 32 * GIB), Told("device_capacity", 79.2 * GIB)],
    ),
    Log(
        "vllm-project/vllm-ascend#1127, by way of Ray",
        "(NPURayWorkerWrapper pid=45464) ERROR 06-09 06:57:48 worker_base.py:581] RuntimeError: "
        "NPU out of memory. Tried to allocate 30.00 MiB (NPU 3; 60.96 GiB total capacity; 60.34 "
        "GiB already allocated; 60.34 GiB current active; 14.24 MiB free; 60.60 GiB reserved in "
        "total by PyTorch) If reserved memory is >> allocated memory [repeated 6x across cluster]",
        [
            Told("tried_to_allocate", 30 * MIB),
            Told("device_capacity", 60.96 * GIB),
            Told(CURRENT, 60.34 * GIB),
            Told(ACTIVE, 60.34 * GIB),
            Told("device_free", 14.24 * MIB),
            Told(RESERVED, 60.6 * GIB),
        ],
    ),
    Log(
        "NVIDIA-NeMo/RL#3793, whose workers say their rank",
        "(MegatronPolicyWorker[rank=3] pid=1101, ip=100.64.0.14) torch.OutOfMemoryError: CUDA out "
        "of memory. Tried to allocate 12.60 GiB. GPU 0 has a total capacity of 79.19 GiB of which "
        "12.44 GiB is free. Including non-PyTorch memory, this process has 66.74 GiB memory in "
        "use. Of the allocated memory 60.00 GiB is allocated by PyTorch, and 2.00 GiB is reserved "
        "by PyTorch but unallocated.",
        [
            Told("tried_to_allocate", 12.6 * GIB, 3),
            Told("device_capacity", 79.19 * GIB, 3),
            Told("device_free", 12.44 * GIB, 3),
            Told("process_used", 66.74 * GIB, 3),
            Told(CURRENT, 60 * GIB, 3),
            Told("reserved_unallocated", 2 * GIB, 3),
        ],
    ),
]
"""Others, which no terminal wraps, or which several have written."""
