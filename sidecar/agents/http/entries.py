"""What a server said, as facts: entries out of answers of any shape. No I/O, and nothing is kept.

What makes no sense is left out, and the listing is then not whole: what is missing from it may
still be there.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from sidecar.agent import SourceDown
from sidecar.agents.http.paths import LONGEST, MISSING, find, items, word
from sidecar.agents.http.shapes import State

if TYPE_CHECKING:
    from sidecar.agents.http.settings import Settings
    from sidecar.agents.http.shapes import Fields, Listing

MILLISECONDS: Final = 100_000_000_000
"""A number above this is no count of seconds of this age."""

FARTHEST: Final = 32_503_680_000
"""The year 3000: what is later is no stamp."""

MENDED: Final = "\ufffd"
"""Where half a character was: an id that has one may be that of several."""

NOTHING: Final = ("", "0", "false")


class Entry(Struct, frozen=True):
    """A session as its server tells it; None: it does not."""

    id: str
    state: State | None = None
    waits: str | None = None
    created: float | None = None
    active: float | None = None
    done: bool = False
    parent: str | None = None
    facts: dict[str, str | None] = {}
    """What `when` asks for before an act, and nothing else of what came: it may hold content."""


class Listed(Struct, frozen=True):
    """One answer, or several pages of it."""

    entries: dict[str, Entry]
    whole: bool = True
    """Whether what is not among them is not there."""
    limit: int | None = None


def listed(settings: Settings, listing: Listing, answer: object) -> Listed:
    """The entries of an answer. Raises SourceDown where it is no listing."""
    found = items(answer, listing.items)
    if found is None:
        raise SourceDown("its answer is no listing")
    if listing.single is not None and listing.status is not None:
        found = [facts for facts in found if find(facts, listing.status) is not MISSING]
        if not found:
            raise SourceDown("its answer tells no status")
    entries: dict[str, Entry] = {}
    whole = True
    for facts in found:
        if listing.live is not None and find(facts, listing.live) is MISSING:
            continue
        session = listing.single or _id(find(facts, listing.id or ""))
        if session is None:
            whole = False
        else:
            told = entry(settings, listing, session, facts)
            entries[session] = _livelier(entries.get(session), told)
    if not whole and not entries:
        raise SourceDown("no entry of its listing has an id")
    return Listed(entries, whole, cap_of(answer, listing.limit))


def cap_of(answer: object, path: str | None) -> int | None:
    """How many sessions there may be; none or fewer is some server's word for any number."""
    told = find(answer, path) if path is not None else None
    return told if isinstance(told, int) and not isinstance(told, bool) and told > 0 else None


def entry(settings: Settings, fields: Fields, session: str, facts: object) -> Entry:
    """One session, by what is told of it."""
    asked = {path for call in (settings.interrupt, settings.reap) if call is not None for path in call.when}
    state = _state(fields, facts)
    waits = next((what for path, what in fields.waiting.items() if _true(find(facts, path))), None)
    return Entry(
        session,
        "waiting" if waits is not None else state,
        waits,
        stamp_of(facts, fields.created),
        stamp_of(facts, fields.last_activity),
        fields.done is not None and _true(find(facts, fields.done)),
        _id(find(facts, fields.parent)) if fields.parent is not None else None,
        {path: word(find(facts, path)) for path in asked},
    )


def _livelier(one: Entry | None, other: Entry) -> Entry:
    """Of two entries with one id, what says more of life: no one is ended for a doubled line."""
    if one is None:
        return other
    busier = other if (one.state or "idle") in ("idle", "ended") else one
    active = max((e.active for e in (one, other) if e.active is not None), default=None)
    return structs.replace(busier, active=active, done=one.done and other.done)


def merged(listed: Entry | None, told: Entry) -> Entry:
    """What the listing says and what the session's own status says: the latter is nearer."""
    if listed is None:
        return told
    return Entry(
        told.id,
        told.state or listed.state,
        told.waits or listed.waits if told.state in (None, "waiting") else None,
        listed.created if told.created is None else told.created,
        listed.active if told.active is None else told.active,
        told.done or listed.done,
        told.parent or listed.parent,
        listed.facts | {path: value for path, value in told.facts.items() if value is not None},
    )


def over(settings: Settings, entry: Entry) -> bool:
    """Whether there is no such session any more, listed or not."""
    return entry.state == "ended" or (entry.done and not settings.leftovers)


def _id(value: object) -> str | None:
    if isinstance(value, bool):
        return None
    text = str(value) if isinstance(value, int) else value
    if not isinstance(text, str) or MENDED in text:
        return None
    return text if 0 < len(text) <= LONGEST else None


def _true(value: object) -> bool:
    return value is not MISSING and value is not None and word(value) not in NOTHING


def _state(fields: Fields, facts: object) -> State | None:
    """The word for its state, translated; one that nobody knows is no idleness."""
    if fields.status is None:
        return None
    said = word(find(facts, fields.status))
    words = {word(key): state for key, state in fields.words.items()}
    state = words.get(said, "busy")
    rests = state == "idle" and fields.background is not None and _true(find(facts, fields.background))
    return "background" if rests else state


def stamp_of(facts: object, path: str | None) -> float | None:
    """The moment that a path leads to, as epoch seconds; None where it leads to none."""
    value = find(facts, path) if path is not None else None
    if isinstance(value, str):
        value = _moment(value)
    elif isinstance(value, int | float) and abs(value) > MILLISECONDS:
        value /= 1000
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < FARTHEST else None


def _moment(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
