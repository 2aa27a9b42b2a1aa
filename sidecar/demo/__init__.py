"""The demonstration: an agent that hangs, and a sidecar that ends its turn."""
