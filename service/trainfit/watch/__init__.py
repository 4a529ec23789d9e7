"""What a training loop takes, beside what was predicted of it, while it runs.

    from trainfit.watch import MemoryWatch

    with MemoryWatch(job) as watch:
        for step in range(1, steps + 1):
            ...
            watch.step_end(step)
    print(watch.report())

Neither a service nor a network is needed, and nothing of PyTorch's is reset.
"""

from trainfit.watch.callbacks import accelerate_tracker, lightning_callback, trainer_callback
from trainfit.watch.memory import MemoryWarning, MemoryWatch

__all__ = [
    "MemoryWarning",
    "MemoryWatch",
    "accelerate_tracker",
    "lightning_callback",
    "trainer_callback",
]
