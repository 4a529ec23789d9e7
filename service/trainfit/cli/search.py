"""`trainfit search`: which layout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from trainfit.cli.colours import STYLES
from trainfit.cli.estimate import JOB, NAMED
from trainfit.cli.flags import takes_job_flags
from trainfit.cli.jobs import question
from trainfit.cli.launches import NOTHING_SAID, LaunchOptions
from trainfit.cli.lookup import answered
from trainfit.cli.terminal import labelled, print_all, print_json, table
from trainfit.decisions.quantities import gib, gib_range, plain
from trainfit.questions.search import FoundLayout, SearchAnswer, in_words, searched
from trainfit.questions.wire import to_json
from trainfit.specs.search import Objective, SearchRequest


def _about(text: str, **options: Any) -> Parameter:
    return Parameter(help=text, show_default=False, negative=(), **options)


OBJECTIVE = _about("What is best. Unset: fastest.")
MAX_GPUS = _about("The most GPUs that are tried without --num-gpus. Unset: 1024.")
MAX_TP = _about("The largest tensor-parallel size that is tried. Unset: 8.")
MIN_TOKENS = _about("Leave out what makes fewer tokens a second.")
PRICE = _about("What a GPU costs for an hour; names the cost of a million tokens.")
BEST = _about("How many layouts are listed. Unset: 5.")
FLAGS = _about("Print the arguments of the best layout's launch, too.", name="--launch")
JSON = _about("Print what HTTP answers.", name="--json")


@takes_job_flags
def search(
    named: Annotated[list[str] | None, NAMED] = None,
    /,
    *,
    job: Annotated[Path | None, JOB] = None,
    objective: Annotated[Objective | None, OBJECTIVE] = None,
    max_gpus: Annotated[int | None, MAX_GPUS] = None,
    max_tp: Annotated[int | None, MAX_TP] = None,
    min_tokens_per_second: Annotated[float | None, MIN_TOKENS] = None,
    price_per_gpu_hour: Annotated[float | None, PRICE] = None,
    best: Annotated[int | None, BEST] = None,
    with_launch: Annotated[bool, FLAGS] = False,
    as_json: Annotated[bool, JSON] = False,
    launch: LaunchOptions = NOTHING_SAID,
    **flags: Any,
) -> None:
    """Find the best layout of a job, of which all that is given is kept, or of launch files, of
    which the task and what flags say is.
    """
    options = {
        "objective": objective,
        "max_gpus": max_gpus,
        "max_tp": max_tp,
        "min_tokens_per_second": min_tokens_per_second,
        "price_per_gpu_hour": price_per_gpu_hour,
        "best": best,
    }
    given = {name: value for name, value in options.items() if value is not None}
    document = question(named or (), job, flags, launch)
    _, answer = answered({**document, **given}, SearchRequest, searched, as_json=as_json)
    if as_json:
        print_json(to_json(answer))
        return
    print_all(*_tables(answer))
    if with_launch and answer.best and (written := answer.best[0].launch) is not None:
        print(*written.arguments)


def _tables(answer: SearchAnswer) -> Iterator[Table]:
    if answer.best:
        yield _layouts(plain(answer.objective), answer.best)
    if len(answer.pareto) > 1:
        yield _layouts("no other is as fast, on as few GPUs, with as much free", answer.pareto)
    lines = [("tried", f"{answer.tried.layouts:,} layouts, {answer.tried.jobs:,} priced in full")]
    for each in answer.tried.fell:
        example = f": {each.example}" if each.example is not None else ""
        lines.append((plain(each.why), f"{each.layouts:,}: {each.message}{example}"))
    yield labelled(lines)


def _layouts(title: str, found: list[FoundLayout]) -> Table:
    numbers = ("GPUs", "seconds", "bounds", "tokens/s", "GiB", "free")
    rows = table([], numbers, title=title, expendable=["bounds", "free", "tokens/s"])
    for name in ("verdict", "layout"):
        rows.add_column(name, no_wrap=name == "verdict")
    for each in found:
        seconds, bounds, tokens = "", "", ""
        if each.step_seconds is not None and each.tokens_per_second is not None:
            time = each.step_seconds
            seconds, bounds = f"{time.expected:.3g}", f"{time.low:.3g}–{time.high:.3g}"
            tokens = f"{each.tokens_per_second:,.0f}"
        needed, free = gib_range(each.device_bytes), gib(each.headroom_bytes)
        words, verdict = in_words(each.job), Text(plain(each.verdict), STYLES[each.verdict])
        rows.add_row(str(each.num_gpus), seconds, bounds, tokens, needed, free, verdict, words)
    return rows
