"""Adapters: one for each kind of agent; none knows another."""
