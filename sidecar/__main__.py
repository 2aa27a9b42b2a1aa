"""`python -m sidecar`: the same command where its script is not on the path."""

from __future__ import annotations

import sys

from sidecar.cli import main

sys.exit(main())
