"""The budgets: a reader can hold a module and a function in his head."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SIDECAR = Path(__file__).parent.parent / "sidecar"
MODULES = sorted(path for path in SIDECAR.rglob("*.py") if path.name != "host.py" or path.parent != SIDECAR)
LINES_OF_A_MODULE, LINES_OF_A_FUNCTION = 300, 60
"""`host.py` alone is exempt: being one file is its purpose."""


@pytest.mark.parametrize("module", MODULES, ids=[str(path.relative_to(SIDECAR)) for path in MODULES])
def test_modules_and_functions_are_short(module: Path) -> None:
    text = module.read_text()
    assert text.count("\n") <= LINES_OF_A_MODULE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < LINES_OF_A_FUNCTION, node.name
