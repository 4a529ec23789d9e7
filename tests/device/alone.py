"""One process as the only rank of a job."""

from __future__ import annotations

import os
import socket

import torch


def stand_alone() -> None:
    """What torchrun sets for one rank of one, before a process group is made. Nothing of it needs
    a network: communicators meet over loopback.
    """
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK="0", WORLD_SIZE="1", LOCAL_RANK="0"
    )
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    os.environ.setdefault("NCCL_IB_DISABLE", "1")
    # The compiler starts no processes of its own beside a forked one.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


def expand_segments() -> None:
    """As `PYTORCH_ALLOC_CONF=expandable_segments:True`, which is read too early to be set here."""
    settings = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    (settings or torch.cuda.memory._set_allocator_settings)("expandable_segments:True")
