"""What an estimate costs as a job grows, in one run: beside the smallest of its kind, and beside
the work that is told before it is priced.
"""

from __future__ import annotations

import time
from typing import Any

from trainfit.estimator.estimate import estimate
from trainfit.estimator.work import CHEAP, work
from trainfit.questions.estimate import plan_of, signed
from trainfit.questions.wire import to_json
from trainfit.specs.job import Job

ROUNDS = 3
SPEC = {
    "num_layers": 2048,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "vocab_size": 128_256,
    "position_embedding_type": "rope",
    "swiglu": True,
    "normalization": "RMSNorm",
}
STAGES = ((8, 1), (64, 1), (512, 1), (64, 4), (512, 4), (8, 256))
CHUNKED = ("interleaved", "looped-bfs", "interleaved-zb")


def job(framework: str, layers: int, training: dict[str, Any], **parallelism: Any) -> Job:
    return Job.model_validate(
        {
            "model": {"spec": SPEC | {"num_layers": layers}},
            "parallelism": parallelism,
            "training": training,
            "framework": {"name": framework},
        }
    )


def jobs() -> list[tuple[str, list[tuple[str, Job]]]]:
    """Jobs that grow in one thing, by what it is."""
    groups: list[tuple[str, list[tuple[str, Job]]]] = []
    for framework in ("megatron", "torchtitan"):
        rows = [(f"{n} layers", job(framework, n, {})) for n in (32, 256, 2048)]
        groups.append((f"{framework}, one stage", rows))
        rows = [
            (f"pp {pp} x vpp {vpp}", job(framework, 2048, {}, pp=pp, vpp=vpp)) for pp, vpp in STAGES
        ]
        groups.append((f"{framework}, stages", rows))
        rows = [
            (f"{m} micro-batches", job(framework, 64, {"num_microbatches": m}, pp=8, vpp=2))
            for m in (64, 4096, 1_048_576)
        ]
        groups.append((f"{framework}, micro-batches", rows))
    for schedule in ("gpipe", "looped-bfs", "interleaved-zb", "zb-v", "dualpipe-v"):
        vpp = 4 if schedule in CHUNKED else 1 if schedule == "gpipe" else 2
        rows = [
            (
                f"pp {pp} x vpp {vpp}",
                job("torchtitan", 2048, {}, pp=pp, vpp=vpp, pipeline_schedule=schedule),
            )
            for pp in (8, 64, 512)
        ]
        groups.append((f"torchtitan, {schedule}", rows))
    return groups


def milliseconds(asked: Job) -> tuple[float, int]:
    """CPU time to price a job that nothing is remembered of and to write the answer, the best of
    several rounds; and the work that its plan is.
    """
    plan = plan_of(asked)
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        to_json(signed(asked, plan, estimate(plan), activations=True))
        best = min(best, time.process_time() - start)
    return best * 1e3, work(plan)


def main() -> None:
    for group, rows in jobs():
        first = 0.0
        for name, asked in rows:
            cost, told = milliseconds(asked)
            first = first or cost
            kind = "cheap" if told <= CHEAP else "dear"
            print(
                f"{f'{group}: {name}':48s} {cost:9.1f} ms  {cost / first:6.1f} x the first"
                f"  {told / 1e3:7.1f} units of 1000, {kind}"
            )


if __name__ == "__main__":
    main()
