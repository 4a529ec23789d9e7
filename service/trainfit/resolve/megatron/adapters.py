"""What Megatron-Bridge trains beside a frozen base: low-rank adapters of its linears.

Source: Megatron-Bridge's peft/lora.py, peft/utils.py (ParallelLinearAdapter).
"""

from collections.abc import Iterator

from trainfit.resolve.findings import Findings, put
from trainfit.resolve.megatron.plan import LinearAdapters
from trainfit.specs.job import Job
from trainfit.specs.peft import Lora

OF_ATTENTION = ("linear_qkv", "linear_proj")
OF_LATENT_ATTENTION = (
    *("linear_q_proj", "linear_q_down_proj", "linear_q_up_proj"),
    *("linear_kv_down_proj", "linear_kv_up_proj"),
)
OF_NETWORKS = ("linear_fc1", "linear_fc2")
OF_MIXERS = ("in_proj", "out_proj")
LINEARS = (*OF_ATTENTION, *OF_LATENT_ATTENTION, *OF_NETWORKS, *OF_MIXERS)
"""What Megatron calls the linears of its layers."""


def adapters_not_modelled(job: Job) -> Iterator[tuple[str, str]]:
    """What adapters elsewhere do and Bridge's do not, and what is not followed beside these."""
    training, where = job.training, "/training/peft"
    peft = training.peft
    if peft is None:
        return
    if not isinstance(peft, Lora):
        yield f"{where}/method", f"{peft.method} under Megatron"
        return
    elsewhere = {
        "quantization": peft.quantization is not None,
        "base_dtype": peft.base_dtype is not None,
        "modules_to_save": bool(peft.modules_to_save),
        "adapter_dtype": peft.adapter_dtype == "fp32",
        "fused": bool(peft.fused),
        "decomposed": peft.decomposed,
    }
    for name, asked in elsewhere.items():
        if asked:
            yield f"{where}/{name}", f"{name} of adapters under Megatron"
    if job.parallelism.data_parallel_sharding_strategy in ("optim_grads", "optim_grads_params"):
        yield where, "adapters under Megatron-FSDP"


def adapters_of(job: Job, findings: Findings) -> LinearAdapters | None:
    peft = job.training.peft
    if not isinstance(peft, Lora):
        return None
    every = peft.target_modules == "all-linear"
    targets = frozenset(LINEARS if every else peft.target_modules)
    if unknown := sorted(targets.difference(LINEARS)):
        findings.add(
            "/training/peft/target_modules",
            "unknown_module",
            f"Megatron has no linear called {', '.join(unknown)}; it has {', '.join(LINEARS)}",
            put("/training/peft/target_modules", [*OF_ATTENTION, *OF_NETWORKS]),
        )
    if peft.r % job.parallelism.tp:
        message = f"ranks share out the {peft.r} rows of an adapter: tp must divide them"
        findings.add("/training/peft/r", "conflict", message)
    return LinearAdapters(rank=peft.r, dropout=peft.dropout > 0, targets=targets)
