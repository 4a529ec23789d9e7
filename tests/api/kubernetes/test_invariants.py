"""Whatever an object holds, it is answered, and only a verdict refuses it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.api.kubernetes.objects import FITS, OBJECTS, UID
from trainfit.api.kubernetes.annotations import MEANINGS
from trainfit.api.kubernetes.review import AdmissionRequest
from trainfit.api.kubernetes.reviewing import Decision, asking_of, decide
from trainfit.api.kubernetes.warnings import MAX_LENGTH
from trainfit.questions.dimensions import from_package

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3)
    ),
    max_leaves=8,
)
names = st.sampled_from(sorted(MEANINGS)) | st.text(max_size=20)
kinds = st.sampled_from(sorted(OBJECTS))


def decided(kind: str, document: Any) -> Decision:
    group = OBJECTS[kind]["apiVersion"].partition("/")[0]
    about = {"group": group, "version": "v1", "kind": OBJECTS[kind]["kind"]}
    asked = {"uid": UID, "kind": about, "object": document}
    request = AdmissionRequest.model_validate(asked)
    asking = asking_of(request)
    decision = asking if isinstance(asking, Decision) else decide(asking, from_package, True)
    assert all(len(warning) <= MAX_LENGTH for warning in decision.warnings)
    assert all("\n" not in warning for warning in decision.warnings)
    if decision.refusal is not None:
        assert decision.outcome in ("does_not_fit", "tight")
    return decision


@given(kinds, values, st.dictionaries(names, values | st.just(json.dumps(FITS)), max_size=4))
def test_every_object_is_answered(kind: str, spec: Any, annotations: dict[str, Any]) -> None:
    decided(kind, {"metadata": {"annotations": annotations}, "spec": spec})


@given(kinds, st.text() | values.map(json.dumps))
def test_every_text_of_an_annotation_is_answered(kind: str, text: str) -> None:
    annotations = {"trainfit.dev/job": text}
    decision = decided(kind, {**OBJECTS[kind], "metadata": {"annotations": annotations}})
    assert decision.outcome == "not_checked"
    assert decision.refusal is None
