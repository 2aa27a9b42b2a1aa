"""OpenCode and its fork redcode, as seen from outside."""
