"""PyTorch's caching allocator: requests and frees in, what the GPU holds out.

It knows nothing of training: it could replay any program, and imports nothing but the standard
library.
"""

from trainfit.estimator.allocator.caching import CachingAllocator, OutOfMemoryError
from trainfit.estimator.allocator.device import Addresses, Device
from trainfit.estimator.allocator.history import History, TraceEntry
from trainfit.estimator.allocator.replay import RepeatedSteps, repeat, replay
from trainfit.estimator.allocator.requests import (
    Allocate,
    BeginPool,
    EmptyCache,
    EndPool,
    Free,
    Reach,
    RecordStream,
    ReleasePool,
    Request,
)
from trainfit.estimator.allocator.settings import Settings, SettingsError, parse_settings
from trainfit.estimator.allocator.snapshot import (
    Fragmentation,
    SegmentBlock,
    SegmentSnapshot,
    fragmentation,
)

__all__ = [
    "Addresses",
    "Allocate",
    "BeginPool",
    "CachingAllocator",
    "Device",
    "EmptyCache",
    "EndPool",
    "Fragmentation",
    "Free",
    "History",
    "OutOfMemoryError",
    "Reach",
    "RecordStream",
    "ReleasePool",
    "RepeatedSteps",
    "Request",
    "SegmentBlock",
    "SegmentSnapshot",
    "Settings",
    "SettingsError",
    "TraceEntry",
    "fragmentation",
    "parse_settings",
    "repeat",
    "replay",
]
