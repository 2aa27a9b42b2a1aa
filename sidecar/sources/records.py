"""Decode the lines of a transcript, damaged ones included, and never raise.

One bad line costs at most one record. Seen in real transcripts: records cut short with the next one on the
same line, records without a newline between them, runs of NUL bytes around a record, halves of surrogate
pairs where a string was sliced, bytes that are no UTF-8, and nesting too deep to parse.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

import msgspec

T = TypeVar("T")

_BOM: Final = b"\xef\xbb\xbf"
# Half of a surrogate pair as an escape; what belongs to a whole pair is told apart by looking around it.
_SURROGATE: Final = re.compile(rb"\\u[dD](?:([89abAB])|[c-fC-F])[0-9a-fA-F]{2}")
_SECOND: Final = re.compile(rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
# What any of the decoders may throw at a damaged line: msgspec's errors, UnicodeError, numbers out of range,
# and RecursionError, which is no ValueError.
DAMAGE: Final = (msgspec.MsgspecError, ValueError, RecursionError)
# Only where a value ends is of interest here, so numbers stay text: Python refuses to read 5,000 digits.
_SCANNER: Final = json.JSONDecoder(parse_int=str, parse_float=str)
# Places on one line at which a record may have been cut short: one is common, two are rare. Each error takes
# json the time to count the lines before it.
_ERRORS: Final = 16
_BACKSLASH: Final = ord("\\")
_OPENS: Final = ord("{")
_CLOSES: Final = ord("}")


class Decoded(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """What one line held."""

    records: list[T]
    malformed: int = 0  # records lost: broken, or not of the shape asked for
    repaired: int = 0  # records kept that took a repair


class Records(Generic[T]):
    """A decoder of lines into one msgspec type, which should declare the fields that are read and no other.

    Undeclared fields are skipped without being built: that is faster, and content that is never in memory
    cannot leak.
    """

    __slots__ = ("_decode",)

    def __init__(self, shape: type[T]) -> None:
        self._decode = msgspec.json.Decoder(shape).decode

    def decode(self, line: bytes) -> Decoded[T]:
        """Give the records of one line, nearly always one."""
        try:
            return Decoded([self._decode(line)])
        except DAMAGE:
            return self._repair(line)

    def _repair(self, line: bytes) -> Decoded[T]:
        text = line.translate(None, b"\0").strip().removeprefix(_BOM).strip()
        if not text:
            return Decoded([])  # padding: nothing was lost
        text = _whole_pairs(text.decode("utf-8", "replace").encode())
        try:
            return Decoded([self._decode(text)], repaired=1)
        except DAMAGE:
            return self._salvage(text.decode())

    def _salvage(self, text: str) -> Decoded[T]:
        """Find whole records on a line that is not one record."""
        records: list[T] = []
        malformed = 0
        for piece in _pieces(text):
            try:
                records.append(self._decode(piece))
            except DAMAGE:
                malformed += 1
        return Decoded(records, malformed, len(records))


def mending(decode: Callable[[bytes], T], data: bytes) -> T:
    r"""Decode an answer or event, half characters in it replaced by U+FFFD. Raises one of DAMAGE.

    Servers slice strings too: half an emoji at the end of one title, told as ``\ud83d``, must not make a
    whole listing unreadable. Nothing else is mended, for a listing that was guessed at could end somebody.
    """
    try:
        return decode(data)
    except DAMAGE:
        text = _whole_pairs(data)
        if text == data:
            raise
        return decode(text)


class Blocks(Generic[T]):
    """Decodes blocks of undamaged lines in one call each, which saves most of what a line costs besides.

    A file holds one record a line, and the one call would take any values that follow each other. So every
    line has to begin with a brace and end with one: within a value, a brace that closes and one that opens
    never meet with nothing but space between them, and a newline within a string is an error. So no value
    goes beyond its line; each line holds at least one; and if there are as many as lines, each is one line.
    """

    __slots__ = ("_decode",)

    def __init__(self, shape: type[T]) -> None:
        self._decode = msgspec.json.Decoder(shape).decode_lines

    def decode(self, block: bytes) -> list[T] | None:
        """Give the records; None where the lines have to be looked at one by one."""
        count = _braced(block)
        try:
            records = self._decode(block) if count else []
        except DAMAGE:
            return None
        return records if records and len(records) == count else None


def _braced(block: bytes) -> int:
    """Count the lines, if each is in braces."""
    count = at = 0
    size = len(block)
    while at < size:
        end = block.find(b"\n", at)
        if end < 0:
            end = size
        if block[at] != _OPENS or block[end - 1] != _CLOSES:
            return 0
        count += 1
        at = end + 1
    return count


def _whole_pairs(text: bytes) -> bytes:
    r"""Replace each half of a surrogate pair by U+FFFD, as escapes: ``\ud83d`` alone is no character."""
    if b"\\ud" not in text and b"\\uD" not in text:
        return text
    parts: list[bytes] = []
    done = 0
    for half in _SURROGATE.finditer(text):
        at = half.start()
        if at < done or _escaped(text, at):
            continue  # the second half of a pair, or the backslash is itself escaped
        if half[1] and _SECOND.match(text, half.end()):
            parts.append(text[done : half.end() + 6])
            done = half.end() + 6
        else:
            parts += (text[done:at], b"\\ufffd")
            done = half.end()
    parts.append(text[done:])
    return b"".join(parts)


def _pieces(text: str) -> Iterator[bytes]:
    """Split a line into whole JSON values, and ``b""`` for each stretch that is none.

    Where a record was cut short inside a string and the next one follows, that string ends at the next one's
    first quote, so the error shows two places behind the next one's brace. A value behind an error counts
    only if it does not stand where a nested one would, and the line ends behind it or another record begins.
    """
    at, sound, errors = 0, True, 0  # sound: everything up to here was whole
    while at >= 0 and errors < _ERRORS:
        end = resume = -1
        try:
            end = resume = _after_space(text, _SCANNER.raw_decode(text, at)[1])
        except json.JSONDecodeError as error:
            resume = max(at + 1, error.pos - 2)
            errors += 1
        except (ValueError, RecursionError):
            resume = len(text)
        whole = end >= 0 and (sound or (text[end : end + 1] in ("", "{") and text[at - 2 : at] != '":'))
        if whole or sound:
            yield text[at:end].encode() if whole else b""
        sound = whole and text[end : end + 1] in ("", "{")
        if whole and not sound:
            yield b""
        at = text.find('{"', resume)


def _after_space(text: str, at: int) -> int:
    """Skip the space JSON allows between values."""
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _escaped(text: bytes, at: int) -> bool:
    """Tell whether the backslash here is the second of two."""
    before = at
    while before and text[before - 1] == _BACKSLASH:
        before -= 1
    return (at - before) % 2 == 1
