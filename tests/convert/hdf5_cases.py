"""Files as Isaac Lab and robomimic write them, made by hand, and how to compare files."""

import json

import h5py
import numpy as np


def isaaclab_demo(data, number, length=9, rng=None, cameras=False, success=True):
    """As HDF5DatasetFileHandler.write_episode: flat and nested keys, an initial state of one row."""
    rng = rng or np.random.default_rng(number)
    demo = data.create_group(f"demo_{number}")
    demo.attrs["num_samples"] = length
    demo.attrs["seed"] = 100 + number
    demo.attrs["success"] = np.bool_(success)

    def put(path, values):
        demo.create_dataset(path, data=values, compression="gzip", compression_opts=2)

    put("actions", rng.standard_normal((length, 7)).astype(np.float32))
    put("processed_actions", rng.standard_normal((length, 9)).astype(np.float32))
    put("obs/joint_pos", rng.standard_normal((length, 9)).astype(np.float32))
    put("obs/eef_quat", rng.standard_normal((length, 4)).astype(np.float32))
    put("obs/subtask_terms/grasp", rng.random((length, 1)) > 0.5)
    if cameras:
        put("obs/table_cam", rng.integers(0, 256, (length, 24, 32, 3), dtype=np.uint8))
    for group, rows in (("states", length), ("initial_state", 1)):
        put(f"{group}/articulation/robot/root_pose", rng.standard_normal((rows, 7)).astype(np.float32))
        put(f"{group}/articulation/robot/joint_position", rng.standard_normal((rows, 9)).astype(np.float32))
        put(f"{group}/rigid_object/cube/root_velocity", rng.standard_normal((rows, 6)).astype(np.float32))
    return demo


def isaaclab_file(path, lengths=(9, 12, 7), cameras=False, version=1):
    with h5py.File(path, "w") as file:
        if version is not None:
            file.attrs["format_version"] = version
        data = file.create_group("data")
        sim = {"dt": 0.01, "decimation": 5, "render_interval": 5, "num_envs": 4}
        data.attrs["env_args"] = json.dumps({"env_name": "Isaac-Lift-Cube", "type": 2, "sim_args": sim})
        data.attrs["total"] = sum(lengths)
        for number, length in enumerate(lengths):
            isaaclab_demo(data, number, length, cameras=cameras)
    return path


def robomimic_demo(data, number, length=8):
    rng = np.random.default_rng(number)
    demo = data.create_group(f"demo_{number}")
    demo.attrs["num_samples"] = length
    demo.attrs["model_file"] = f"<mujoco model='{number}'>" + "<body/>" * 2000 + "</mujoco>"
    demo["actions"] = rng.standard_normal((length, 7))
    demo["states"] = rng.standard_normal((length, 32))
    demo["rewards"] = (rng.random(length) > 0.8).astype(np.float64)
    demo["dones"] = (np.arange(length) == length - 1).astype(np.int64)
    for group in ("obs", "next_obs"):
        demo[f"{group}/robot0_eef_pos"] = rng.standard_normal((length, 3))
        demo[f"{group}/robot0_eef_quat"] = rng.standard_normal((length, 4))
        demo[f"{group}/object"] = rng.standard_normal((length, 10))
    return demo


def robomimic_file(path, numbers=(0, 1, 2), length=8):
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        kwargs = {"control_freq": 20, "robots": ["Panda"]}
        data.attrs["env_args"] = json.dumps({"env_name": "Lift", "type": 1, "env_kwargs": kwargs})
        data.attrs["total"] = length * len(numbers)
        for number in numbers:
            robomimic_demo(data, number, length)
        names = [f"demo_{number}".encode() for number in numbers]
        file["mask/train"] = np.array(names[:-1])
        file["mask/valid"] = np.array(names[-1:])
    return path


def arrays(demo):
    """{path: array} of everything in a demo."""
    found = {}
    demo.visititems(lambda path, node: found.update({path: node[()]}) if isinstance(node, h5py.Dataset) else None)
    return found


def differences(first, second, without=()):
    """Demos and keys that are not the same, to the bit, in two files."""
    found = []
    with h5py.File(first) as a, h5py.File(second) as b:
        if set(a["data"]) != set(b["data"]):
            return [f"{sorted(a['data'])} and {sorted(b['data'])}"]
        for name in a["data"]:
            mine, others = arrays(a["data"][name]), arrays(b["data"][name])
            for path in sorted((mine.keys() | others.keys()) - set(without)):
                x, y = mine.get(path), others.get(path)
                same = x is not None and y is not None and x.dtype == y.dtype and x.shape == y.shape
                if not same or x.tobytes() != y.tobytes():
                    found.append(f"{name}/{path}")
            own = {key: np.asarray(value).tolist() for key, value in a["data"][name].attrs.items()}
            other = {key: np.asarray(value).tolist() for key, value in b["data"][name].attrs.items()}
            found += [f"{name}: attribute {key}" for key, value in own.items() if other.get(key) != value]
    return found
