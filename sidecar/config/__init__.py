"""The configuration: one strict YAML file, overridden by the environment (`load`).

Unknown keys, bad values and limits that the evidence cannot bear are errors, all of them told at
once, each with its path and what is allowed. A mistake must never pass for a setting.
"""

from sidecar.config.agents import AgentConfig, Control, KindSpec
from sidecar.config.load import Config, load
from sidecar.config.problems import ConfigError, Problem
from sidecar.config.settings import Settings

__all__ = ["AgentConfig", "Config", "ConfigError", "Control", "KindSpec", "Problem", "Settings", "load"]
