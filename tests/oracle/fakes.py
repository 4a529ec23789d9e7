"""Where fake tensors would cost, or do, what real tensors would not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import transformers.masking_utils
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from transformers import PreTrainedModel, VoxtralModel

from tests.oracle.tracker import Tracker

FEW = 64
"""Numbers of a fake whose values are kept."""
MESH_VALUES = ("_concatenate", "_flatten", "__getitem__", "_unflatten")
SHAPE_PROPAGATION = ("_propagate_tensor_meta_non_cached", "propagate_op_sharding_non_cached")


@contextmanager
def faithful_fakes(tracker: Tracker) -> Iterator[None]:
    """Within, fakes allocate what real tensors do.

    - A mesh is a tensor of ranks whose values are read: it stays real.
    - DTensor finds shapes with full-size fakes in the mode that it finds active: not counted.
    - Masks look for packed sequences in the values of position ids: there are none.
    - Sizes of images are tensors whose values decide shapes: fakes of a few numbers keep them.
    - Models that see compare the number of images' tokens with that of their features, and some
      look at values where they make their weights: both go unsaid.
    """
    with ExitStack() as within:
        for name in MESH_VALUES:
            _wrap(within, DeviceMesh, name, unset_fake_temporarily)
        for name in SHAPE_PROPAGATION:
            _wrap(within, ShardingPropagator, name, tracker.paused)
        within.enter_context(patch.object(VoxtralModel, "get_placeholder_mask", _unchecked))
        within.enter_context(patch.object(fake_tensor, "CONSTANT_NUMEL_LIMIT", FEW))
        within.enter_context(patch.dict("os.environ", TRANSFORMERS_DISABLE_TORCH_CHECK="1"))
        within.enter_context(patch.object(PreTrainedModel, "initialize_weights", lambda _: None))
        within.enter_context(
            patch.object(
                transformers.masking_utils,
                "find_packed_sequence_indices",
                lambda *_args, **_kwargs: None,
            )
        )
        yield


def _unchecked(model: Any, ids: Any, inputs_embeds: Any, audio_features: Any) -> Any:  # noqa: ARG001
    """Where Voxtral's tokens of sounds are, whose number it looks up by their values."""
    return (ids == model.config.audio_token_id).unsqueeze(-1).expand_as(inputs_embeds)


def _wrap(within: ExitStack, owner: type, name: str, context: Callable[[], Any]) -> None:
    """Run a method of a class in a context, as long as the stack is open."""
    found = owner.__dict__.get(name)
    if found is None:
        return
    plain = found.__func__ if isinstance(found, staticmethod) else found

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with context():
            return plain(*args, **kwargs)

    replacement = staticmethod(wrapped) if isinstance(found, staticmethod) else wrapped
    within.enter_context(patch.object(owner, name, replacement))
