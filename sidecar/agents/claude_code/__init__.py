"""Claude Code, as seen from outside."""
