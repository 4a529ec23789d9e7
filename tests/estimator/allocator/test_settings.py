"""PYTORCH_ALLOC_CONF, read as PyTorch reads it."""

from __future__ import annotations

import pytest

from trainfit.estimator.allocator import Settings, SettingsError, parse_settings

MIB = 1 << 20


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", Settings()),
        ("expandable_segments:True", Settings(expandable_segments=True)),
        (" expandable_segments : True , ", Settings(expandable_segments=True)),
        ("expandable_segments:True,expandable_segments:False", Settings()),
        ("max_split_size_mb:128", Settings(max_split_bytes=128 * MIB)),
        (
            "max_non_split_rounding_mb:64,garbage_collection_threshold:0.8",
            Settings(max_non_split_rounding_bytes=64 * MIB, garbage_collection_threshold=0.8),
        ),
        (
            "max_split_size_mb:40,large_segment_size_mb:40",
            Settings(
                large_segment_bytes=40 * MIB,
                max_split_bytes=40 * MIB,
                max_non_split_rounding_bytes=40 * MIB,
            ),
        ),
        ("per_process_memory_fraction:0.5", Settings(memory_fraction=0.5)),
        ("per_process_memory_fraction:1.0", Settings()),
        ("roundup_power2_divisions:4", Settings(roundup_power2_divisions=(4,) * 16)),
        (
            "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
            Settings(roundup_power2_divisions=(1,) * 9 + (2, 4) + (8,) * 5),
        ),
        ("roundup_power2_divisions:[>:4]", Settings(roundup_power2_divisions=(4,) * 16)),
        ("backend:native,pinned_use_background_threads:True", Settings()),
        ("throw_on_cudamalloc_oom:False", Settings()),
    ],
)
def test_a_text_sets(text: str, settings: Settings) -> None:
    assert parse_settings(text) == settings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("foo:1", "PyTorch's allocator has no option foo; it has .*max_split_size_mb"),
        ("max_split_size_mb=128", "'max_split_size_mb=128' is no option; write name:value"),
        (",max_split_size_mb:128", "'' is no option"),
        ("max_split_size_mb:5", "max_split_size_mb is 5; at least 20 is right"),
        (
            "max_split_size_mb:30,large_segment_size_mb:40",
            "max_split_size_mb is 30; at least 40 is right",
        ),
        ("max_split_size_mb:abc", "max_split_size_mb is abc; a whole number is right"),
        ("large_segment_size_mb:10", "large_segment_size_mb is 10; more than 10 is right"),
        ("expandable_segments:true", "expandable_segments is true; True or False is right"),
        ("garbage_collection_threshold:1.5", "a share between 0 and 1 is right"),
        ("garbage_collection_threshold:x", "garbage_collection_threshold is x; a number is right"),
        ("per_process_memory_fraction:2", "per_process_memory_fraction is 2"),
        ("roundup_power2_divisions:3", "roundup_power2_divisions is 3; a power of 2 is right"),
        ("roundup_power2_divisions:[256:3]", "has 256:3; a power of 2, or 0, is right"),
        ("roundup_power2_divisions:[100:2]", "has 100:2; it starts at a power of 2"),
        ("backend:cudaMallocAsync", "CUDA's own allocator, which is not replayed"),
        ("throw_on_cudamalloc_oom:True", "throw_on_cudamalloc_oom:True is not replayed"),
        ("expandable_segments_reserve:0.5", "expandable_segments_reserve:0.5 is not replayed"),
    ],
)
def test_what_pytorch_refuses_or_is_not_replayed_is_told(text: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        parse_settings(text)


@pytest.mark.parametrize(("release", "divisions"), [((2, 9), 8), ((2, 10), 4)])
def test_the_last_interval_named_was_part_of_those_behind_it(
    release: tuple[int, int], divisions: int
) -> None:
    settings = parse_settings("roundup_power2_divisions:[512:2,1024:4,>:8]", release)
    assert settings.roundup_power2_divisions == (2,) * 10 + (divisions,) + (8,) * 5


def test_an_option_that_a_release_does_not_have_is_told() -> None:
    with pytest.raises(
        SettingsError, match=r"large_segment_size_mb is an option since PyTorch 2\.11"
    ):
        parse_settings("large_segment_size_mb:40", (2, 10))
