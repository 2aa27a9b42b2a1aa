"""Validates objects; run by the environment that has the schemas, not by the tests' own.

Reads on stdin a list of objects, each with the versions of Kubernetes to try or a schema of its own, and prints
what is wrong as a list of texts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import kubernetes_validate

if TYPE_CHECKING:
    from collections.abc import Iterator


def wrong(case: dict[str, Any]) -> Iterator[str]:
    for version in case.get("versions", ()):
        try:
            kubernetes_validate.validate(case["object"], version, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"{version} {case['name']}: {error.message} at {list(error.path)}"
    if "schema" in case:
        validator = jsonschema.Draft202012Validator(json.loads(Path(case["schema"]).read_text()))
        for found in validator.iter_errors(case["object"]):
            yield f"{case['name']}: {found.message} at {list(found.path)}"


if __name__ == "__main__":
    json.dump([text for case in json.load(sys.stdin) for text in wrong(case)], sys.stdout)
