"""The model that a launch names: a repository on the Hub, or the path of a config.json."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from trainfit.catalog.configs import bundled_by_name, bundled_config
from trainfit.documents.document import FileError, parse_documents
from trainfit.launch.draft import Draft
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting
from trainfit.specs.model import HF_ID

CONFIG = "config.json"


def is_model_config(path: str, keys: Mapping[str, object]) -> bool:
    """Whether these are the keys of a model's config.json."""
    return "model_type" in keys and ("architectures" in keys or path.endswith(CONFIG))


def put_model(
    draft: Draft, program: TrainingProgram, setting: Setting, revision: Setting | None = None
) -> None:
    """Set the model that a setting names. A path is the config.json that was sent from there, else
    the bundled model of its last name; so is a repository that is called like a directory.

    Complains of any other path, unless the model is in overrides.
    """
    name = str(setting.value)
    if config := config_at(program, name, setting, draft):
        draft.put("/model/hf_config", config, setting)
        if revision is not None:
            draft.recognise(revision)
    elif (full := quantised_from(name)) is not None:
        draft.default("/model/hf_id", full, "the catalogue, by the name without its bits")
        draft.recognise(setting)
    elif name.partition("/")[0] in MODELSCOPE and (known := _named_by(name)) is not None:
        draft.recognise(setting)
        draft.default("/model/hf_id", known, "the catalogue, by its name on ModelScope")
    elif re.match(HF_ID, name) and not _is_path(name):
        draft.put("/model/hf_id", name, setting)
        if revision is not None:
            draft.put("/model/revision", revision.value, revision)
    elif (known := _named_by(name)) is not None:
        draft.recognise(setting)
        draft.default("/model/hf_id", known, "the catalogue, by the last name of the path")
    elif setting.unknown is not None and is_overridden(draft):
        draft.ignore(setting)
    else:
        draft.recognise(setting)
        path = f"{name.rstrip('/')}/{CONFIG}"
        wrong = f"{name} is no repository on the Hub; send {path}, or" if name else "it is empty;"
        draft.require("/model", f"{wrong} give /model in overrides", setting)


MODELSCOPE = ("AI-ModelScope", "LLM-Research", "Shanghai_AI_Laboratory", "ZhipuAI", "openai-mirror")
"""Owners on ModelScope of what others have on the Hub, each under its name. Source: ms-swift,
swift/model.
"""
_DIRECTORY = re.compile(
    r"(path|ckpts?|checkpoints?|models?|weights|pretrained|your|local|data)\w*/"
)
_CACHED = re.compile(r"(?:^|/)models--(?P<owner>[\w.-]+)--(?P<name>[\w.-]+)(/|$)")


_QUANTISED = re.compile(r"[-_](gptq|awq|aqlm|hqq|int4|int8|[48]-?bit|bnb)(?![a-z]).*", re.I)
_BY_BITSANDBYTES = re.compile(r"[-_]bnb[-_](4-?bit|nf4)", re.I)


def quantised_from(name: str) -> str | None:
    """The bundled model whose weights, quantised, are these by their name."""
    last = name.rstrip("/").rpartition("/")[2]
    full, found = _QUANTISED.subn("", last)
    return _named_by(full) if found and bundled_config(name) is None else None


def is_overridden(draft: Draft) -> bool:
    """Whether the overrides of a launch tell its whole model, whatever it names itself."""
    whole = ("/model/hf_id", "/model/hf_config", "/model/spec/num_layers")
    return any(draft.overridden(each) is not None for each in whole)


def settle_names(settings: dict[str, Setting], keys: Iterable[str], draft: Draft) -> None:
    """Take what names a model as known where its end is, and as of no effect where what is not
    known of it is told by the overrides.
    """
    for key in settings.keys() & set(keys):
        settings[key] = named_by_its_end(settings[key])
        if settings[key].unknown is not None and is_overridden(draft):
            draft.ignore(settings.pop(key))


def named_by_its_end(setting: Setting) -> Setting:
    """A setting that names a model as known, where what is not known of its path stands before a
    last name that a bundled model has: $HOME/models/Qwen2.5-7B.
    """
    directory, slash, last = str(setting.value).rstrip("/").rpartition("/")
    literal = directory and slash and not _PLACEHOLDER.search(last)
    if setting.unknown is None or not literal or not (_named_by(last) or quantised_from(last)):
        return setting
    return replace(setting, unknown=None)


_PLACEHOLDER = re.compile(r"[${}()<>`*]")


def is_quantised(name: str, *, in_4_bits: bool) -> bool:
    """Whether a model is quantised by its name, in another way than bitsandbytes does `in_4_bits`
    of one that is not.
    """
    alike = in_4_bits and _BY_BITSANDBYTES.search(name) is not None
    return quantised_from(name) is not None and not alike


def _is_path(name: str) -> bool:
    """Whether what reads like a repository is a directory by its name, of a model that is known."""
    return _DIRECTORY.match(name.casefold()) is not None and _named_by(name) is not None


