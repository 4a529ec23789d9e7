"""Training steps on a GPU: the job that is asked is the job that runs.

    python -m tests.device tests/device/cases_transformers.jsonl -o ROWS.jsonl --record FOLDER
    python -m tests.device.contexts -o CONTEXTS.jsonl
    python -m tests.device.kernels > KERNELS.jsonl
    python -m tests.device.watched -o FOLDER

It needs PyTorch 2.11 or later, transformers, peft, trl, bitsandbytes and liger-kernel; for their
cases megatron-core 0.19, and torchtitan 0.2.2 with torchao; and no network. What CUDA is asked
before a process forks has to go through NVML (PYTORCH_NVML_BASED_CUDA_CHECK=1). No row was measured
yet: without a GPU, programs and cases were tried at small sizes on a CPU (`--rehearse`).
"""
