"""Simple paths into JSON: names joined by dots, `[]` for every element of a list, `.` for the whole."""

from __future__ import annotations

from typing import Any, Final

WHOLE: Final = "."

MISSING: Final = object()
"""Where a path leads nowhere; null is a value."""

LONGEST: Final = 256
"""Characters of a value that is shown or compared; what is longer is no id and no state."""


def steps(path: str) -> list[str]:
    """A path taken apart: names, and `[]` for "each of them". Raises ValueError."""
    if path == WHOLE:
        return []
    out: list[str] = []
    for part in path.split("."):
        name = part.rstrip("[]")
        lists = part.removeprefix(name)
        if lists.replace("[]", "") or "[" in name or "]" in name or not part:
            raise ValueError(f"{path!r} is no path; write names joined by dots, such as a.b[].c")
        out += [name] if name else []
        out += ["[]"] * (len(lists) // 2)
    return out


def find(data: Any, path: str) -> Any:  # noqa: ANN401 - JSON is anything
    """The first value there, or MISSING."""
    return next(iter(find_all(data, path)), MISSING)


def find_all(data: Any, path: str) -> list[Any]:  # noqa: ANN401 - as above
    """Every value there."""
    found = [data]
    for step in steps(path):
        if step == "[]":
            found = [item for value in found if isinstance(value, list) for item in value]
        else:
            found = [value[step] for value in found if isinstance(value, dict) and step in value]
    return found


def items(data: Any, path: str) -> list[Any] | None:  # noqa: ANN401 - as above
    """The elements of the lists that the path ends in; None where one of them is no list.

    An answer without the list is an error in disguise: read as an empty list it would end sessions. So is a
    group without its list, where the list is one of groups.
    """
    if not path.endswith("[]"):
        one = find(data, path)
        return [one] if isinstance(one, dict) else None
    *before, _ = steps(path)
    holders = [data]
    for step in before:
        if step == "[]":
            if not all(isinstance(each, list) for each in holders):
                return None
            holders = [item for each in holders for item in each]
        elif all(isinstance(each, dict) and step in each for each in holders):
            holders = [each[step] for each in holders]
        else:
            return None
    return [item for each in holders for item in each] if all(isinstance(e, list) for e in holders) else None


def word(value: object) -> str | None:
    """A scalar as the text that settings compare it with; None for anything else."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return value if isinstance(value, str) and len(value) <= LONGEST else None