def _named_by(path: str) -> str | None:
    """The bundled model that a path names: by its place in the cache of the Hub, or by its last
    name, in which ModelScope writes a dot as three underscores.
    """
    if cached := _CACHED.search(path):
        bundled = bundled_config(f"{cached['owner']}/{cached['name']}")
        return None if bundled is None else bundled.hf_id
    return bundled_by_name(path.rstrip("/").rpartition("/")[2].replace("___", "."))


def config_at(
    program: TrainingProgram, name: str, setting: Setting, draft: Draft
) -> dict[str, Any] | None:
    """The config.json that was sent from this directory; the only one, of a path on its own."""
    directory = name.rstrip("/")
    paths = [path for path in program.files if path.rpartition("/")[2] == CONFIG]
    below = [path for path in paths if f"/{path}".endswith(f"/{directory}/{CONFIG}".lstrip("."))]
    local = directory.startswith(("/", ".", "~")) or directory.count("/") > 1
    if not below and local:
        below = paths
    if len(below) != 1:
        return None
    try:
        value = parse_documents(".json", program.files[below[0]].content)[0].value
    except FileError as error:
        draft.complain(setting, f"{below[0]}:{error.line}: {error}")
        return {}
    return value if isinstance(value, dict) else None


def most_parameters(draft: Draft) -> int | None:
    """No model with this config.json has more parameters: L layers of four projections and a gated
    feed-forward network or E of them beside shared ones, two matrices [V, h], and a hundredth for
    all else. None where nothing is known of the model, or it is no plain decoder: with a tower, or
    with layers that are not of attention alone.
    """
    config = config_of(draft) or {}
    sizes = {name: value for name, value in config.items() if isinstance(value, int)}
    hidden, layers, rows, width, heads = (sizes.get(name) for name in PLAIN)
    if not (hidden and layers and rows and width and heads) or "text_config" in config:
        return None
    if has_tower(config) or _has_states(config):
        return None
    head = sizes.get("head_dim") or hidden // heads
    groups = sizes.get("num_key_value_heads") or heads
    attention = 2 * hidden * head * (heads + groups)
    of_expert = sizes.get("moe_intermediate_size") or width
    count = next((sizes[name] for name in SHARED_EXPERTS if name in sizes), 0)
    shared = next((sizes[name] for name in SHARED_WIDTHS if name in sizes), count * of_expert)
    feed_forward = 3 * hidden * max(width, of_expert * experts_of(draft) + shared)
    return int((layers * (attention + feed_forward) + 2 * rows * hidden) * 1.01)


PLAIN = (
    "hidden_size",
    "num_hidden_layers",
    "vocab_size",
    "intermediate_size",
    "num_attention_heads",
)
OF_STATES = ("mamba_", "linear_")
"""How keys begin of layers that mix tokens by a state, beside attention or in its place."""
SHARED_EXPERTS = ("n_shared_experts", "num_shared_experts")
SHARED_WIDTHS = ("shared_expert_intermediate_size", "shared_intermediate_size")
"""How wide all experts are together that see every token, and before it how many there are."""


def _has_states(config: Mapping[str, Any]) -> bool:
    """Whether layers of a config.json mix tokens by a state."""
    kinds = config.get("layer_types")
    named = isinstance(kinds, list) and "linear_attention" in kinds
    return named or any(name.startswith(OF_STATES) for name in config)


TOWERS = ("vision_config", "audio_config", "img_processor")
"""Keys of a config.json that describe what sees or hears, the last of Phi-3-vision."""


def has_tower(config: Mapping[str, Any] | None) -> bool:
    """Whether a config.json is of a model that sees or hears."""
    return config is not None and not config.keys().isdisjoint(TOWERS)


def config_of(draft: Draft) -> dict[str, Any] | None:
    """The config.json of the model as far as it is known here: sent, or bundled."""
    for look in (draft.overridden, draft.get):
        if config := look("/model/hf_config"):
            return dict(config)
        if hf_id := look("/model/hf_id"):
            bundled = bundled_config(str(hf_id))
            return bundled.config if bundled is not None else None
    return None


EXPERTS = (
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_num_experts",
    "num_routed_experts",
)
"""What configs call the number of experts of a layer."""


def text_config_of(draft: Draft) -> dict[str, Any]:
    """What is known of the language model, which has a section of its own beside a tower."""
    config = config_of(draft) or {}
    section = config.get("text_config")
    return dict(section) if isinstance(section, dict) else config


def experts_of(draft: Draft) -> int:
    """The experts of a layer; 0 where there are none, or none are known here."""
    config = text_config_of(draft)
    counts = [config[key] for key in EXPERTS if isinstance(config.get(key), int)]
    return next((each for each in counts if each > 1), 0)


def hidden_size(draft: Draft) -> int:
    """The width of the model between its layers; 0 where it is not known here."""
    width = draft.get("/model/spec/hidden_size") or text_config_of(draft).get("hidden_size")
    return width if isinstance(width, int) else 0
