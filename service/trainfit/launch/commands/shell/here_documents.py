"""Files that a script writes by a here-document: cat <<EOF > path, tee path <<EOF."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from trainfit.launch.commands.shell.source import Source, text_of
from trainfit.launch.commands.shell.text import Text
from trainfit.launch.commands.shell.words import Expander
from trainfit.launch.program import Word

if TYPE_CHECKING:
    from tree_sitter import Node

_QUOTES = re.compile(r"[\"'\\]")
_SPECIAL = re.compile(r"\\[$`\\\n]|\\|\"")
"""An escape, or what stands for itself in a here-document and not between double quotes."""
_NOT_READ = re.compile(r"\$[{(][^})\n]*\"|(?<!\\)(?:\\\\)*\\\n")
"""An expansion with quotes, and a line that goes on in the next."""


class Written(NamedTuple):
    """A file by its path. `content` has the place of its first line, or why it is not known."""

    path: str
    content: Word


def written(node: Node, expander: Expander) -> Written | None:
    """What a command with redirections writes, if it is such a file."""
    documents = [each for each in _redirects(node) if each.type == "heredoc_redirect"]
    if len(documents) != 1:
        return None
    (document,) = documents
    starts = [child for child in document.children if child.type == "heredoc_start"]
    piped = any(child.type == "pipeline" for child in document.children)
    path = None if piped or not starts else _path(node, document, expander)
    return None if path is None else Written(path, _content(document, starts[0], path, expander))


def _redirects(node: Node) -> Sequence[Node]:
    return node.children_by_field_name("redirect")


def _path(node: Node, document: Node, expander: Expander) -> str | None:
    """Where cat's output is redirected to, or what tee is given."""
    body = node.child_by_field_name("body")
    name = None if body is None else body.child_by_field_name("name")
    if body is None or name is None:
        return None
    given = [str(text) for text in expander.words(body.children_by_field_name("argument"))]
    files = [each for each in (*_redirects(node), *_redirects(document)) if _is_output(each)]
    if text_of(name) == "tee" and len(given) == 1 and not given[0].startswith("-"):
        return given[0]
    if text_of(name) != "cat" or given not in ([], ["-"]) or len(files) != 1:
        return None
    to = files[0].child_by_field_name("destination")
    return None if to is None else str(expander.value(to))


def _is_output(redirect: Node) -> bool:
    """Whether this makes a file anew; what is added to one is not read."""
    return redirect.type == "file_redirect" and redirect.children[0].type in (">", ">|")


def _content(document: Node, start: Node, path: str, expander: Expander) -> Word:
    """The lines up to the one that ends the document, expanded unless its end is in quotes."""
    end = _QUOTES.sub("", text_of(start))
    tabs = "\t" if document.children[0].type == "<<-" else ""
    below = (
        replace(line, text=line.text.lstrip(tabs) if tabs else line.text)
        for line in expander.source.lines_below(start)
    )
    lines = tuple(takewhile(lambda line: line.text.rstrip("\n") != end, below))
    first = lines[0] if lines else expander.source.piece(start)
    raw = Text(lines or (replace(first, text=""),))
    text = raw if _QUOTES.search(text_of(start)) else _expanded(raw, expander)
    return Word(str(text), first.file, first.line, _why_not_known(raw, text, path))


def _expanded(raw: Text, expander: Expander) -> Text:
    """The text as bash expands it: as between double quotes, but for those themselves."""
    place = raw.pieces[0]
    if _NOT_READ.search(str(raw)):
        why = "an expansion with quotes, or a line that goes on in the next, is not read there"
        return Text.of(str(raw), place.file, place.line, why)
    expander.budget.spend(len(str(raw)))
    quote = Word('"', place.file, place.line)
    inner = (replace(each, text=_SPECIAL.sub(_escaped, each.text)) for each in raw.pieces)
    source = Source.of(Text((quote, *inner, quote)))
    node = source.root
    while node.type != "string" and len(node.children) == 1:
        node = node.children[0]
    if node.type != "string" or node.has_error:
        return Text.of(str(raw), place.file, place.line, "it does not read as bash")
    return Expander(source, expander.state, expander.budget).value(node)


def _escaped(found: re.Match[str]) -> str:
    return found[0] if len(found[0]) > 1 else f"\\{found[0]}"


def _why_not_known(raw: Text, text: Text, path: str) -> str | None:
    """Why nothing can be told of the file, or of the lines of it."""
    place = raw.pieces[0]
    if place.line is None:
        return f"{path} is written by a text without lines; send it as a file"
    where = f"{path} is written at {place.file}:{place.line}"
    if text.unknown is not None:
        return f"{where} with what is not known: {text.unknown}"
    if str(raw).count("\n") != str(text).count("\n"):
        return f"{where} with lines that are joined or broken; send it as a file"
    return None
