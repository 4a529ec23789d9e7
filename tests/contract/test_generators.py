"""Generators of clients in every language take openapi.json: each union keeps all its arms, no type
is numbered, and what can be compiled here is.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.programs import BRIEF_JAVA, locked, needed, node_packages
from tests.serving import UNHURRIED, running_service
from tools.openapi import DOCUMENT
from trainfit.api.examples import DEEPSEEK_V3

pytestmark = pytest.mark.clients

TYPESCRIPT = Path(__file__).parent / "typescript"
GENERATORS: Mapping[str, tuple[str, ...]] = {
    "python": (),
    "go": ("enumClassPrefix=true", "useOneOfDiscriminatorLookup=true"),
    "java": (),
    "csharp": (),
    "rust": (),
    "kotlin": ("serializationLibrary=gson", "generateOneOfAnyOfWrappers=true"),
    "typescript-fetch": ("importFileExtension=.js",),
    "typescript-axios": (),
}
"""Generators of openapi-generator, with the properties that docs/clients.md has for them."""
ARMS = {
    "Framework": ("Megatron", "Torchtitan", "Transformers", "Nanotron"),
    "JobGpu": ("CustomGpu", "str"),
    "JobOrLaunch": ("Job", "LaunchedJob"),
    "TrainingPrecision": ("TrainingPrecisionChoice", "Precision"),
    "Peft": ("Lora", "PromptTuning", "PTuning", "PrefixTuning"),
}
"""Unions, and what the code for each has to name."""
SOURCES = (".py", ".go", ".java", ".cs", ".rs", ".kt", ".ts")
NUMBERED = re.compile(
    r"\b(?:class|interface|enum|struct|export type|type)\s+([A-Z]\w*?[a-z][1-9])\b(?!\w)"
)
OWN_NUMBERS = {"Fp8", "Adamw8bit", "Fsdp1", "Fsdp2"}


def run(*command: str, folder: Path, **environment: str) -> str:
    variables = {**os.environ, **environment}
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def sources(folder: Path) -> Iterator[Path]:
    """Code but for tests and documentation."""
    for path in sorted(folder.rglob("*")):
        parts = {part.lower() for part in path.relative_to(folder).parts}
        apart = parts & {"test", "tests", "docs", "node_modules"} or "test" in path.stem.lower()
        if path.suffix in SOURCES and not apart:
            yield path


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of all clients, which one start of the generator makes."""
    needed("java", package="default-jre-headless")
    generator = locked("clients", "openapi-generator-cli")
    folder = tmp_path_factory.mktemp("generated")
    for name, properties in GENERATORS.items():
        told = {
            "generatorName": name,
            "inputSpec": str(DOCUMENT),
            "outputDir": str(folder / name),
            "additionalProperties": dict(each.split("=") for each in properties),
        }
        (folder / f"{name}.json").write_text(json.dumps(told))
    files = [f"{name}.json" for name in GENERATORS]
    run(str(generator), "batch", "--fail-fast", *files, folder=folder, **BRIEF_JAVA)
    return {name: folder / name for name in GENERATORS}


@pytest.mark.parametrize("name", GENERATORS)
def test_every_arm_of_a_union_is_kept(generated: dict[str, Path], name: str) -> None:
    code = list(sources(generated[name]))
    for union, arms in ARMS.items():
        files = {path for path in code if path.stem.replace("_", "").lower() in plain(union)}
        text = "\n".join(path.read_text("utf-8") for path in files or code)
        if not files:  # all types stand in one file
            text = text.partition(f"export type {union} = ")[2].partition("\n\n")[0]
        missing = [arm for arm in arms if arm.lower() not in text.replace("_", "").lower()]
        assert missing == [], union


def plain(union: str) -> tuple[str, str]:
    """The stems of a file for a union."""
    return union.lower(), f"model{union.lower()}"


