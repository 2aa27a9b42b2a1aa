"""Sessions that are listed in one place and written down in another, as one agent."""
