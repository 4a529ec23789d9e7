"""After v0.2.2 a Python function configures torchtitan. It is not run, so that what it sets is not
known: every key that decides memory has to be an option over it, or in the overrides.
"""

from __future__ import annotations

from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.torchtitan.releases import RENAMED
from trainfit.launch.torchtitan.run import TorchtitanRun

OPTIONS = (
    "training.local_batch_size",
    "training.num_tokens_per_microbatch_per_dp_rank",
    "training.seq_len",
    "training.dtype",
    "training.mixed_precision_param",
    "training.enable_cpu_offload",
    "training.disable_cuda_graphs",
    "parallelism.data_parallel_replicate_degree",
    "parallelism.data_parallel_shard_degree",
    "parallelism.fsdp_reshard_after_forward",
    "parallelism.tensor_parallel_degree",
    "parallelism.context_parallel_degree",
    "parallelism.pipeline_parallel_degree",
    "parallelism.expert_parallel_degree",
    "activation_checkpoint.mode",
    "compile.enable",
)
"""What options have to say, of what the release has, under the names of `releases.RENAMED`."""
FIELDS = ("/model", "/training/loss", "/training/optimizer")
"""What no option says, and overrides have to."""
SUBCOMMANDS = {"activation_checkpoint": "activation-checkpoint:selective (or full, none)"}


def demand(run: TorchtitanRun) -> None:
    """Raise LaunchError with everything that the Python function may set and nobody says."""
    spelled = {RENAMED.get(key, key): key for key in run.release.keys}
    options = [
        SUBCOMMANDS.get(spelled[key], f"--{spelled[key]}")
        for key in OPTIONS
        if key in spelled and key not in run.reading.settings
    ]
    fields = [
        pointer.strip("/").replace("/", ".")
        for pointer in FIELDS
        if run.draft.overridden(pointer) is None
    ]
    if not options and not fields:
        return
    wanted = [f"the options {', '.join(options)}"] if options else []
    wanted += [f"in overrides {', '.join(fields)}"] if fields else []
    config = run.reading.value("config", "that configures this run")
    message = f"the Python function {config} is not run; give what it may set: {'; '.join(wanted)}"
    setting = run.reading.get("config")
    raise LaunchError(Complaint(message) if setting is None else Complaint.at(setting, message))
