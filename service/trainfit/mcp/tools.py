"""What agents are offered: operations of the API under names for them, each with an outline of what
it takes.

The whole schema of a job has 60 kB, in most of the tools, of which an agent would read every word
before it asks anything. Tools are listed with the names and types of the fields, those that several
take with the first of them; what is wrong with a value is said when it was sent.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

INSTRUCTIONS = (
    "Trainfit answers, without a GPU, how much memory every rank of an LLM training job needs. Ask "
    "`fit_check` whether a job fits its card and what would help, `estimate` how much each "
    "pipeline rank needs, `search` which layout to run, `compare` how changes differ, "
    "`from_launch` what job a launch file describes, and `reconcile` why a run took what it took. "
    'A model is {"hf_id": "org/name"}, {"hf_config": config.json} or {"spec": {...}}; in the '
    "place of a job, `launch` takes the files, the command line and the environment that a team "
    "has. All sizes are bytes; low and high are bounds, and a verdict rests on those. `unknown` "
    "means that something which changes memory is not modelled, and names it: do not take it for "
    "a fit. Every default that was filled in is listed in the answer."
)
"""What an agent reads of the tools together."""

DEPTH = 2
"""Of objects within what a tool takes: the parts of a job, and their fields."""
KEPT = ("type", "enum", "const")
"""What an outline says of a value."""
NULL = {"type": "null"}
LONG = 256
"""Characters of an outline that is not repeated."""

Schemas = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """An operation under a name for agents."""

    name: str
    operation_id: str


TOOLS = (
    Tool("estimate", "estimate"),
    Tool("fit_check", "fitCheck"),
    Tool("compare", "compare"),
    Tool("search", "search"),
    Tool("reconcile", "reconcile"),
    Tool("from_launch", "jobFromLaunch"),
)


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as it is listed. Arguments that `query` names go into the query of its operation, all
    others are its body.
    """

    name: str
    operation_id: str
    title: str
    description: str
    input_schema: dict[str, Any]
    query: frozenset[str]


def listed(document: Mapping[str, Any]) -> Iterator[ListedTool]:
    """The tools, from the OpenAPI document of their operations."""
    schemas = document["components"]["schemas"]
    described: dict[str, tuple[Any, str]] = {}
    operations = {
        operation["operationId"]: operation
        for methods in document["paths"].values()
        for operation in methods.values()
    }
    for tool in TOOLS:
        operation = operations[tool.operation_id]
        query = {
            each["name"]: each["schema"] | {"description": each.get("description", "")}
            for each in operation.get("parameters", ())
            if each["in"] == "query"
        }
        (content,) = operation["requestBody"]["content"].values()
        fields, required = _body(content["schema"], schemas)
        yield ListedTool(
            tool.name,
            tool.operation_id,
            operation["summary"],
            " ".join(operation["description"].split()),
            {
                "type": "object",
                "properties": _once(tool, _outlines({**fields, **query}, schemas), described),
                "required": required,
            },
            frozenset(query),
        )


def _body(body: Schemas, schemas: Schemas) -> tuple[dict[str, Any], list[str]]:
    """The fields of a body, of each kind that it may be, and those that all kinds require."""
    kinds = [_named(each, schemas) for each in body.get("oneOf", [body])]
    fields = {name: field for kind in kinds for name, field in kind["properties"].items()}
    return fields, sorted(set.intersection(*[set(kind.get("required", ())) for kind in kinds]))


def _outlines(fields: Schemas, schemas: Schemas) -> dict[str, dict[str, Any]]:
    return {
        name: _outline(field, schemas, DEPTH) | _description(field, schemas)
        for name, field in fields.items()
    }


def _once(
    tool: Tool, fields: Mapping[str, dict[str, Any]], described: dict[str, tuple[Any, str]]
) -> dict[str, dict[str, Any]]:
    """The fields without what an earlier tool has described of one, which that is named for."""
    short = {}
    for name, field in fields.items():
        before, teller = described.setdefault(name, (field, tool.name))
        is_known = teller != tool.name and field == before and len(str(field)) > LONG
        short[name] = {"description": f"As `{teller}` takes it."} if is_known else field
    return short


def _outline(schema: Schemas, schemas: Schemas, depth: int) -> dict[str, Any]:
    """What a value may be; of objects, the names of the fields as deep as that."""
    schema = _named(schema, schemas)
    outline = {name: schema[name] for name in KEPT if name in schema}
    kinds: Sequence[Schemas] = schema.get("anyOf") or schema.get("oneOf") or ()
    if kinds:
        outlines = [_outline(each, schemas, depth) for each in kinds if each != NULL]
        distinct = [each for at, each in enumerate(outlines) if each not in outlines[:at]]
        outline |= distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
    if "items" in schema:
        outline["items"] = _outline(schema["items"], schemas, depth)
    if depth and "properties" in schema:
        outline["properties"] = {
            name: _outline(field, schemas, depth - 1)
            for name, field in schema["properties"].items()
        }
    return outline


def _description(schema: Schemas, schemas: Schemas) -> dict[str, str]:
    text = schema.get("description") or _named(schema, schemas).get("description")
    return {"description": " ".join(text.split())} if text else {}


def _named(schema: Schemas, schemas: Schemas) -> Schemas:
    """The schema that a reference names, or any other as it is."""
    name = schema.get("$ref", "").rpartition("/")[2]
    named: Schemas = schemas[name] if name else schema
    return named
