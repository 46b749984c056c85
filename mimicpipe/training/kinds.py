"""Which policy a folder holds, and what it takes to play it. Imports nothing heavy: a wrong one is told at once."""

import json
from importlib.util import find_spec
from pathlib import Path

from mimicpipe.errors import ConfigError

NOTES = "policy.json"
"""What `tools.train` writes beside the weights."""
PLAYED_WITH = {"bc": (), "act": ("lerobot",), "diffusion": ("lerobot", "diffusers")}
"""{policy that can be played: the packages that it needs}."""


def check_playable(folder: Path) -> str:
    """The policy in a folder: bc, act or diffusion.

    Args:
        folder: of `tools.train`; or LeRobot's output folder, or a `pretrained_model` in it.

    Raises:
        ConfigError: no such folder, no checkpoint, another kind of policy, or a package that is not installed.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; make a checkpoint with python -m mimicpipe.tools.train")
    notes = folder / NOTES
    policy = _word(notes, "policy") if notes.is_file() else _word(last_checkpoint(folder) / "config.json", "type")
    if policy not in PLAYED_WITH:
        raise ConfigError(f"{folder}: a policy of type {policy}; {', '.join(PLAYED_WITH)} can be played")
    if missing := [name for name in PLAYED_WITH[policy] if find_spec(name) is None]:
        raise ConfigError(
            f"{folder}: a policy of type {policy} needs {', '.join(missing)}; install the extra: "
            "pip install -e '.[train]'"
        )
    return policy


def last_checkpoint(folder: Path) -> Path:
    """Folder of the newest weights that LeRobot's training has written.

    Args:
        folder: its output folder; or one with weights, which is the answer.

    Raises:
        ConfigError: there are none.
    """
    if (folder / "config.json").is_file():
        return folder
    found = sorted((folder / "checkpoints").glob("[0-9]*/pretrained_model"), key=lambda path: int(path.parent.name))
    if not found:
        raise ConfigError(
            f"{folder}: no checkpoint (no {NOTES}, and none of LeRobot's: checkpoints/<step>/pretrained_model); "
            "make one with python -m mimicpipe.tools.train"
        )
    return found[-1]


def _word(file: Path, key: str) -> str:
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))[key])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file}: cannot be read ({type(error).__name__}: {error}); train the policy again") from None
