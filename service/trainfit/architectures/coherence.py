"""What a config.json says that no class runs, and what its class ignores.

A class of transformers builds more than it runs: it is the first forward that fails on heads that
do not share out, or on more groups of experts than there are. Sources: transformers 5.23's
configuration_utils.py (validate_architecture), modeling_rope_utils.py (validate_rope) and
modeling files, each case run.
"""

from collections.abc import Iterator, Mapping
from typing import TypeGuard

from trainfit.architectures.config import Config
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Experts, LatentAttention

KV_HEADS = (
    "num_key_value_heads",
    "n_head_kv",
    "num_kv_heads",
    "num_attention_groups",
    "kv_n_heads",
)
"""What configs call the number of key and value heads."""
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
"""What configs call the number of experts."""
TEXT_SECTIONS = ("text_config", "llm_config", "language_config")
"""Where composite configs describe their text model."""
SWITCHED = frozenset({"doge", "gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"})
"""model_types with a number of experts that another key switches on."""

DIVIDED_EXACTLY = frozenset(
    {
        "arcee",
        "aria_text",
        "cwm",
        "gemma2",
        "gemma3_text",
        "gemma3n_text",
        "hrm_text",
        "hyperclovax",
        "internlm3",
        "iquestcoder",
        "jais2",
        "llama",
        "muse_spark_text",
        "olmoe",
        "vaultgemma",
    }
)
"""model_types whose class refuses a hidden size that is no multiple of the heads; others that know
a head_dim round it down."""
WHOLLY_ROTATED = frozenset(
    {
        "apertus",
        "arcee",
        "cohere",
        "cohere2",
        "ernie4_5",
        "ernie4_5_moe",
        "exaone4",
        "gemma",
        "gemma2",
        "gemma3_text",
        "gpt_oss",
        "granite",
        "granitemoe",
        "hunyuan_v1_dense",
        "llama",
        "ministral",
        "mistral",
        "mixtral",
        "olmo",
        "olmo2",
        "olmo3",
        "olmoe",
        "phi3",
        "phimoe",
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen3_moe",
        "seed_oss",
        "smollm3",
        "starcoder2",
    }
)
"""model_types that rotate all of a head, in pairs, unless their config says what share."""
PARTLY_ROTATED = frozenset(
    {
        "apertus",
        "glm4",
        "glm4_moe",
        "gpt_oss",
        "minimax_m2",
        "nemotron",
        "phi",
        "phi3",
        "stablelm",
    }
)
"""model_types that rotate the share of a head that partial_rotary_factor says."""
UNCHECKED_HEAD_DIM = 4
"""Up to this an odd head is let pass, for the sake of tiny test models."""


def check(config: Config, spec: ModelSpec) -> None:
    """Raise ConfigError for dimensions that the model's class refuses or cannot run."""
    sections = [config, *_sections(config)]
    for section in sections:
        _check_layer_types(section)
    for block in spec.blocks:
        match block:
            case Attention():
                _check_sharing(sections, block)
                for section in sections:
                    _check_heads(section, block, spec.hidden_size)
                    _check_rotation(section, block)
            case LatentAttention() if block.qk_rope_head_dim % 2:
                section, key = _first(sections, ("qk_rope_head_dim",))
                raise section.error(key, f"{block.qk_rope_head_dim} {IN_PAIRS}")
            case Experts():
                for section in sections:
                    _check_groups(section, block.experts)
            case _:
                pass


def remarks(config: Config, spec: ModelSpec) -> Iterator[str]:
    """What the config says of another model than the one that its class builds."""
    sections = [config, *_sections(config)]
    mixed = any(isinstance(block, Experts) or _mixes_heads(block) for block in spec.blocks)
    if not mixed and spec.model_type not in SWITCHED:
        for section in sections:
            yield from _ignored_experts(section, spec)
    yield from _foreign_classes(config)


def _sections(config: Config) -> Iterator[Config]:
    """Sections of a composite that may describe its text model."""
    for key in TEXT_SECTIONS:
        if isinstance(config.get(key), Mapping):
            yield Config(config.values[key], f"{config.path}/{key}")


IN_PAIRS = "features cannot be rotated in pairs: their number is even"


def _check_layer_types(section: Config) -> None:
    """One type for each layer. Lists go on for the layers of multi-token prediction."""
    names, layers = section.get("layer_types"), section.get("num_hidden_layers")
    if isinstance(names, list) and _is_count(layers) and len(names) < layers:
        raise section.error("layer_types", f"names {len(names)} of {layers} layers")


def _check_sharing(sections: list[Config], block: Attention) -> None:
    if block.query_experts is None and block.heads % block.kv_heads:
        section, key = _first(sections, KV_HEADS)
        raise section.error(
            key,
            f"{block.kv_heads} key and value heads do not divide {block.heads} heads: "
            "their number divides that of the heads",
        )


