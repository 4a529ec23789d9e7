"""What a worker loads before it is asked for the first time."""

from __future__ import annotations

import gc
from functools import cache

SCRIPT = """
set -e
NODES=${NODES:-1}
torchrun --nproc_per_node 8 --nnodes $NODES pretrain_gpt.py --micro-batch-size 1
"""
DOCUMENT = "model: {hf_id: meta-llama/Llama-3.1-8B}"
BETWEEN_COLLECTIONS = 50_000
"""Objects made between two searches for garbage: the requests of a rank are tens of thousands, and
none is garbage before its allocator was replayed.
"""


@cache
def warm() -> None:
    """Load what reads and answers, each by being used once, so that no caller waits for tables."""
    from trainfit.api.replies import EstimateWanted, estimate_reply
    from trainfit.documents.document import parse_documents
    from trainfit.questions.dimensions import from_package
    from trainfit.questions.estimate import load_frameworks
    from trainfit.questions.jobs import read_job
    from trainfit.questions.launches import RequestedJob, job_from
    from trainfit.questions.measurements import read_texts
    from trainfit.questions.problems import Problem
    from trainfit.specs.job import Job
    from trainfit.specs.launch import Launch, LaunchFile
    from trainfit.specs.part import build_all

    load_frameworks()
    job_from(Launch(files=(LaunchFile(path="train.sh", content=SCRIPT),)))
    for document in parse_documents(".yaml", DOCUMENT):
        job = read_job(document.value, Job)
        assert not isinstance(job, Problem)
        estimate_reply(RequestedJob(job), from_package, EstimateWanted())
    read_texts(())
    build_all()
    gc.collect()
    gc.freeze()  # it stays, and is not looked through again
    gc.set_threshold(BETWEEN_COLLECTIONS)
