"""Which layers are of which kind, by the lists and rules of a config.json."""

from collections.abc import Collection, Sequence

from trainfit.architectures.config import Config

MLP_TYPES = ("dense", "sparse")

ATTENTION_ALIASES = {
    "attention": "full_attention",
    "mamba": "linear_attention",
    "deepseek_sparse_attention": "indexed_attention",
    "qwen_sparse_attention": "indexed_attention",
}
"""Earlier names of layer types."""


def named_layers(
    config: Config, key: str, default: Sequence[str], allowed: Collection[str]
) -> Sequence[str]:
    """One name per layer from the list `key`, or `default` where it is absent or null.

    Names past the last layer (of multi-token-prediction depths) are cut off.
    """
    names = config.get(key)
    if names is None:
        return default
    names = [ATTENTION_ALIASES.get(str(name), str(name)) for name in config.list(key)]
    if len(names) < len(default):
        raise config.error(key, f"must name all {len(default)} layers")
    unknown = sorted(set(names) - set(allowed))
    if unknown:
        raise config.error(key, f"must hold only {', '.join(sorted(allowed))}")
    return names[: len(default)]


def first_dense(total: int, dense: int) -> Sequence[str]:
    """The first `dense` layers with a dense feed-forward, the others with experts."""
    return ["dense" if index < dense else "sparse" for index in range(total)]


def mlp_types(config: Config, default: Sequence[str]) -> Sequence[str]:
    """`mlp_layer_types`: dense or sparse, layer by layer."""
    return named_layers(config, "mlp_layer_types", default, MLP_TYPES)


def attention_types(
    config: Config,
    default: Sequence[str],
    allowed: Collection[str] = ("full_attention", "sliding_attention"),
) -> Sequence[str]:
    """`layer_types`: the attention of each layer."""
    return named_layers(config, "layer_types", default, allowed)


def indexer_types(config: Config, key: str, default: Sequence[str]) -> Sequence[str]:
    """Full or shared for each layer: with an indexer of its own, or using the one before."""
    return named_layers(config, key, default, ("full", "shared"))


def patterned_indexer_types(config: Config, total: int) -> Sequence[str]:
    """`indexer_types`, or an earlier config's pattern: letters F and S, names, or a frequency."""
    every = max(config.int("index_topk_freq", 1), 1)
    offset = config.int("index_skip_topk_offset", 2)
    pattern = config.get("index_topk_pattern")
    default: Sequence[str] = [
        "shared" if max(index - offset + 1, 0) % every else "full" for index in range(total)
    ]
    if isinstance(pattern, str):
        default = [{"F": "full", "S": "shared"}.get(letter, "") for letter in pattern[:total]]
        if len(default) < total or "" in default:
            raise config.error("index_topk_pattern", f"must spell {total} layers by F and S")
    elif pattern is not None:
        default = indexer_types(config, "index_topk_pattern", default)
    return indexer_types(config, "indexer_types", default)


def layer_numbers(config: Config, key: str) -> frozenset[int]:
    """The layers that the list `key` names by number; none where it is absent or null."""
    return frozenset(integers(config, key)) if config.get(key) is not None else frozenset()


def per_layer(config: Config, key: str, total: int) -> Sequence[int]:
    """The integer `key` for each layer: one for all of them, or a list of one each."""
    if not isinstance(config.get(key), list | tuple):
        return [config.int(key)] * total
    numbers = integers(config, key)
    if len(numbers) < total:
        raise config.error(key, f"must have a number for each of the {total} layers")
    return numbers[:total]


def integers(config: Config, key: str) -> Sequence[int]:
    """The list `key`, which must hold integers only."""
    numbers = config.list(key)
    if any(isinstance(number, bool) or not isinstance(number, int) for number in numbers):
        raise config.error(key, "must hold integers")
    return numbers


def flags(config: Config, key: str, total: int) -> Sequence[bool]:
    """A list of one 0 or 1 (or true or false) for each layer."""
    values = config.list(key)
    if len(values) < total:
        raise config.error(key, f"must have a value for each of the {total} layers")
    return [bool(value) for value in values[:total]]
