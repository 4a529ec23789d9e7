"""A script of NeMo-Run, read as syntax: the recipe that it calls, and what it says over it.

Statements that set a part of the recipe to a value that stands there count; one under a condition
that is not known, or a function that is given the recipe, is not known. Nothing is run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.nemo.performance import HELPER, ORDER, configured
from trainfit.launch.nemo.recipes import FINETUNE, PRETRAIN, RecipeCall
from trainfit.launch.nemo.syntax import (
    UNKNOWN,
    Body,
    bodies,
    calls_of,
    constants_of,
    defaults_of,
    imported,
    last,
    name_of,
    names_of,
    own,
    root,
    value_of,
)
from trainfit.launch.settings import Setting
from trainfit.specs.launch import LaunchFile

_CALL = re.compile(r"\b(pretrain|finetune)_recipe\s*\(")
RECIPES = {f"{kind}_recipe": kind for kind in (PRETRAIN, FINETUNE)}
CONFIGS = ("Config", "Partial")
PRECISIONS: Mapping[str, Mapping[str, Any]] = {
    "bf16_mixed": {"precision": "bf16-mixed"},
    "fp16_mixed": {"precision": "16-mixed"},
    "bf16_with_fp8_mixed": {"fp8": "hybrid", "fp8_recipe": "delayed", "fp8_param_gather": True},
    "bf16_with_mxfp8_mixed": {"fp8": "hybrid", "fp8_recipe": "mxfp8", "fp8_param_gather": True},
    "bf16_with_fp8_current_scaling_mixed": {
        "fp8": "hybrid",
        "fp8_recipe": "tensorwise",
        "first_last_layers_bf16": True,
        "num_layers_at_start_in_bf16": 1,
        "num_layers_at_end_in_bf16": 1,
        "fp8_param_gather": True,
    },
    "bf16_with_fp8_subchannel_scaling_mixed": {
        "fp8": "hybrid",
        "fp8_recipe": "blockwise",
        "fp8_param_gather": False,
    },
}
"""Functions of recipes/precision/mixed_precision.py -> what the plugin then says."""
PARAMETERS = ("dir", "name", "num_nodes", "num_gpus_per_node")
"""Those of a recipe that are given by their place."""
SHOWS = ("set_exp_logging_configs",)
"""Helpers that change what is logged alone (scripts/performance/helpers.py)."""
HARMLESS = ("run", "exp", "experiment", "print", "logging", "logger", "log", "pprint")
"""What a recipe is handed to, to be run or shown."""
NOT_A_VALUE = "it is worked out by the script; write a value, or give it in overrides"
CONDITIONAL = "whether the script gets there is not known"
CALLBACKS = "trainer.callbacks"
"""A list that a script makes where the recipe has none."""
MAIN = "__name__ == '__main__'"


@dataclass(frozen=True, slots=True)
class RecipeScript:
    """The recipe of a script, and what it says over it, in its order. `left` are statements that
    do something else with it, `environment` variables that it sets.
    """

    called: RecipeCall
    overrides: list[Setting] = field(default_factory=list)
    left: list[Setting] = field(default_factory=list)
    environment: Mapping[str, Setting] = field(default_factory=dict)


def is_script(file: LaunchFile) -> bool:
    """By a call of a recipe of NeMo in a file of Python."""
    return (
        file.path.endswith(".py")
        and "nemo" in file.content
        and _CALL.search(file.content) is not None
    )


def script_of(file: LaunchFile, factory: str | None) -> RecipeScript:
    """The recipe of a script; of several that of the function that is named, or is the script's
    own default. Raises LaunchError.
    """
    try:
        return _read(ast.parse(file.content), file.path, factory)
    except LaunchError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise LaunchError(Complaint(f"{file.path}: is no Python: {error}", file.path, 1)) from None


def _read(tree: ast.Module, path: str, factory: str | None) -> RecipeScript:
    wanted = factory or _default(tree)
    found = [each for each in bodies(tree) if any(map(_makes_recipe, own(each.body)))]
    found = found or [each for each in bodies(tree) if any(map(_calls_recipe, own(each.body)))]
    if wanted is not None:
        found = [each for each in found if name_of(each) == wanted] or found
    if len(found) != 1:
        names = ", ".join(name_of(each) or "the script itself" for each in found)
        message = f"{path}: calls recipes in {names or 'no function'}; name one with --factory"
        raise LaunchError(Complaint(message, path, 1))
    reader = _Reader(path, tree)
    reader.read(found[0])
    for caller in _callers(tree, found[0]):
        reader.resume(caller, name_of(found[0]))
    return reader.script()


def _callers(tree: ast.Module, body: Body) -> list[Body]:
    """Where a function is called, in which what it returns may be changed further."""
    return [each for each in bodies(tree) if each is not body and calls_of(body, own(each.body))]


def _calls_recipe(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last(node.func) in RECIPES


def _makes_recipe(node: ast.AST) -> bool:
    """Whether a recipe gets a name, or is returned."""
    return isinstance(node, ast.Assign | ast.Return) and _calls_recipe(node.value or node)


def _default(tree: ast.Module) -> str | None:
    """The function that run.cli.main takes where none is named."""
    for each in ast.walk(tree):
        if isinstance(each, ast.keyword) and each.arg == "default_factory":
            return last(each.value) or None
    return None


class _Reader:
    """Reads the statements of a function after its recipe is made."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        self._path = path
        self._tree = tree
        self._imported = imported(tree)
        self._harmless = (*HARMLESS, *SHOWS, *names_of(tree, "nemo_run"))
        self._constants: dict[str, Any] = {}
        self._name: str | None = None
        self._script: RecipeScript | None = None
        self._environment: dict[str, Setting] = {}
        self._made_by: str | None = None
        self._certain = True

    def script(self) -> RecipeScript:
        """What was read. Raises LaunchError."""
        if self._script is None:
            message = f"{self._path}: what it does with its recipe is not known"
            raise LaunchError(Complaint(message, self._path, 1))
        return replace(self._script, environment=self._environment)

    def read(self, body: Body) -> None:
        """Follow the statements of a function that calls a recipe."""
        self._constants = constants_of(self._tree.body)
        if isinstance(body, ast.FunctionDef):
            self._constants |= self._parameters(body)
        self._follow(body.body)

    def resume(self, caller: Body, made_by: str | None) -> None:
        """Follow the statements of a caller, from where it is given the recipe."""
        self._name, self._made_by = None, made_by
        self.read(caller)

    def _parameters(self, function: ast.FunctionDef) -> dict[str, Any]:
        """What the parameters of a function are: its defaults, or what its one call gives."""
        found = defaults_of(function.args)
        calls = calls_of(function, ast.walk(self._tree))
        names = [each.arg for each in function.args.args]
        for call in calls:
            given = dict(zip(names, call.args, strict=False))
            given |= {each.arg: each.value for each in call.keywords if each.arg is not None}
            for name, value in given.items():
                known = value_of(value, self._constants) if len(calls) == 1 else UNKNOWN
                found[name] = known
        return found

    def _follow(self, statements: Iterable[ast.stmt]) -> None:
        for each in statements:
            if isinstance(each, ast.If):
                self._branch(each)
            elif isinstance(each, ast.With):
                self._follow(each.body)
            elif isinstance(each, ast.Try):
                self._follow([*each.body, *each.orelse, *each.finalbody])
            elif isinstance(each, ast.For | ast.While):
                self._perhaps([*each.body, *each.orelse])
            elif not isinstance(each, ast.FunctionDef | ast.ClassDef):
                self._one(each)

    def _branch(self, statement: ast.If) -> None:
        known: Any = True
        if ast.unparse(statement.test) != MAIN:
            known = value_of(statement.test, self._constants)
        if known is UNKNOWN:
            self._perhaps([*statement.body, *statement.orelse])
        else:
            self._follow(statement.body if known else statement.orelse)

    def _perhaps(self, statements: Iterable[ast.stmt]) -> None:
        before, self._certain = self._certain, False
        self._follow(statements)
        self._certain = before

    def _one(self, statement: ast.stmt) -> None:
        value = getattr(statement, "value", None)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        called = next(filter(_calls_recipe, ast.walk(value)), None) if value else None
        if isinstance(target, ast.Subscript) and last(target.value) == "environ":
            key = str(value_of(target.slice, self._constants))
            said = value_of(value, self._constants) if value else UNKNOWN
            self._environment[key] = self._setting(key, said, statement)
        elif self._script is None and isinstance(called, ast.Call):
            self._name = target.id if isinstance(target, ast.Name) else None
            self._script = RecipeScript(self._called(called))
        elif self._made_by is not None and value is not None and self._makes(value):
            self._name, self._made_by = getattr(target, "id", None), None
        elif isinstance(target, ast.Name) and target.id != self._name:
            said = value_of(statement.value, self._constants)  # type: ignore[attr-defined]
            self._constants[target.id] = said if self._certain else UNKNOWN
        elif self._script is not None and self._touches(statement):
            self._over(statement, target, value)

    def _makes(self, value: ast.AST) -> bool:
        """Whether this calls the function that returns the recipe."""
        calls = (each for each in ast.walk(value) if isinstance(each, ast.Call))
        return any(last(each.func) == self._made_by for each in calls)

    def _called(self, call: ast.Call) -> RecipeCall:
        kind = RECIPES[last(call.func)]
        function = call.func
        owner = self._imported.get(last(function), "")
        if isinstance(function, ast.Attribute):
            owner = last(function.value)
        setting = self._setting(f"{owner}.{kind}_recipe", owner, call)
        return RecipeCall(kind, owner, setting, self._arguments(call, PARAMETERS))

    def _arguments(self, call: ast.Call, order: Sequence[str]) -> dict[str, Setting]:
        """What a function is given, by its parameters; what has none that is known, by its text."""
        names = [*order, *(ast.unparse(each) for each in call.args[len(order) :])]
        given = list(zip(names, call.args, strict=False))
        given += [(each.arg or ast.unparse(each), each.value) for each in call.keywords]
        return {
            name: self._setting(name, value_of(value, self._constants), value)
            for name, value in given
        }

    def _setting(self, key: str, value: Any, node: ast.AST) -> Setting:
        line = getattr(node, "lineno", None)
        unknown = NOT_A_VALUE if value is UNKNOWN else None if self._certain else CONDITIONAL
        shown = key if value is UNKNOWN else value
        return Setting(key, shown, self._path, line, unknown)

    def _touches(self, statement: ast.stmt) -> bool:
        names = (each.id for each in ast.walk(statement) if isinstance(each, ast.Name))
        return self._name is not None and self._name in names

    def _over(self, statement: ast.stmt, target: ast.AST | None, value: ast.AST | None) -> None:
        """A statement that has to do with the recipe."""
        assert self._script is not None
        path = _path(target, self._name)
        if isinstance(statement, ast.Return):
            return
        if path:
            self._script.overrides.extend(self._said(path, value, statement))
        elif isinstance(value, ast.Call) and (added := self._callbacks(value)):
            self._script.overrides.extend(added)
        elif isinstance(value, ast.Call) and last(value.func) == HELPER:
            self._script.overrides.extend(configured(self._arguments(value, ORDER)))
        elif not (isinstance(value, ast.Call) and root(value.func) in self._harmless):
            text = ast.unparse(statement).partition("\n")[0][:80]
            said = replace(self._setting(text, None, statement), unknown=None)
            self._script.left.append(said)

    def _said(self, key: str, value: ast.AST | None, node: ast.AST) -> Iterator[Setting]:
        """The settings of a part of the recipe that is set."""
        if isinstance(value, ast.Call) and last(value.func) in CONFIGS and value.args:
            yield self._setting(f"{key}._", last(value.args[0]), node)
            for each in value.keywords:
                yield from self._said(f"{key}.{each.arg}", each.value, each)
        elif isinstance(value, ast.Call) and last(value.func) in PRECISIONS:
            yield self._setting(f"{key}._", last(value.func), node)
            plugin = {"precision": "bf16-mixed", **PRECISIONS[last(value.func)]}
            for name, field in plugin.items():
                yield self._setting(f"{key}.{name}", field, node)
        else:
            said = UNKNOWN if value is None else value_of(value, self._constants)
            if key != CALLBACKS or said or self._certain:
                yield self._setting(key, said, node)

    def _callbacks(self, call: ast.Call) -> list[Setting]:
        """Callbacks that are added to the trainer's."""
        function = call.func
        owner = function.value if isinstance(function, ast.Attribute) else None
        if last(function) not in ("append", "extend") or _path(owner, self._name) is None:
            return []
        added = call.args[0] if call.args else None
        each = added.elts if isinstance(added, ast.List | ast.Tuple) else [added]
        found: list[Setting] = []
        for one in each:
            if isinstance(one, ast.Call) and last(one.func) in CONFIGS and one.args:
                found += self._said(f"{CALLBACKS}.{last(one.args[0])}", one, call)
            else:
                name = last(one.func) if isinstance(one, ast.Call) else "callback"
                found.append(self._setting(f"{CALLBACKS}.{name}._", True, call))
        return found


def _path(node: ast.AST | None, name: str | None) -> str | None:
    """The dotted place below the recipe that this is; of one in a list, as the callback whose it
    is.
    """
    parts: list[str] = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Subscript):
            parts = [*parts, "MegatronCommOverlapCallback"]
        else:
            parts = [*parts, node.attr]
        node = node.value
    if not isinstance(node, ast.Name) or node.id != name or not parts:
        return None
    return ".".join(reversed(parts))
