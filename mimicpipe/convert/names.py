"""What a key of an HDF5 demo is called as a LeRobot feature, and back: each rule but the fourth can be undone.

What a dataset was converted from is kept with it as well (meta/mimicpipe.json), so it becomes the same keys again.

| in the demo | feature |
| --- | --- |
| `actions`, `rewards`, `dones` | `action`, `next.reward`, `next.done` (LeRobot's words) |
| `obs/<a>/<b>`, a camera | `observation.images.<a>.<b>` |
| `obs/<a>/<b>` | `observation.<a>.<b>` |
| `obs/observation.<a>` | `observation.<a>`, as `pools.hdf5_writer` means it |
| `<a>/<b>` | `<a>.<b>` |

LeRobot's names have letters, digits, `_`, `-` and `.`. Any other character of a key, and `.` and `-` themselves, is
written as `-<code point in hex>-`. So is the last letter of a word that LeRobot would misunderstand: `image` in the
name of numbers (it takes them for a camera), a column of its own (`timestamp`), and what the table has for another key.
"""

import re

_FIXED = {"actions": "action", "rewards": "next.reward", "dones": "next.done"}
_BACK = {feature: path for path, feature in _FIXED.items()}
_IMAGES, _OBSERVATION, _OBS = "observation.images.", "observation.", "obs/"
_LEROBOTS = frozenset(
    {"timestamp", "frame_index", "episode_index", "index", "task_index", "task"}
    | {"language_persistent", "language_events"}
)
_PLAIN = re.compile(r"[A-Za-z0-9_]")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_ESCAPED = re.compile(r"-([0-9a-f]+)-")


def feature_of(path: str, is_camera: bool) -> str | None:
    """Name of the feature for the key at `path` in a demo ("obs/joint_pos"); None where LeRobot can have none."""
    if path in _FIXED and not is_camera:
        return _FIXED[path]
    if path.startswith(_OBS + _OBSERVATION) and (name := path.removeprefix(_OBS)).count("/") == 0:
        return name if _NAME.fullmatch(name) and (is_camera or "image" not in name) else None
    first, *rest = path.split("/")
    prefix = ""
    if first == "obs" and rest:
        prefix, (first, *rest) = (_IMAGES if is_camera else _OBSERVATION), rest
    name = prefix + ".".join(_escaped(part, is_camera) for part in (first, *rest))
    if name in _LEROBOTS or path_of(name, is_camera) != path:
        name = prefix + ".".join((_last_escaped(first, is_camera), *(_escaped(part, is_camera) for part in rest)))
    return name if _PLAIN.match(name) and path_of(name, is_camera) == path else None


def path_of(feature: str, is_camera: bool) -> str:
    """Where a feature stands in its demo; undoes `feature_of`."""
    if feature in _BACK and not is_camera:
        return _BACK[feature]
    prefix = ""
    for known in (_IMAGES, _OBSERVATION):
        if feature.startswith(known) and (known != _IMAGES or is_camera):
            prefix, feature = _OBS, feature.removeprefix(known)
            break
    return prefix + "/".join(_unescaped(part) for part in feature.split("."))


def _escaped(part: str, is_camera: bool) -> str:
    text = "".join(c if _PLAIN.match(c) else f"-{ord(c):x}-" for c in part)
    return text if is_camera else text.replace("image", f"imag-{ord('e'):x}-")


def _last_escaped(part: str, is_camera: bool) -> str:
    return _escaped(part[:-1], is_camera) + f"-{ord(part[-1]):x}-"


def _unescaped(part: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), part)
