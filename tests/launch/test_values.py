"""What a word means is what YAML makes of it, whether a parser was asked or not."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trainfit.documents.document import FileError, parse_documents
from trainfit.launch.values import MEANINGS, scalar

PARTS = ["yes", "No", "ON", "oFF", "true", "null", "~", "nan", "inf", "e", "0", "1", "7", "_", "x"]
SIGNS = [".", "-", "+", "/", ":", ",", " ", "#", "[", "]", "{", "}", "&", "*", "!", "\n", "é", "٣"]


@given(st.lists(st.sampled_from(PARTS + SIGNS), max_size=5).map("".join))
@example("0x1f")
@example("010")
@example("1_000")
@example("9" * 18)
@example("9" * 19)
@example("a" * 100)
@example("y")
@example("tRue")
def test_a_word_is_what_yaml_makes_of_it(text: str) -> None:
    try:
        documents = parse_documents(".yaml", text)
    except FileError:
        expected = text
    else:
        expected = documents[0].value if len(documents) == 1 else text
    found = scalar(text)
    assert (type(found), found) == (type(expected), expected) or found != found


@pytest.mark.parametrize("text", sorted(MEANINGS))
def test_a_word_with_a_meaning_is_not_itself(text: str) -> None:
    (document,) = parse_documents(".yaml", text)
    assert scalar(text) is document.value
