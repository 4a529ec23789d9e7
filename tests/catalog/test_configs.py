"""The bundled configs: each one opens, is what it says and holds nothing more than it needs."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, get_args

import pytest

from trainfit.architectures.registry import parse_config
from trainfit.catalog import configs
from trainfit.catalog.configs import (
    Provenance,
    bundled_by_name,
    bundled_config,
    bundled_ids,
    close_bundled_ids,
)
from trainfit.estimator.parameters import count_parameters

FOLDER = files("trainfit.catalog") / "configs"
MODEL_FILES = sorted(
    file.name for file in FOLDER.iterdir() if file.name not in ("index.json", "__pycache__")
)
MOST_USED = [
    "meta-llama/Llama-2-7b-hf",
    "meta-llama/Llama-2-70b-chat-hf",
    "meta-llama/Meta-Llama-3-8B",
    "meta-llama/Meta-Llama-3-70B-Instruct",
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.1-70B-Instruct",
    "meta-llama/Llama-3.1-405B",
    "meta-llama/Llama-3.2-1B-Instruct",
    "meta-llama/Llama-3.2-3B",
    "meta-llama/Llama-3.3-70B-Instruct",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "Qwen/Qwen2-7B-Instruct",
    "Qwen/Qwen2.5-0.5B-Instruct",
    "Qwen/Qwen2.5-1.5B",
    "Qwen/Qwen2.5-3B-Instruct",
    "Qwen/Qwen2.5-7B",
    "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen2.5-14B-Instruct",
    "Qwen/Qwen2.5-32B-Instruct",
    "Qwen/Qwen2.5-72B-Instruct",
    "Qwen/Qwen2.5-VL-7B-Instruct",
    "Qwen/QwQ-32B",
    "Qwen/Qwen3-0.6B",
    "Qwen/Qwen3-1.7B-Base",
    "Qwen/Qwen3-4B-Base",
    "Qwen/Qwen3-8B-Base",
    "Qwen/Qwen3-14B",
    "Qwen/Qwen3-32B",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-235B-A22B",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "deepseek-ai/DeepSeek-V2",
    "deepseek-ai/DeepSeek-V2-Lite",
    "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-V3-Base",
    "deepseek-ai/DeepSeek-V3-0324",
    "deepseek-ai/DeepSeek-V3.1",
    "deepseek-ai/DeepSeek-R1",
    "deepseek-ai/DeepSeek-R1-0528",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
    "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
    "moonshotai/Kimi-K2-Instruct",
    "moonshotai/Moonlight-16B-A3B",
    "mistralai/Mistral-7B-v0.1",
    "mistralai/Mistral-7B-Instruct-v0.3",
    "mistralai/Mistral-Nemo-Instruct-2407",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "mistralai/Mixtral-8x22B-v0.1",
    "google/gemma-2b",
    "google/gemma-2-9b-it",
    "google/gemma-2-27b",
    "google/gemma-3-4b-it",
    "google/gemma-3-27b-it",
    "gpt2",
    "openai-community/gpt2-xl",
    "openai/gpt-oss-20b",
    "openai/gpt-oss-120b",
    "microsoft/phi-2",
    "microsoft/phi-4",
    "microsoft/Phi-3.5-mini-instruct",
    "EleutherAI/pythia-1.4b",
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
    "zai-org/GLM-4.5",
    "zai-org/GLM-4.5-Air",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
]
NOT_ABOUT_SIZE = {"auto_map", "transformers_version", "_name_or_path", "label2id", "bos_token_id"}


def keys_of(value: Any) -> set[str]:
    if not isinstance(value, dict):
        return set()
    return set(value).union(*(keys_of(inner) for inner in value.values()))


def test_the_most_used_models_are_bundled() -> None:
    assert set(MOST_USED) <= set(bundled_ids())


def test_every_id_opens_a_config_with_its_origin() -> None:
    for hf_id in bundled_ids():
        bundled = bundled_config(hf_id)
        assert bundled is not None, hf_id
        assert bundled.hf_id == hf_id
        assert bundled.provenance in get_args(Provenance), hf_id
        assert isinstance(bundled.config["model_type"], str), hf_id
        assert not NOT_ABOUT_SIZE & keys_of(bundled.config), hf_id
        owner = bundled_config(bundled.config_of)
        assert owner is not None, hf_id
        assert owner.config_of == bundled.config_of
        assert owner.config == bundled.config, hf_id


def test_ids_are_sorted_and_differ_in_more_than_case() -> None:
    ids = bundled_ids()
    assert list(ids) == sorted(ids)
    assert len({hf_id.casefold() for hf_id in ids}) == len(ids)
    index = json.loads((FOLDER / "index.json").read_text("utf-8"))
    assert len(ids) == sum(1 + len(entry.get("aliases", ())) for entry in index.values())
    assert all(set(entry) <= {"provenance", "note", "aliases"} for entry in index.values())


def test_every_file_belongs_to_an_id_and_no_two_are_the_same() -> None:
    index = json.loads((FOLDER / "index.json").read_text("utf-8"))
    assert sorted(f"{owner.replace('/', '__')}.json" for owner in index) == MODEL_FILES
    contents = [json.loads((FOLDER / name).read_text("utf-8")) for name in MODEL_FILES]
    assert len({json.dumps(content, sort_keys=True) for content in contents}) == len(contents)
    assert sum(len((FOLDER / name).read_bytes()) for name in MODEL_FILES) < 2**20


def test_files_are_strict_json_without_repeated_keys() -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON in {name}")

    def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs), name
        return dict(pairs)

    for name in ("index.json", *MODEL_FILES):
        text = (FOLDER / name).read_text("utf-8")
        assert json.loads(text, parse_constant=refuse, object_pairs_hook=no_repeats)


@pytest.mark.parametrize(
    ("asked", "hf_id", "config_of"),
    [
        ("deepseek-ai/deepseek-v3", "deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3"),
        ("DEEPSEEK-AI/DEEPSEEK-R1", "deepseek-ai/DeepSeek-R1", "deepseek-ai/DeepSeek-V3"),
        ("GPT2", "gpt2", "openai-community/gpt2"),
    ],
)
def test_case_does_not_matter_and_the_canonical_spelling_is_echoed(
    asked: str, hf_id: str, config_of: str
) -> None:
    bundled = bundled_config(asked)
    assert bundled is not None
    assert (bundled.hf_id, bundled.config_of) == (hf_id, config_of)


@pytest.mark.parametrize(
    "hf_id", ["", "index", "DeepSeek-V3", "../gpus", "deepseek-ai/DeepSeek-V3.json", "nobody/none"]
)
def test_an_id_that_is_not_bundled_gives_none(hf_id: str) -> None:
    assert bundled_config(hf_id) is None


def test_a_typing_error_gets_close_ids_in_their_canonical_spelling() -> None:
    assert close_bundled_ids("deepseek-ai/deepseek-v33")[0] == "deepseek-ai/DeepSeek-V3"
    assert close_bundled_ids("nothing of the kind") == ()


@pytest.mark.parametrize("hf_id", ["deepseek-ai/DeepSeek-V2-Lite", "moonshotai/Moonlight-16B-A3B"])
def test_an_explicit_null_is_kept(hf_id: str) -> None:
    # The class default is 1536: a dropped null would add a query down-projection.
    bundled = bundled_config(hf_id)
    assert bundled is not None
    assert bundled.config["q_lora_rank"] is None


def test_a_config_belongs_to_its_caller() -> None:
    first = bundled_config("Qwen/Qwen3-8B")
    assert first is not None
    first.config.clear()
    second = bundled_config("Qwen/Qwen3-8B")
    assert second is not None
    assert second.config["model_type"] == "qwen3"


def test_only_the_file_asked_for_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    bundled_ids()
    opened = []
    read = configs._read

    def recording(name: str) -> dict[str, Any]:
        opened.append(name)
        return read(name)

    monkeypatch.setattr(configs, "_read", recording)
    bundled_config("meta-llama/Llama-3.3-70B-Instruct")
    assert opened == ["meta-llama__Llama-3.1-70B.json"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Llama-2-7b-hf", "meta-llama/Llama-2-7b-hf"),
        ("qwen2.5-7b-instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("7b", None),
        ("hf", None),
        ("", None),
    ],
)
def test_a_model_is_found_by_its_name_alone(name: str, found: str | None) -> None:
    assert bundled_by_name(name) == found


def test_a_name_of_models_of_several_shapes_is_nobodys() -> None:
    owners: dict[str, set[str]] = {}
    for hf_id in bundled_ids():
        bundled = bundled_config(hf_id)
        assert bundled is not None
        owners.setdefault(hf_id.rpartition("/")[2].casefold(), set()).add(bundled.config_of)
    for name, found in owners.items():
        assert (bundled_by_name(name) is None) == (len(found) > 1), name


@pytest.mark.parametrize(
    ("hf_id", "parameters"),
    [
        ("allenai/Llama-3.1-Tulu-3-8B", 8_030_326_784),
        ("baichuan-inc/Baichuan-13B-Base", 13_264_901_120),
        ("baichuan-inc/Baichuan-7B", 7_000_559_616),
        ("baichuan-inc/Baichuan2-7B-Base", 7_505_973_248),
        ("bigcode/starcoderbase-1b", 1_137_207_296),
        ("bigscience/bloom-1b1", 1_065_314_304),
        ("bigscience/bloom-1b7", 1_722_408_960),
        ("codellama/CodeLlama-70b-hf", 68_976_910_336),
        ("CohereLabs/c4ai-command-r-08-2024", 32_296_476_672),
        ("deepseek-ai/deepseek-coder-1.3b-base", 1_346_471_936),
        ("deepseek-ai/deepseek-coder-33b-base", 33_342_991_360),
        ("EleutherAI/gpt-neo-1.3B", 1_315_575_808),
        ("EleutherAI/gpt-neo-125m", 125_198_592),
        ("EleutherAI/gpt-neo-2.7B", 2_651_307_520),
        ("facebook/opt-350m", 331_196_416),
        ("HuggingFaceTB/SmolVLM-Instruct", 2_246_272_880),
        ("HuggingFaceTB/SmolVLM2-2.2B-Instruct", 2_246_784_880),
        ("ibm-granite/granite-4.0-h-small", 32_207_337_984),
        ("internlm/internlm2-20b", 19_861_149_696),
        ("JackFram/llama-160m", 162_417_408),
        ("JackFram/llama-68m", 68_030_208),
        ("LGAI-EXAONE/EXAONE-4.0-1.2B", 1_279_391_488),
        ("LiquidAI/LFM2-350M", 354_483_968),
        ("LiquidAI/LFM2-700M", 742_489_344),
        ("LiquidAI/LFM2-8B-A1B", 8_339_929_856),
        ("LiquidAI/LFM2-VL-450M", 450_822_656),
        # Less what pads A_log of 96 heads to 128 in its shards, in each of 69 layers.
        ("moonshotai/Kimi-K3", 2_779_931_837_184 - 69 * 32),
        # Less what no class has as parameters, as much as Moonlight's checkpoint has, its text.
        ("moonshotai/Kimi-VL-A3B-Instruct", 16_407_657_776 - (15_960_111_936 - 15_960_108_544)),
        ("mosaicml/mpt-7b", 6_649_286_656),
        ("OpenGVLab/InternVL2_5-1B", 938_193_024),
        ("OpenGVLab/InternVL2_5-2B", 2_205_754_368),
        ("OpenGVLab/InternVL2_5-4B", 3_712_637_952),
        ("OpenGVLab/InternVL2_5-8B", 8_075_365_376),
        ("OpenGVLab/InternVL2_5-26B", 25_514_186_112),
        ("OpenGVLab/InternVL2_5-38B", 38_388_164_992),
        ("OpenGVLab/InternVL2_5-78B", 78_408_318_336),
        ("OpenGVLab/InternVL3-2B-hf", 2_088_957_440),
        ("OpenGVLab/InternVL3-8B-hf", 7_944_373_760),
        ("OpenGVLab/InternVL3_5-8B-HF", 8_528_318_464),
        ("microsoft/Phi-3.5-vision-instruct", 4_146_621_440),
        ("nvidia/Llama-3_3-Nemotron-Super-49B-v1", 49_867_145_216),
        ("openbmb/MiniCPM-V-2_6", 8_099_175_152),
        ("openlm-research/open_llama_3b", 3_426_473_600),
        ("Qwen/CodeQwen1.5-7B", 7_250_284_544),
        ("Qwen/Qwen-14B", 14_167_290_880),
        ("Qwen/Qwen-1_8B", 1_836_828_672),
        ("Qwen/Qwen1.5-110B", 111_209_914_368),
        ("Salesforce/codegen-16B-mono", 16_032_155_648),
        ("Salesforce/codegen-350M-mono", 356_712_448),
        ("state-spaces/mamba-1.4b-hf", 1_372_178_432),
        ("state-spaces/mamba-130m-hf", 129_135_360),
        ("state-spaces/mamba-790m-hf", 793_204_224),
        ("tiiuae/falcon-mamba-7b", 7_272_665_088),
        ("tiiuae/falcon-rw-1b", 1_311_625_216),
        ("upstage/SOLAR-10.7B-v1.0", 10_731_524_096),
    ],
)
def test_a_reconstructed_config_has_the_parameters_of_its_checkpoint(
    hf_id: str, parameters: int
) -> None:
    bundled = bundled_config(hf_id)
    assert bundled is not None
    assert count_parameters(parse_config(bundled.config)).total == parameters
