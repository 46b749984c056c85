"""Whether the packages of the extra `isaaclab` are there; importing this module imports none of them."""

from importlib.util import find_spec

from mimicpipe.errors import ConfigError

PACKAGES = ("isaaclab", "isaaclab_mimic", "isaaclab_tasks")


def check_installed() -> None:
    """Raise ConfigError, which says how to get it, unless Isaac Lab is installed."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"env=isaaclab: needs the extra isaaclab ({', '.join(missing)} not installed); `make isaaclab` makes "
            ".venv-isaaclab/ with it, whose .venv-isaaclab/bin/python runs run.py"
        )
