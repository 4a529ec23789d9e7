"""`make bench`: what an estimate costs, warm and cold, beside work of a known size."""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import product
from typing import Any

import httpx

from tests.bench import page, ratios, sizes, throughput
from tests.layouts import deepseek_v3
from tests.serving import started_service
from tests.watch.test_memory import Card
from trainfit.estimator.estimate import estimate
from trainfit.questions.estimate import plan_of, price
from trainfit.questions.wire import to_json
from trainfit.resolve.plan import Plan
from trainfit.specs.job import Job
from trainfit.watch import MemoryWatch
from trainfit.watch.memory import END_OF_STEP
from trainfit.watch.reading import read

ROUNDS = 7
CALLS = 100
JOB = {
    "model": {"hf_id": "deepseek-ai/DeepSeek-V3"},
    "parallelism": {
        "num_gpus": 1024,
        "pp": 16,
        "ep": 64,
        "pipeline_model_parallel_layout": "Et*3|(tt|)*29m|L",
    },
}
COLD = ["estimate", "deepseek-ai/DeepSeek-V3", "--tp", "4", "--pp", "4", "--ep", "8"]
COLD += ["--num-gpus", "128", "--num-layers-in-last-pipeline-stage", "16"]


def microseconds(work: Callable[[], object]) -> float:
    """The best of several rounds: what the work costs when nothing else runs."""
    work()
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(CALLS):
            work()
        best = min(best, time.perf_counter() - start)
    return best / CALLS * 1e6


def cold_cpu_seconds() -> float:
    """User and system time of one whole `trainfit estimate`, best of several."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "trainfit", *COLD], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once() for _ in range(ROUNDS))


def compare_beside_estimates(
    client: httpx.Client, jobs: Sequence[dict[str, Any]]
) -> tuple[float, float]:
    """Seconds of one comparison of the jobs, and on average of one of their estimates."""
    body = {"jobs": [{"id": str(number), "job": job} for number, job in enumerate(jobs)]}

    def seconds(path: str, content: object) -> float:
        start = time.perf_counter()
        answer = client.post(path, json=content)
        assert answer.status_code == 200
        return time.perf_counter() - start

    together, alone = float("inf"), [float("inf")] * len(jobs)
    for _ in range(ROUNDS):  # in turn, so that whatever else runs meanwhile slows down both
        together = min(together, seconds("/v1/compare", body))
        alone = [
            min(best, seconds("/v1/estimate", job)) for best, job in zip(alone, jobs, strict=True)
        ]
    return together, sum(alone) / len(alone)


def with_microbatches(plan: Plan, count: int) -> Plan:
    return replace(plan, batch=replace(plan.batch, num_microbatches=count))


def main() -> None:
    job = Job.model_validate(JOB)
    plan = plan_of(job)
    result = estimate(plan)
    plain = asdict(result)
    dumps = microseconds(lambda: json.dumps(plain))
    rows = [
        ("warm estimate, DeepSeek-V3 on 16 x 2 stages", microseconds(lambda: price(job))),
        ("the same, nothing of it remembered", microseconds(lambda: estimate(plan))),
        (
            "the same with 100,000 micro-batches",
            microseconds(lambda: estimate(with_microbatches(plan, 100_000))),
        ),
        ("job to plan: lookup, checks, defaults", microseconds(lambda: plan_of(job))),
        ("answer to JSON", microseconds(lambda: to_json(result))),
        (
            "a step of a training loop that is watched",
            microseconds(MemoryWatch(cuda=Card()).step_end),
        ),
        ("one of which the card is read", microseconds(lambda: read(Card(), 1, END_OF_STEP))),
        ("json.dumps of the answer, for scale", dumps),
    ]
    for name, cost in rows:
        print(f"{name:48s} {cost:9.1f} us  {cost / dumps:8.4f} x json.dumps")
    with (
        started_service(TRAINFIT_LOG_LEVEL="error", TRAINFIT_ANSWER_CACHE_BYTES="0") as service,
        httpx.Client(base_url=service.url) as client,
    ):
        for pp, vpp in product((4, 8, 16), (1, 2)):
            together, alone = compare_beside_estimates(client, list(deepseek_v3(pp, vpp)))
            name = f"compare of 64 such layouts, {pp} x {vpp} stages, HTTP"
            print(f"{name:48s} {together * 1e6:9.0f} us  {together / alone:6.1f} x one of them")
    print(f"{'cold trainfit estimate, CPU':48s} {cold_cpu_seconds():9.2f} s")
    for name, ratio in ratios.measured().items():
        print(f"{name:48s} {ratio:9.2f} x the calls of an empty route")
    sizes.main()
    throughput.main()
    page.main()


if __name__ == "__main__":
    main()
