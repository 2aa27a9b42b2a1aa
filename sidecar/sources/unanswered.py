"""Why a request got no answer, in words: what `check` prints and what is logged when a source is lost."""

import os
import socket
import ssl
from typing import Final

import aiohttp

# The most particular first, since the one of a certificate is of the connector too.
_WORDS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (aiohttp.ClientConnectorCertificateError, "its certificate is not accepted"),
    (aiohttp.ClientSSLError, "it does not speak TLS as expected"),
    (aiohttp.ClientConnectorError, "it cannot be connected to"),
    (aiohttp.ServerDisconnectedError, "it closed the connection before it answered"),
    (aiohttp.ClientPayloadError, "its answer breaks off"),
    (aiohttp.ClientResponseError, "its answer is no HTTP"),
    (ConnectionError, "the connection broke"),
    (aiohttp.ClientOSError, "the connection broke"),
)


def unanswered(error: Exception) -> str:
    """Say what an error of the HTTP client means, and the system's reason where it gives one.

    The error's own text is left out: it may quote what the other end sent.
    """
    cause = getattr(error, "os_error", error)
    if isinstance(cause, socket.gaierror):
        return f"its name cannot be resolved: {cause.strerror}"
    words = next((words for kind, words in _WORDS if isinstance(error, kind)), type(error).__name__)
    if isinstance(cause, ssl.SSLError):  # whose numbers are not the system's
        why = getattr(cause, "verify_message", "")
        return f"{words}: {why}" if why else words
    if isinstance(cause, OSError) and cause.errno:
        return f"{words}: {os.strerror(cause.errno)}"
    return words
