"""What may differ between a body and its schema although the body is accepted, and what may not.

The contract (1.4) reads scalars of another type as the wanted one (5 as "5", "true" as true), null as absent and as an empty list, and does
not check lengths that the reference does not; some members are ignored, or anything but a truth value is no. Everything else of a schema
holds for each accepted body: no unknown members, none missing, no list for an object.
"""
import json
import pathlib

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

DOCUMENT = json.loads((pathlib.Path(__file__).parents[2] / "openapi/exchange.json").read_text(encoding="utf-8"))
SCALARS = {"string", "number", "integer", "boolean", "null"}
# Flags that only a truth value sets; anything else is none.
ANYTHING = {"agreementLess", "enableNodeLevelSecrets"}
# Members of a group's document that follow from others, and are ignored.
IGNORED = {"HaGroupDocument": ["admin", "updated", "lastUpdated"]}
# Rules about the value of a scalar, which hold for the type that was wanted.
VALUE_RULES = {
    "format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "enum", "const",
}


def tolerant(schema, required=False):
    """The same schema with every scalar type for any, and null for what need not be there."""
    if isinstance(schema, list):
        return [tolerant(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {name: value for name, value in schema.items() if name not in VALUE_RULES}
    types = result.get("type")
    if types is not None:
        types = {types} if isinstance(types, str) else set(types)
        if types & (SCALARS - {"null"}):
            types |= SCALARS
        is_nullable = not required or "array" in types
        result["type"] = sorted(types | {"null"} if is_nullable else types)
    must = set(schema.get("required", []))
    if "properties" in schema:
        result["properties"] = {
            name: True if name in ANYTHING else tolerant(value, name in must) for name, value in schema["properties"].items()
        }
    for name in ("items", "additionalProperties"):
        if name in schema:
            result[name] = tolerant(schema[name])
    for name in ("anyOf", "oneOf", "allOf"):
        if name in schema:
            # Scalars of one branch may fit another one now.
            result.pop(name)
            kept = [tolerant(item) for item in schema[name]]
            result["allOf" if name == "allOf" else "anyOf"] = kept
    if "$ref" in schema:
        result.pop("$ref")
        reference = {"$ref": schema["$ref"].replace("#/components/", "urn:document#/components/")}
        result["anyOf"] = [reference] if required else [reference, {"type": "null"}]
    return result


def registry():
    """The document with tolerant schemas."""
    schemas = {name: tolerant(schema, True) for name, schema in DOCUMENT["components"]["schemas"].items()}
    for name, members in IGNORED.items():
        schemas[name]["properties"].update(dict.fromkeys(members, True))
    return Registry().with_resource("urn:document", Resource({"components": {"schemas": schemas}}, DRAFT202012))


REGISTRY = registry()
VALIDATORS = {}


def validator(method, path):
    """Checks the JSON body of an operation; `None` when it has none."""
    key = (method.lower(), path)
    if key not in VALIDATORS:
        operation = DOCUMENT["paths"].get(path, {}).get(key[0], {})
        media = operation.get("requestBody", {}).get("content", {}).get("application/json")
        schema = media and tolerant(media["schema"], True)
        VALIDATORS[key] = schema and Draft202012Validator(schema, registry=REGISTRY)
    return VALIDATORS[key]


def violation(method, path, body):
    """The rule that an accepted body breaks in spite of the tolerance, or `None`."""
    checker = validator(method, path)
    if checker is None:
        return None
    return next((f"{error.json_path}: {error.message[:200]}" for error in checker.iter_errors(body)), None)


def main():
    """Proves that the tolerance lets pass what it must, and no more."""
    path = "/v1/orgs/{organization}/nodes/{node}/policy"
    assert violation("PUT", path, {"label": 5, "constraints": None, "properties": [{"name": "p", "value": 1}]}) is None
    for body in ({"unknown": 1}, [], {"constraints": {}}, {"properties": [[]]}, {"deployment": "text"}):
        assert violation("PUT", path, body), body
    agreement = "/v1/orgs/{organization}/nodes/{node}/agreements/{agreement}"
    assert violation("PUT", agreement, {"services": []}), "the state is missing"


if __name__ == "__main__":
    main()