@pytest.mark.parametrize("name", GENERATORS)
def test_no_type_is_numbered(generated: dict[str, Path], name: str) -> None:
    text = "\n".join(path.read_text("utf-8") for path in sources(generated[name]))
    assert set(NUMBERED.findall(text)) - OWN_NUMBERS == set()


def test_the_python_client_compiles(generated: dict[str, Path]) -> None:
    run(sys.executable, "-m", "compileall", "-q", "openapi_client", folder=generated["python"])


ASK = """
import { readFileSync } from "node:fs";
import {
  Configuration, DecisionsApi, EstimatesApi, FitCheckQuestionFromJSON, JobFromJSON,
} from "./index.js";
const [url, file] = process.argv.slice(2);
const job = JSON.parse(readFileSync(file, "utf8"));
const api = new DecisionsApi(new Configuration({ basePath: url }));
const answer = await api.fitCheck({ fitCheckOrLaunch: FitCheckQuestionFromJSON(job) });
const { expected } = answer.binding.deviceBytes;
const estimates = new EstimatesApi(new Configuration({ basePath: url }));
const { summary } = await estimates.estimate({ jobOrLaunch: JobFromJSON(job) });
console.log(JSON.stringify({ verdict: answer.verdict, expected, line: summary.gb }));
"""


def test_the_typescript_fetch_client_compiles_and_asks(
    generated: dict[str, Path], tmp_path: Path
) -> None:
    node = node_packages(TYPESCRIPT)
    folder = generated["typescript-fetch"]
    (folder / "package.json").write_text('{"type": "module"}')
    options = ["--target", "es2022", "--module", "nodenext", "--strict", "--skipLibCheck"]
    options += ["--outDir", "build"]
    run(str(TYPESCRIPT / "node_modules" / ".bin" / "tsc"), *options, "index.ts", folder=folder)
    (folder / "build" / "package.json").write_text('{"type": "module"}')
    (folder / "build" / "ask.js").write_text(ASK)
    job = tmp_path / "job.json"
    job.write_text(json.dumps(DEEPSEEK_V3))
    with running_service(**UNHURRIED) as service:
        answer = json.loads(run(node, "build/ask.js", service.url, str(job), folder=folder))
    assert answer["verdict"] == "does_not_fit"
    assert answer["expected"] > 2**31
    assert answer["line"].startswith("Theoretical memory footprints: ")


def test_hey_api_makes_a_client_that_compiles(tmp_path: Path) -> None:
    node_packages(TYPESCRIPT)
    programs = TYPESCRIPT / "node_modules" / ".bin"
    command = [str(programs / "openapi-ts"), "-i", str(DOCUMENT), "-o", str(tmp_path)]
    run(*command, "-c", "@hey-api/client-fetch", folder=TYPESCRIPT)
    text = "\n".join(path.read_text("utf-8") for path in sources(tmp_path))
    assert set(NUMBERED.findall(text)) - OWN_NUMBERS == set()
    assert "export type Framework = ({" in text
    options = ["--noEmit", "--target", "es2022", "--module", "esnext", "--strict"]
    options += [
        "--moduleResolution",
        "bundler",
        "--skipLibCheck",
        "--lib",
        "es2022,dom,dom.iterable",
    ]
    run(str(programs / "tsc"), *options, str(tmp_path / "index.ts"), folder=TYPESCRIPT)


def test_datamodel_code_generator_makes_models_that_read_a_job(tmp_path: Path) -> None:
    generator = locked("clients", "datamodel-codegen")
    options = ["--output-model-type", "pydantic_v2.BaseModel", "--formatters", "builtin"]
    command = [str(generator), "--input", str(DOCUMENT), "--output", str(tmp_path / "models.py")]
    run(*command, *options, folder=tmp_path)
    text = (tmp_path / "models.py").read_text("utf-8")
    assert set(NUMBERED.findall(text)) - OWN_NUMBERS == set()
    read = "import json, models, sys; print(models.Job.model_validate_json(sys.argv[1]).gpu)"
    assert "H100" in run(sys.executable, "-c", read, json.dumps(DEEPSEEK_V3), folder=tmp_path)
