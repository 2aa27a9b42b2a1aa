"""The tools come in a package for one kind of machine only."""

import platform

import pytest


@pytest.fixture(autouse=True)
def _tools_for_this_machine() -> None:
    if platform.machine() != "x86_64":
        pytest.skip("no package has kubectl and helm for this machine")
