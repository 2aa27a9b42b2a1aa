"""What the sidecar shows: metrics, traces, log events and lifecycle lines."""
