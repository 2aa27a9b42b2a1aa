"""What the tests against real agents share."""

from collections.abc import Iterator

import pytest

from tests.e2e.claude import Claude
from tests.e2e.sandbox import Sandbox


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as place:
        yield place


@pytest.fixture
def claude(sandbox: Sandbox) -> Claude:
    return Claude(sandbox)
