"""Make strict JSON schemas of the operators' kinds, from published models that are generated from their CRDs.

The models stand on a library for talking to clusters, of which nothing is needed here: its names are stood in
for, and the base class forbids what it does not know, so that a misspelt field is an error.
"""

from __future__ import annotations

import json
import sys
import types
import typing
import zipfile
from pathlib import Path

import pydantic  # in the environment that install.sh makes

KINDS = {
    "prometheus_operator/v1": ("PodMonitor", "PrometheusRule"),
    "prometheus_operator/v1alpha1": ("AlertmanagerConfig",),
    "kyverno/v1": ("ClusterPolicy",),
}


class Strict(pydantic.BaseModel):
    """A model that takes no unknown field."""

    model_config = pydantic.ConfigDict(extra="forbid", populate_by_name=True)


class Meta(pydantic.BaseModel):
    """An object's metadata, which another schema looks at."""

    model_config = pydantic.ConfigDict(extra="allow")
    name: str

    class Builder: ...


class Subscripted:
    """A generic that nobody uses."""

    def __class_getitem__(cls, _: object) -> type:
        return cls


def stand_in(name: str, **items: object) -> None:
    module = types.ModuleType(name)
    vars(module).update(items)
    sys.modules[name] = module


def stand_in_for_the_library() -> None:
    stand_in("cloudcoil")
    stand_in("cloudcoil.apimachinery", ObjectMeta=Meta)
    stand_in("cloudcoil.resources", Resource=Strict, ResourceList=Strict)
    stand_in(
        "cloudcoil.pydantic",
        BaseModel=Strict,
        BaseBuilder=object,
        BaseModelBuilder=object,
        BuilderContextBase=Subscripted,
        GenericListBuilder=Subscripted,
        ListBuilderContext=Subscripted,
        Never=typing.NoReturn,
        Self=typing.Any,
        UNSET=None,
    )


def main(downloads: Path, place: Path) -> None:
    stand_in_for_the_library()
    place.mkdir(parents=True)
    for path, kinds in KINDS.items():
        package, _, version = path.partition("/")
        (wheel,) = downloads.glob(f"cloudcoil_models_{package}-*.whl")
        with zipfile.ZipFile(wheel) as file:
            text = file.read(f"cloudcoil/models/{package}/{version}.py")
        module = types.ModuleType("models")
        sys.modules["models"] = module
        exec(compile(text, path, "exec"), vars(module))  # noqa: S102 - a pinned package, read without installing it
        for kind in kinds:
            (place / f"{kind}.json").write_text(json.dumps(vars(module)[kind].model_json_schema()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
