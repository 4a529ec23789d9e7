"""What the estimator takes for granted, refuses, reads and keeps, as tables."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import cache
from itertools import chain
from textwrap import dedent
from types import ModuleType
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic import ValidationError

from tools.docs.markdown import code, listing, table
from tools.figures import Point, micro_batch, planned
from trainfit.api.examples import DEEPSEEK_V3, LLAMA_8B, LORA_8B, TORCHTITAN_8B
from trainfit.architectures.registry import supported_model_types
from trainfit.cli.flags import flags
from trainfit.estimator import overhead
from trainfit.estimator.assumptions import all_assumptions
from trainfit.estimator.blocks.attention import pytorch as attention_of_modules
from trainfit.estimator.blocks.attention.transformer_engine import attention
from trainfit.estimator.blocks.mlp import pytorch as mlp_of_modules
from trainfit.estimator.blocks.mlp.transformer_engine import mlp
from trainfit.estimator.frameworks.megatron import buffers
from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.pytorch.engines.ddp import Ddp
from trainfit.estimator.frameworks.pytorch.engines.fsdp import Fsdp
from trainfit.estimator.frameworks.pytorch.units import Unit
from trainfit.estimator.ledger import Lifetime
from trainfit.estimator.legend import legend_of
from trainfit.estimator.results import Interval
from trainfit.estimator.run import run_of
from trainfit.questions.estimate import plan_of
from trainfit.resolve.findings import RefusedError
from trainfit.specs.framework import Framework, FrameworkName
from trainfit.specs.job import Job

MIB, GIB = 2**20, 2**30

MOE = {"model": {"hf_id": "Qwen/Qwen3-30B-A3B"}, "parallelism": {"num_gpus": 8}}
RICH: Mapping[str, Mapping[str, Any]] = {
    "megatron": {**DEEPSEEK_V3, "parallelism": {**DEEPSEEK_V3["parallelism"], "cp": 2}},
    "torchtitan": {**TORCHTITAN_8B, **MOE},
    "transformers": {**LORA_8B, **MOE},
}
PLAIN = {"model": {"hf_id": "meta-llama/Llama-3.1-8B"}, "parallelism": {"num_gpus": 8}}
JOBS: Mapping[str, Mapping[str, Any]] = {
    part.called: RICH.get(name, {**PLAIN, "framework": {"name": name}})
    for name, part in zip(get_args(FrameworkName), get_args(get_args(Framework)[0]), strict=True)
}
"""A job of each framework, to which options are given."""

NOT_FLAGS: Mapping[str, tuple[Any, ...]] = {
    "/training/mtp/num_layers": (1,),
    "/training/frozen": (["layers.0"],),
    "/training/num_frozen_layers": (1,),
    "/training/loss/logits_to_keep": (1,),
    "/parallelism/cp": (2,),
    "/parallelism/pp": (2,),
}
"""Values of a job to try that no flag lists."""


class Refusal(NamedTuple):
    """A value of a job that is refused because it is not modelled."""

    framework: str
    pointer: str
    value: Any


@cache
def refusals() -> tuple[Refusal, ...]:
    """Every choice of a job that is refused by itself: each is tried."""
    return tuple(_refusals())


def _refusals() -> Iterator[Refusal]:
    tried = {pointer: _choices(flag.kind) for pointer, flag in flags().items()}
    for pointer, values in NOT_FLAGS.items():
        tried[pointer] = (*tried.get(pointer, ()), *values)
    del tried["/framework/name"]
    for pointer, values in tried.items():
        for value in values:
            for framework, job in JOBS.items():
                if _is_refused(job, pointer, value):
                    yield Refusal(framework, pointer, value)


def _choices(kind: Any) -> tuple[Any, ...]:
    if get_origin(kind) is Literal:
        return get_args(kind)
    if get_origin(kind) is list:
        return tuple([choice] for choice in _choices(get_args(kind)[0]))
    return {bool: (True, False), float: (0.5,)}.get(kind, ())


def _is_refused(job: Mapping[str, Any], pointer: str, value: Any) -> bool:
    """Whether the option is not modelled."""
    document: dict[str, Any] = deepcopy(dict(job))
    *path, name = pointer.strip("/").split("/")
    part = document
    for step in path:
        part = part.setdefault(step, {})
    part[name] = value
    try:
        plan_of(Job.model_validate(document))
    except RefusedError as error:
        return any(finding.code == "not_modelled" for finding in error.findings)
    except ValidationError:
        pass
    return False


def refused() -> str:
    """Fields with the values that each framework's jobs are refused with."""
    by_field: dict[str, dict[str, list[str]]] = {}
    for framework, pointer, value in refusals():
        row = by_field.setdefault(pointer, {name: [] for name in JOBS})
        row[framework].append(_written(value))
    rows = [[code(pointer), *map(", ".join, row.values())] for pointer, row in by_field.items()]
    return table(["field of a job", *JOBS], rows)


def _written(value: Any) -> str:
    if isinstance(value, float):
        return "more than 0"
    if isinstance(value, list):
        return ", ".join(map(code, value))
    return code(value["method"] if isinstance(value, dict) else str(value).lower())


def assumptions() -> str:
    return table(
        ["id", "what is taken for granted"], [[code(k), v] for k, v in all_assumptions().items()]
    )


class Constant(NamedTuple):
    """A constant of a module and what the module says of it."""

    name: str
    value: object
    about: str


