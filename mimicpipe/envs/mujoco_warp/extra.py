"""Whether the packages of the extra `mujoco_warp` are there; importing this module imports none of them."""

from importlib.util import find_spec

from mimicpipe.errors import ConfigError

PACKAGES = ("mujoco_warp", "warp")


def check_installed() -> None:
    """Raise ConfigError, which says how to get them, unless MuJoCo-Warp and Warp are installed."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"env=mujoco_warp: needs the extra mujoco_warp ({' and '.join(missing)} not installed); get it with "
            "`make warp` or pip install -e '.[mujoco_warp]', or use env=mujoco"
        )
