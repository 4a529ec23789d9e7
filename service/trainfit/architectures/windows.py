"""Which layers attend to a sliding window, and which to the whole sequence."""

from collections.abc import Callable

from trainfit.architectures.config import Config
from trainfit.architectures.layer_patterns import attention_types


def windows(
    config: Config, layers: int, slides: Callable[[int], bool], window: int | None
) -> tuple[int | None, ...]:
    """The attention window of each layer in tokens; None is the whole sequence.

    `layer_types` decides where it is given, else `slides`, the class's own rule by layer index.
    """
    default = ["sliding_attention" if slides(i) else "full_attention" for i in range(layers)]
    types = attention_types(config, default)
    return tuple(window if each == "sliding_attention" else None for each in types)


def sliding_window(config: Config) -> int | None:
    """`sliding_window` in tokens; null and what is not positive mean no window."""
    window = config.optional_int("sliding_window")
    return window if window is not None and window > 0 else None


def full_every(
    config: Config, key: str | None, default: int, *, nullable: bool = False, spelt: bool = False
) -> int:
    """The period of full attention, under `key` where the class reads one.

    A `nullable` one is the default where it is null or 0; a `spelt` one may be given as in "LLLG".
    """
    if key is None:
        return default
    if spelt and isinstance(pattern := config.get(key), str):
        return len(pattern)
    return (config.optional_int(key) or default) if nullable else config.int(key, default)