def constants(module: ModuleType) -> list[Constant]:
    """The constants that a module defines, in its order."""
    found: list[Constant] = []
    follows = False
    for node in ast.parse(inspect.getsource(module)).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        target = node.target if isinstance(node, ast.AnnAssign) else target
        if isinstance(target, ast.Name):
            if target.id.isupper():
                found.append(Constant(target.id, getattr(module, target.id), ""))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and follows:
            found[-1] = found[-1]._replace(about=inspect.cleandoc(str(node.value.value)))
        follows = isinstance(target, ast.Name) and target.id.isupper()
    return found


def _constants(module: ModuleType) -> str:
    rows = [
        [code(each.name), _shown(each), " ".join(each.about.split())]
        for each in constants(module)
        if each.name not in ("MIB", "GIB")
    ]
    return table(["constant", "value", "what it is"], rows)


def _shown(constant: Constant) -> str:
    """Bounds as low, expected, high; sizes of a MiB and more in MiB too."""
    value = constant.value
    if isinstance(value, Interval):
        bounds = value.low, value.expected, value.high
        if max(bounds) >= MIB:
            return ", ".join(f"{each / MIB:,.0f}" for each in bounds) + " MiB"
        return ", ".join(map(str, bounds))
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    if isinstance(value, int) and value >= MIB:
        return f"{value:,} ({value / MIB:.4g} MiB)"
    return f"{value:,}" if isinstance(value, int) else str(value)


def overhead_constants() -> str:
    return _constants(overhead)


def buffer_constants() -> str:
    return _constants(buffers)


def layer_ledger() -> str:
    """The tensors of one layer of the example."""
    plan, _ = planned(LLAMA_8B)
    run = run_of(plan)
    ledger, sizes = MegatronLedger(run, symbolic=True), legend_of(run)
    rows = []
    for operation in chain.from_iterable(ledger.kinds[0]):
        name = operation.name
        for row in operation.tensors:
            lifetime, dropped = row.lifetime.name.lower(), ", ".join(row.dropped_by)
            rows.append([name, row.formula, lifetime, dropped, f"{row.bytes / MIB:,.1f}"])
            name = ""
    shown = {"n": sizes.n, "n'": sizes.n_shard, "h": sizes.h, "t": sizes.t}
    words = ", ".join(f"{name} = {size:,}" for name, size in shown.items())
    heads = ["operation", "tensor", "lifetime", "dropped by", "MiB"]
    return f"Sizes: {words}; {sizes.bytes} bytes an element.\n\n{table(heads, rows, numbers=1)}"


def program(of: Callable[..., object]) -> Callable[[], str]:
    """A block's program, an engine or one of its methods, as it stands in the code."""
    return lambda: listing(dedent(inspect.getsource(of)), "python")


def lifetimes() -> str:
    rows = [[code(each.name.lower()), each.value] for each in Lifetime]
    return table(["lifetime", "how long the tensor lives"], rows)


def moments() -> str:
    """The moments of the example's step that a reader may ask for."""
    plan, result = planned(LLAMA_8B)
    (stage,) = result.stages
    points = micro_batch(plan)
    peak = max(points, key=lambda point: point.kept + point.borrowed)
    standing = stage.allocated_bytes.expected - peak.kept - peak.borrowed
    rows = []
    for words, point in _named(points).items():
        mark = " (the peak)" if point is peak else ""
        sizes = (standing, point.kept, point.borrowed, standing + point.kept + point.borrowed)
        rows.append([words + mark, point.operation, *(f"{each / GIB:.2f}" for each in sizes)])
    step = plan.step.states.step
    assert step == 0, "the optimizer step of the example borrows nothing"
    rows.append(["optimizer step", "optimizer", f"{standing / GIB:.2f}", "0", "0", rows[0][2]])
    heads = ["moment", "highest at", "standing", "kept", "borrowed", "allocated"]
    return table(heads, rows, numbers=4)


def _named(points: list[Point]) -> Mapping[str, Point]:
    """The first and the last layer, the head and the embedding, there and back."""
    ahead = [point for point in points if point.direction == "forward"]
    back = points[len(ahead) :]
    last = max(i for i, point in enumerate(ahead) if point.segment in ("dense", "moe"))
    return {
        "forward of the first layer": ahead[1],
        "forward of the last layer": ahead[last],
        "forward of the head": ahead[-1],
        "backward of the head": back[0],
        "backward of the last layer": back[len(ahead) - 1 - last],
        "backward of the first layer": back[-2],
        "backward of the embedding": back[-1],
    }


def model_types() -> str:
    types = supported_model_types()
    return f"{len(types)} types:\n\n{listing(_wrapped(types))}"


def _wrapped(words: tuple[str, ...], width: int = 108) -> str:
    lines, line = [], ""
    for word in words:
        if line and len(line) + 2 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line}  {word}" if line else word
    return "\n".join([*lines, line])


BLOCKS = {
    "assumptions": assumptions,
    "buffer-constants": buffer_constants,
    "layer-ledger": layer_ledger,
    "lifetimes": lifetimes,
    "model-types": model_types,
    "engine-ddp": program(Ddp),
    "engine-fsdp-unit": program(Fsdp.unit),
    "engine-unit": program(Unit),
    "moments": moments,
    "overhead-constants": overhead_constants,
    "program-attention": program(attention),
    "program-mlp": program(mlp),
    "program-attention-pytorch": program(attention_of_modules.attention),
    "program-mlp-pytorch": program(mlp_of_modules.mlp),
    "refused": refused,
}
