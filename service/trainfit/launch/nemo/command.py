"""`nemo llm pretrain --factory NAME key=value`: which recipe, with what over it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from trainfit.launch.draft import Draft
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.nemo.recipes import FINETUNE, PRETRAIN, RecipeCall
from trainfit.launch.program import TrainingProgram, Word
from trainfit.launch.settings import Setting
from trainfit.launch.values import scalar

PROGRAMS = ("nemo", "nemorun")
FACTORY = ("--factory", "-f")
ALONE = ("--yes", "-y", "--no-confirm", "--dryrun", "--repl", "-r", "--verbose", "-v")


@dataclass(frozen=True, slots=True)
class RecipeCommand:
    """The recipe that a command line names, if it does, and what it says over it."""

    factory: Setting | None
    overrides: Sequence[Setting]


def is_command(program: TrainingProgram) -> bool:
    """Whether this is NeMo's own program, and trains."""
    words = [word.text for word in program.arguments[:2]]
    name = (program.name or "").rpartition("/")[2]
    return name in PROGRAMS and len(words) == 2 and words[0] == "llm" and words[1] in KINDS


KINDS = (PRETRAIN, FINETUNE)


def command_of(words: Sequence[Word], draft: Draft) -> RecipeCommand:
    """What a command line says; an option that is not known is left out."""
    factory: Setting | None = None
    overrides: list[Setting] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, inline = word.text.partition("=")
        value = replace(word, text=inline) if equals else None
        if name in FACTORY and value is None and rest:
            value = rest.pop(0)
        if name in FACTORY and value is not None:
            factory = Setting.of(FACTORY[0], value)
        elif equals and not name.startswith("-"):
            overrides.append(_override(name, replace(word, text=inline)))
        elif name in ALONE:
            draft.ignore(Setting(name, True, word.file, word.line))
        else:
            draft.leave_out(Setting.of(name, word), "no list of this format has this option")
    return RecipeCommand(factory, overrides)


def _override(name: str, value: Word) -> Setting:
    """A key and its value; what is worked out from the recipe's own (`*=2`) is not known."""
    key = name.rstrip("*+-/")
    setting = Setting.of(key, value)
    if key != name:
        return replace(setting, unknown="it is worked out from what the recipe says; write a value")
    text = value.text.removeprefix("torch.")
    return replace(setting, value=None if text == "None" else scalar(text))


def called_by(kind: str, factory: Setting) -> RecipeCall:
    """A recipe as text calls it: its name, and arguments behind it. Raises LaunchError."""
    text = str(factory.value)
    if "(" not in text or factory.unknown is not None:
        return RecipeCall(kind, text, factory, {})
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        tree = None
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.args:
        raise LaunchError(Complaint.at(factory, f"{text} is no call of a recipe"))
    return RecipeCall(kind, tree.func.id, factory, dict(_arguments(tree, factory)))


def _arguments(call: ast.Call, factory: Setting) -> Iterator[tuple[str, Setting]]:
    for each in call.keywords:
        name = each.arg or "**"
        setting = replace(factory, key=name)
        try:
            yield name, replace(setting, value=ast.literal_eval(each.value))
        except (ValueError, TypeError):
            yield name, replace(setting, unknown="it is no value; write one")


def with_overrides(
    settings: Mapping[str, Setting], overrides: Sequence[Setting], draft: Draft
) -> dict[str, Setting]:
    """Settings with what is said over them; a part that is replaced loses what it had."""
    found = dict(settings)
    for setting in overrides:
        part = setting.key.removesuffix("_") if setting.key.endswith("._") else f"{setting.key}."
        for key in [key for key in found if key.startswith(part)]:
            draft.ignore(found.pop(key))
        draft.let_count(found, [(setting.key, setting)])
    return found
