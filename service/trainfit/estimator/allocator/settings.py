"""What PYTORCH_ALLOC_CONF sets of the caching allocator, and the sizes that follow from it.

Source: c10/core/AllocatorConfig.cpp and c10/cuda/CUDAAllocatorConfig.cpp for the text,
`round_size` and `get_allocation_size` of c10/cuda/CUDACachingAllocator.cpp for the sizes.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

MIB = 1 << 20
MIN_BLOCK = 512
"""Requests are rounded up to whole multiples of it (kMinBlockSize)."""
SMALL_SIZE = MIB
"""The largest request that the small pool serves (kSmallSize)."""
SMALL_SEGMENT = 2 * MIB
"""A segment of the small pool (kSmallBuffer)."""
MIN_LARGE = 10 * MIB
"""From here on a request gets a segment of its own (kMinLargeAlloc)."""
ROUND_LARGE = 2 * MIB
"""Such segments are whole multiples of it (kRoundLarge)."""
POWER_INTERVALS = 16
"""Intervals of `roundup_power2_divisions`: from 1, 2, 4 ... MiB, the last without an end
(kRoundUpPowerOfTwoIntervals)."""

LATEST = (2, 15)
"""The last release whose rules were compared."""


class SettingsError(ValueError):
    """A text that PyTorch would refuse, or an option that is not replayed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How the allocator is set up; the defaults are PyTorch's.

    `max_split_bytes` None lets every block be split. `roundup_power2_divisions` has a number of
    divisions for each interval, 0 for none. A `garbage_collection_threshold` of 0 collects
    nothing, and one above needs a `memory_fraction`: what the process may take of the GPU.
    `release` is PyTorch's, as rules have changed.
    """

    expandable_segments: bool = False
    large_segment_bytes: int = 20 * MIB
    max_split_bytes: int | None = None
    max_non_split_rounding_bytes: int = 20 * MIB
    roundup_power2_divisions: tuple[int, ...] = (0,) * POWER_INTERVALS
    garbage_collection_threshold: float = 0.0
    memory_fraction: float | None = None
    release: tuple[int, int] = LATEST

    @property
    def oldest_segment_first(self) -> bool:
        """Whether of free blocks of one size that of the oldest segment goes first; before, it is
        the one at the lowest address (BlockComparatorSizeCounterAddress).
        """
        return self.release >= (2, 13)

    @property
    def numbers_blocks(self) -> bool:
        """Whether it is the lowest number of blocks that decides between those of one size
        (BlockComparatorRegistrationCounter).
        """
        return self.release == (2, 12)

    @property
    def pools_stall(self) -> bool:
        """Whether any private pool in use stalls what a graph's capture stalls
        (markCaptureBegin tells them apart since).
        """
        return self.release < (2, 13)

    @property
    def rounds_to_powers(self) -> bool:
        return any(divisions > 1 for divisions in self.roundup_power2_divisions)

    def allowed_bytes(self, total_bytes: int) -> int | None:
        """What the process may take of a GPU, None for all of it (setMemoryFraction): the share in
        whole bytes, rounded down before 2.13 and to the nearest since.
        """
        if self.memory_fraction is None:
            return None
        share = self.memory_fraction * total_bytes
        return int(share + 0.5) if self.release >= (2, 13) else int(share)

    def rounded(self, nbytes: int) -> int:
        """The size of the block that serves a request (round_size)."""
        if nbytes < MIN_BLOCK:
            return MIN_BLOCK
        interval = nbytes.bit_length() - MIB.bit_length()
        divisions = self.roundup_power2_divisions[min(max(interval, 0), POWER_INTERVALS - 1)]
        if divisions > 1 and nbytes > MIN_BLOCK * divisions:
            return _next_division(nbytes, divisions)
        return -(-nbytes // MIN_BLOCK) * MIN_BLOCK

    def segment_bytes(self, size: int) -> int:
        """The request to CUDA for a block of this size (get_allocation_size)."""
        if size <= SMALL_SIZE:
            return SMALL_SEGMENT
        if size < MIN_LARGE:
            return self.large_segment_bytes
        return -(-size // ROUND_LARGE) * ROUND_LARGE

    def page_bytes(self, small: bool) -> int:
        """By what an expandable segment grows (find_expandable_block)."""
        return SMALL_SEGMENT if small else self.large_segment_bytes


def parse_settings(text: str, release: tuple[int, int] = LATEST) -> Settings:
    """Read what PYTORCH_ALLOC_CONF, or PYTORCH_CUDA_ALLOC_CONF, is set to for a release of PyTorch.

    Raises SettingsError in the words of the text. Options of pinned host memory and of locks are
    read and change nothing here.
    """
    settings = Settings(release=release)
    # The size of large segments is the least of other sizes, wherever it stands in the text.
    for name, value in sorted(options_of(text), key=lambda option: option[0] != LARGE_SEGMENT_SIZE):
        if name in READERS and release >= SINCE.get(name, release):
            settings = READERS[name](settings, value)
        elif name in READERS:
            since = ".".join(map(str, SINCE[name]))
            raise SettingsError(f"{name} is an option since PyTorch {since}")
        elif name not in WITHOUT_EFFECT:
            known = ", ".join(sorted({*READERS, *WITHOUT_EFFECT}))
            raise SettingsError(f"PyTorch's allocator has no option {name}; it has {known}")
    return settings


LARGE_SEGMENT_SIZE = "large_segment_size_mb"
SINCE = {LARGE_SEGMENT_SIZE: (2, 11), "per_process_memory_fraction": (2, 10)}
"""The first release that has an option, of those that were tried."""

WITHOUT_EFFECT = frozenset(
    {
        "pinned_use_cuda_host_register",
        "pinned_use_hip_host_register",
        "pinned_num_register_threads",
        "pinned_reserve_segment_size_mb",
        "pinned_use_background_threads",
        "pinned_free_catch_all",
        "pinned_max_round_threshold_mb",
        "pinned_max_cached_size_mb",
        "release_lock_on_cudamalloc",
        "release_lock_on_hipmalloc",
    }
)
"""Options of host memory and of locks: no byte of the GPU moves."""

UNMODELLED = {
    "graph_capture_record_stream_reuse": "True",
    "throw_on_cudamalloc_oom": "True",
    "expandable_segments_reserve": None,
    "expandable_segments_reserve_by_class": None,
}
"""Options that move bytes in a way that is not replayed, at this value or at any."""


def options_of(text: str) -> Iterator[tuple[str, str]]:
    """The options of a text and their values: commas divide them, save within brackets. Raises
    SettingsError.
    """
    bare = re.sub(r"\s", "", text).removesuffix(",")
    if not bare:
        return
    for option in re.split(r",(?![^\[]*\])", bare):
        name, colon, value = option.partition(":")
        if not colon or not name or not value:
            raise SettingsError(f"'{option}' is no option; write name:value, divided by commas")
        yield name, value


def _flag(name: str, value: str) -> bool:
    if value not in ("True", "False"):
        raise SettingsError(f"{name} is {value}; True or False is right, written like this")
    return value == "True"


def _whole(name: str, value: str) -> int:
    if not re.fullmatch(r"\d+", value):
        raise SettingsError(f"{name} is {value}; a whole number is right")
    return int(value)


def _fraction(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise SettingsError(f"{name} is {value}; a number is right") from None


def _expandable_segments(settings: Settings, value: str) -> Settings:
    return replace(settings, expandable_segments=_flag("expandable_segments", value))


def _large_segment_size(settings: Settings, value: str) -> Settings:
    size = _whole(LARGE_SEGMENT_SIZE, value) * MIB
    if size <= MIN_LARGE:
        raise SettingsError(
            f"{LARGE_SEGMENT_SIZE} is {value}; more than {MIN_LARGE // MIB} is right"
        )
    return replace(settings, large_segment_bytes=size, max_non_split_rounding_bytes=size)


def _max_split_size(settings: Settings, value: str) -> Settings:
    return replace(settings, max_split_bytes=_beyond_segments("max_split_size_mb", settings, value))


def _max_non_split_rounding(settings: Settings, value: str) -> Settings:
    size = _beyond_segments("max_non_split_rounding_mb", settings, value)
    return replace(settings, max_non_split_rounding_bytes=size)


def _beyond_segments(name: str, settings: Settings, value: str) -> int:
    size, least = _whole(name, value) * MIB, settings.large_segment_bytes
    if size < least:
        raise SettingsError(f"{name} is {value}; at least {least // MIB} is right")
    return size


def _garbage_collection(settings: Settings, value: str) -> Settings:
    threshold = _fraction("garbage_collection_threshold", value)
    if not 0 < threshold < 1:
        raise SettingsError(
            f"garbage_collection_threshold is {value}; a share between 0 and 1 is right"
        )
    return replace(settings, garbage_collection_threshold=threshold)


def _memory_fraction(settings: Settings, value: str) -> Settings:
    fraction = _fraction("per_process_memory_fraction", value)
    if not 0 <= fraction <= 1:
        raise SettingsError(f"per_process_memory_fraction is {value}; a share of 1 is right")
    # All of the GPU is no limit, and collects no garbage.
    return replace(settings, memory_fraction=fraction if fraction < 1 else None)


def _backend(settings: Settings, value: str) -> Settings:
    if value != "native":
        raise SettingsError(f"backend is {value}: CUDA's own allocator, which is not replayed")
    return settings


def _roundup(settings: Settings, value: str) -> Settings:
    name = "roundup_power2_divisions"
    if not value.startswith("["):
        divisions = _whole(name, value)
        if divisions < 1 or divisions.bit_count() != 1:
            raise SettingsError(f"{name} is {value}; a power of 2 is right")
        return replace(settings, roundup_power2_divisions=(divisions,) * POWER_INTERVALS)
    if not value.endswith("]"):
        raise SettingsError(f"{name} is {value}; its list ends without ]")
    by_interval = _by_interval(name, value, ends_in_last=settings.release < (2, 10))
    return replace(settings, roundup_power2_divisions=by_interval)


def _by_interval(name: str, value: str, *, ends_in_last: bool) -> tuple[int, ...]:
    """Divisions by interval. A start in MiB names its interval, the first those below as well,
    and `>` those behind the last one named, which before 2.10 was among these itself.
    """
    divisions = [0] * POWER_INTERVALS
    last: int | None = None
    for entry in filter(None, value[1:-1].split(",")):
        start, _, count = entry.partition(":")
        number = _whole(name, count)
        if number.bit_count() > 1:
            raise SettingsError(f"{name} has {entry}; a power of 2, or 0, is right")
        if start == ">":
            behind = 0 if last is None else last + (not ends_in_last)
            divisions[behind:] = [number] * (POWER_INTERVALS - behind)
            continue
        if _whole(name, start).bit_count() != 1:
            raise SettingsError(f"{name} has {entry}; it starts at a power of 2 in MiB, or at >")
        interval = min(int(start).bit_length() - 1, POWER_INTERVALS - 1)
        if last is None:
            divisions[:interval] = [number] * interval
        divisions[interval] = number
        last = interval
    return tuple(divisions)


def _not_modelled(name: str, moves: str | None) -> Callable[[Settings, str], Settings]:
    def read(settings: Settings, value: str) -> Settings:
        if moves is None or value == moves:
            raise SettingsError(f"{name}:{value} is not replayed")
        return settings

    return read


READERS: dict[str, Callable[[Settings, str], Settings]] = {
    "expandable_segments": _expandable_segments,
    LARGE_SEGMENT_SIZE: _large_segment_size,
    "max_split_size_mb": _max_split_size,
    "max_non_split_rounding_mb": _max_non_split_rounding,
    "roundup_power2_divisions": _roundup,
    "garbage_collection_threshold": _garbage_collection,
    "per_process_memory_fraction": _memory_fraction,
    "backend": _backend,
    **{name: _not_modelled(name, moves) for name, moves in UNMODELLED.items()},
}


def _next_division(nbytes: int, divisions: int) -> int:
    """Round up to the next of so many equal parts of the interval between two powers of 2
    (roundup_power2_next_division).
    """
    if nbytes.bit_count() == 1:
        return nbytes
    floor = 1 << (nbytes.bit_length() - 1)
    part = floor // divisions
    return -(-nbytes // part) * part
