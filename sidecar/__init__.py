"""An observability sidecar for AI agents: it bounds their turns by silence."""
