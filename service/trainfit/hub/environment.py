"""Settings that are read from environment variables."""

import os
from collections.abc import Iterator
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict
from pydantic.fields import FieldInfo

PREFIX = "TRAINFIT_"


def variable_of(name: str) -> str:
    """The environment variable of a field, which errors name by itself or by the variable."""
    return name if name.isupper() else f"{PREFIX}{name.upper()}"


def variables_of(name: str, field: FieldInfo) -> Iterator[tuple[str, str]]:
    """The variables that a field is read from, the first that is set, and what errors call it
    then. A field under names of others has no name with the prefix.
    """
    alias = field.validation_alias
    if alias is None:
        yield variable_of(name), name
    else:
        names = alias.choices if isinstance(alias, AliasChoices) else [alias]
        yield from ((str(each), str(each)) for each in names)


class EnvironmentSettings(BaseModel):
    """Fields that stand in the environment, in capitals or not, unless they are given."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        validate_by_name=True,
        validate_default=True,
    )

    def __init__(self, **given: Any) -> None:
        environment = {name.upper(): value for name, value in os.environ.items()}
        for name, field in type(self).model_fields.items():
            named = variables_of(name, field)
            known = next((each for each in named if each[0] in environment), None)
            if known is not None and name not in given:
                variable, key = known
                given[key] = environment[variable]
        super().__init__(**given)
