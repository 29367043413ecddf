#!/usr/bin/env python3
"""Checks an API document against the specification it names, and each example in it against its schema.

Usage: check_document.py DOCUMENT
"""
import json
import sys

import openapi_spec_validator
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

METHODS = {"get", "put", "post", "patch", "delete"}


def media_of(operation):
    """Every body of an operation, with a title."""
    yield from (("request", media) for media in operation.get("requestBody", {}).get("content", {}).values())
    for status, response in operation["responses"].items():
        yield from ((status, media) for media in response.get("content", {}).values())


def examples_of(media):
    if "example" in media:
        yield media["example"]
    yield from (example["value"] for example in media.get("examples", {}).values())


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        document = json.load(file)
    openapi_spec_validator.validate(document)
    registry = Registry().with_resource("urn:document", Resource(document, DRAFT202012))
    operations = examples = 0

    def check(title, schema, value):
        # References are those of the document, not of the schema.
        absolute = json.loads(json.dumps(schema).replace('"#/components/', '"urn:document#/components/'))
        errors = list(Draft202012Validator(absolute, registry=registry).iter_errors(value))
        if errors:
            sys.exit(f"{title}: {errors[0].message} at {errors[0].json_path}")

    for path, item in document["paths"].items():
        for method in METHODS & item.keys():
            operation = item[method]
            operations += 1
            for kind, media in media_of(operation):
                for example in examples_of(media):
                    examples += 1
                    check(f"{method} {path} {kind}", media["schema"], example)
            for parameter in operation.get("parameters", []):
                if "example" in parameter:
                    examples += 1
                    check(f"{method} {path} {parameter['name']}", parameter["schema"], parameter["example"])
    for name, response in document["components"]["responses"].items():
        for media in response["content"].values():
            for example in examples_of(media):
                examples += 1
                check(name, media["schema"], example)
    print(f"OpenAPI {document['openapi']}: {operations} operations, {examples} examples, all valid")


main()