def _check_heads(section: Config, block: Attention, hidden: int) -> None:
    """Heads that share out the hidden size, where nothing says how wide they are."""
    model_type = section.get("model_type")
    heads = section.get("num_attention_heads", block.heads)
    derived = section.get("head_dim") is None and section.get("hidden_size") == hidden
    if derived and model_type in DIVIDED_EXACTLY and _is_count(heads) and hidden % heads:
        low = hidden // heads * heads
        raise section.error(
            "hidden_size",
            f"{hidden} does not divide by {heads} heads; {low} and {low + heads} do",
        )
    odd = block.head_dim % 2 and block.head_dim > UNCHECKED_HEAD_DIM and block.rope
    if odd and model_type in WHOLLY_ROTATED and not _says_a_share(section):
        key = "hidden_size" if derived else "head_dim"
        raise section.error(key, f"a head's {block.head_dim} {IN_PAIRS}")


def _check_rotation(section: Config, block: Attention) -> None:
    """A head has no more to rotate than there is of it."""
    model_type, share = section.get("model_type"), section.get("partial_rotary_factor")
    if model_type in PARTLY_ROTATED and isinstance(share, int | float) and share > 1:
        raise section.error("partial_rotary_factor", "is a share of a head: 1 at most")
    rotated = section.get("rotary_dim")
    if model_type in ("codegen", "gptj") and _is_count(rotated) and rotated > block.head_dim:
        message = f"{rotated} features of a head of {block.head_dim} cannot be rotated"
        raise section.error("rotary_dim", message)


def _says_a_share(section: Config) -> bool:
    rope = section.get("rope_parameters") or section.get("rope_scaling") or {}
    return "partial_rotary_factor" in {
        *section.values,
        *(rope if isinstance(rope, Mapping) else ()),
    }


def _check_groups(section: Config, experts: int) -> None:
    """Experts in groups of which a token is sent to some."""
    groups, chosen = section.get("n_group"), section.get("topk_group")
    if not _is_count(groups):
        return
    if experts % groups:
        raise section.error("n_group", f"{experts} experts do not divide into {groups} groups")
    if _is_count(chosen) and chosen > groups:
        raise section.error("topk_group", f"a token cannot go to {chosen} of {groups} groups")


def _ignored_experts(section: Config, spec: ModelSpec) -> Iterator[str]:
    for key in EXPERTS:
        count = section.get(key)
        if _is_count(count) and count > 1:
            yield (
                f"The config.json says {key} {count}, which the class of {spec.model_type} does "
                "not read: the model is priced without experts, as transformers builds it."
            )


def _mixes_heads(block: object) -> bool:
    return isinstance(block, Attention) and block.query_experts is not None


def _foreign_classes(config: Config) -> Iterator[str]:
    """Classes of another type than the config's, by which transformers' Auto classes go."""
    model_type, names = config.get("model_type"), config.get("architectures")
    if not isinstance(names, list):
        return
    own = {"", model_type}
    for name in names[:MAX_CLASSES]:
        if isinstance(name, str) and (named := _type_named(name)) not in own:
            own.add(named)
            yield (
                f"The config.json names the class {name[:64]}, one of {named}, and the "
                f"model_type {model_type}: priced is {model_type}, which is what transformers' "
                "Auto classes build."
            )


MAX_CLASSES = 64
"""How many of a config's classes are looked at. It has one."""

CLASSES = {
    "AlbertFor": "albert",
    "BartFor": "bart",
    "BertFor": "bert",
    "BloomFor": "bloom",
    "CohereFor": "cohere",
    "DebertaFor": "deberta",
    "DebertaV2For": "deberta-v2",
    "DistilBertFor": "distilbert",
    "ElectraFor": "electra",
    "FalconFor": "falcon",
    "GPTNeoXFor": "gpt_neox",
    "Gemma2For": "gemma2",
    "GemmaFor": "gemma",
    "MBartFor": "mbart",
    "MT5For": "mt5",
    "MambaFor": "mamba",
    "MixtralFor": "mixtral",
    "ModernBertFor": "modernbert",
    "OPTFor": "opt",
    "Phi3For": "phi3",
    "Qwen2For": "qwen2",
    "Qwen2MoeFor": "qwen2_moe",
    "Qwen3For": "qwen3",
    "Qwen3MoeFor": "qwen3_moe",
    "RobertaFor": "roberta",
    "T5For": "t5",
    "ViTFor": "vit",
    "WhisperFor": "whisper",
    "XLMRobertaFor": "xlm-roberta",
}
"""How names of classes begin that belong to one model_type alone. GPT-2's, Llama's and Mistral's
are not among them: other types name them too."""


def _type_named(name: str) -> str:
    return next((kind for begins, kind in CLASSES.items() if name.startswith(begins)), "")


def _first(sections: list[Config], keys: tuple[str, ...]) -> tuple[Config, str]:
    for section in sections:
        for key in keys:
            if key in section:
                return section, key
    return sections[0], keys[0]


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
