"""The documentation says what the code does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from itertools import chain
from pathlib import Path

import pytest

from tests.forking import forked_programs
from tools.docs.estimator import constants
from tools.docs.pages import BLOCKS, PAGES, ROOT, generated, places
from tools.docs.service import environment_variables, exposed, families
from tools.docs.tutorials import TUTORIALS, followed
from tools.figures import FIGURES, IMAGES, micro_batch, passes, planned
from trainfit.api.examples import DEEPSEEK_V3, LLAMA_8B
from trainfit.api.kinds import KINDS
from trainfit.estimator import overhead
from trainfit.estimator.assumptions import all_assumptions
from trainfit.estimator.estimate import estimate
from trainfit.estimator.frameworks.megatron import buffers
from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.legend import Legend
from trainfit.estimator.run import run_of

DOCS = ROOT / "docs"


def page(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def headings(text: str) -> list[str]:
    """Titles of the sections of a page, without those in listings."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^#+ (.+)$", prose, re.MULTILINE)


def anchor(heading: str) -> str:
    """How a link names a section."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.fixture(scope="module")
def expected() -> dict[Path, str]:
    return generated()


@pytest.mark.parametrize(
    "path", [*PAGES, *(IMAGES / name for name in FIGURES)], ids=lambda path: path.name
)
def test_what_is_generated_is_what_the_code_says(path: Path, expected: dict[Path, str]) -> None:
    assert path.read_text("utf-8") == expected[path], "run `make docs`"


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.name)
def test_who_follows_a_tutorial_sees_what_it_shows(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text == followed(text, forked_programs()), "run `make docs`"


def test_every_block_has_a_place() -> None:
    assert {name for each in PAGES for name in places(each.read_text("utf-8"))} == BLOCKS.keys()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text("utf-8")):
        if "://" in target:
            continue
        name, _, section = target.partition("#")
        linked = (path.parent / name).resolve() if name else path
        assert linked.exists(), target
        if section:
            assert section in map(anchor, headings(linked.read_text("utf-8"))), target


def test_the_index_lists_every_page() -> None:
    listed = re.findall(r"\]\(([^)]+)\)", page("docs/README.md"))
    assert {each.name for each in DOCS.glob("*.md")} - {"README.md"} <= set(listed)


def test_the_readme_is_short_and_opens_with_the_two_commands() -> None:
    lines = page("README.md").splitlines()
    assert len(lines) < 200
    opening = "\n".join(lines[:10])
    assert "make serve" in opening
    assert "make test" in opening


def test_every_assumption_is_explained() -> None:
    assert all_assumptions().keys() <= set(headings(page("docs/assumptions.md")))


def test_every_constant_is_documented() -> None:
    text = page("docs/assumptions.md")
    names = [each.name for module in (overhead, buffers) for each in constants(module)]
    assert [name for name in names if f"`{name}`" not in text and name != "MIB"] == []


def test_every_problem_is_explained_with_an_example() -> None:
    text = page("docs/api.md")
    for slug in KINDS:
        assert f"`{slug}`" in headings(text)
        assert f'"type": "/problems/{slug}"' in text


def test_every_metric_is_documented() -> None:
    text = page("docs/operations.md")
    assert [name for name in map(exposed, families()) if f"`{name}`" not in text] == []


@pytest.mark.parametrize("names", [["docs/operations.md", "docs/hub.md"], ["deploy/README.md"]])
def test_every_setting_is_documented(names: list[str]) -> None:
    text = "".join(map(page, names))
    assert [each for each in environment_variables().values() if f"`{each}`" not in text] == []


def test_the_legend_has_every_shared_size() -> None:
    text = page("docs/legend.md")
    assert [each.name for each in fields(Legend) if f"`{each.name}`" not in text] == []


@pytest.mark.parametrize(
    "hf_id",
    [
        "deepseek-ai/DeepSeek-V3",
        "meta-llama/Llama-3.1-8B",
        "openai-community/gpt2",
        "openai/gpt-oss-120b",
        "Qwen/Qwen3-Next-80B-A3B-Instruct",
    ],
)
def test_the_legend_has_every_symbol_of_a_shape(hf_id: str) -> None:
    explained = set(re.findall(r"`([^`]+)`", page("docs/legend.md")))
    assert set(symbols(hf_id)) <= explained


def symbols(hf_id: str) -> Iterator[str]:
    """Symbols within the brackets of the tensors of a model."""
    plan, _ = planned({"model": {"hf_id": hf_id}})
    ledger = MegatronLedger(run_of(plan))
    tables = (*ledger.kinds, ledger.embedding(), ledger.mtp(), ledger.final_norm(), ledger.head())
    for operation in chain.from_iterable(chain.from_iterable(tables)):
        for tensor in operation.tensors:
            for shape in re.findall(r"\[([^\]]+)\]", tensor.name):
                yield from re.findall(r"[A-Za-z_]+'?", shape)


def test_the_step_that_is_drawn_peaks_where_the_estimate_does() -> None:
    plan, result = planned(LLAMA_8B)
    (stage,) = result.stages
    sizes = {each.name: each.bytes for each in stage.components}
    (idle,) = estimate(plan, activations=False).stages
    standing = {each.name: each.bytes for each in idle.components}
    peak = max(micro_batch(plan), key=lambda point: point.kept + point.borrowed)
    assert peak.operation == stage.peak.operation
    assert peak.kept == sizes["activations"]
    assert peak.borrowed == sizes["workspace"] - standing["workspace"]


def test_the_passes_that_are_drawn_make_a_step() -> None:
    plan, result = planned(DEEPSEEK_V3)
    for stage in result.stages:
        track = passes(stage, plan.batch.num_microbatches)
        assert len(track) == 2 * plan.batch.num_microbatches
        assert max(track) == stage.microbatches_in_flight
        assert track[-1] == 0
