"""What becomes of each key of verl's PPO trainer.

Sources: verl/trainer/config/ppo_trainer.yaml (composed) at v0.2 to v0.7.0 and b178a3c (2026-01-29),
workers/fsdp_workers.py and workers/actor/dp_actor.py there. Keys that decide together are in no
table: `read` asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping

ACTOR = "actor_rollout_ref.actor"
MODEL = "actor_rollout_ref.model"
ROLLOUT = "actor_rollout_ref.rollout"
REFERENCE = "actor_rollout_ref.ref"
FSDP = f"{ACTOR}.fsdp_config"
OPTIMIZER = f"{ACTOR}.optim"

STRATEGIES: Mapping[str, str] = {"fsdp": "fsdp1", "fsdp2": "fsdp2"}
DTYPES: Mapping[str, str] = {
    "fp32": "fp32",
    "float32": "fp32",
    "bf16": "bf16",
    "bfloat16": "bf16",
}

FIRST = "v0.1"
"""Its micro-batches are of all GPUs together, and it recomputes only when asked."""
ALWAYS_ENTROPY = (FIRST, "v0.2", "v0.2.0", "v0.3.0")
"""Releases that compute the entropy whatever its coefficient is."""
PADS = (FIRST, "v0.2", "v0.2.0", "v0.3.0", "v0.4.0", "v0.4.1", "v0.5.0", "v0.6.0", "v0.6.1")
"""Releases that keep padding unless they are told to remove it."""
LATEST = "v0.7.0"
RELEASES = (*PADS, LATEST)
"""Releases that keys tell of."""
DIVIDES_APART = "v0.9.0"
"""Its logits over a temperature are tensors of their own."""
BY_ENGINES = ("v0.8.0", DIVIDES_APART)
"""Releases without the workers of before, whose engines look at all logits of padded samples."""
LATER = ("v0.7.1", *BY_ENGINES)
"""Releases with the same defaults that are read where they are named."""
