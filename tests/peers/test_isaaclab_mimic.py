"""What mimicpipe generates, against Isaac Lab Mimic 3.0.0 on the same env, demos and scenes.

Left out: SkillGen's planned segments; two arms and their constraints are in test_isaaclab_constraints.py. Random draws
come from other generators, so everything here is set up to need none, or is compared before the draw.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from peer_cases import CASES, NEAREST_ROBOT, PER_SUBTASK, TASKS, random_demo, subtasks, written

from mimicpipe import poses, rng
from mimicpipe.datagen.generator import DataGenerator
from mimicpipe.datagen.pool import DataGenInfoPool
from mimicpipe.datagen.selection import STRATEGIES, SelectionContext, pose_distance
from mimicpipe.datagen.subtask import DataGenConfig
from mimicpipe.envs.kinematic import KinematicEnv
from mimicpipe.errors import SourceDemoError
from mimicpipe.pools.scripted import load_scripted

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the peer's imports use what torch has deprecated
    reason = "the extra isaaclab is not installed: make isaaclab"
    pytest.importorskip("isaaclab_mimic.datagen.generation", reason=reason)

from experiments.throughput import peer_compare, peer_loop
from experiments.throughput.peer_compare import Setting

pytestmark = [pytest.mark.isaaclab, pytest.mark.timeout(600)]

TOLERANCE = 1e-5
NUM_DEMOS = 5


@pytest.fixture(autouse=True)
def _hydra_1_3():
    import hydra.version

    hydra.version.setbase("1.3")


@pytest.fixture(scope="module")
def scripted(tmp_path_factory) -> dict[str, Path]:
    """{task: file of demos by the scripted expert}."""
    folder = tmp_path_factory.mktemp("scripted")
    files = {}
    for name, task in TASKS.items():
        demos = load_scripted(KinematicEnv(task, NUM_DEMOS, control="ik_abs"), NUM_DEMOS, seed=3)
        files[name] = written(folder / f"{name}.hdf5", demos)
    return files


@pytest.fixture(scope="module")
def tumbling(tmp_path_factory) -> Path:
    """Demos of task stack in which everything moves and turns about every axis: no success, but any geometry."""
    return written(tmp_path_factory.mktemp("tumbling") / "stack.hdf5", [random_demo(i) for i in range(NUM_DEMOS)])


def setting_of(case: str, demos: Path, task: str) -> Setting:
    first, second, both, datagen, lag = CASES[case]
    return Setting(TASKS[task], subtasks(task, first, second, **both), DataGenConfig(**datagen), demos, lag=lag)


WITH_SUCCESS = ("plain", "term offset", "from the eef, which lags", "per subtask, nearest by the robot")
"""Cases run with demos that succeed, too."""


@pytest.mark.parametrize(
    ("source", "case"),
    [("tumbling", case) for case in CASES] + [(task, case) for task in TASKS for case in WITH_SUCCESS],
)
def test_both_execute_the_same(case, source, scripted, tumbling):
    task = "pick" if source == "pick" else "stack"
    setting = setting_of(case, tumbling if source == "tumbling" else scripted[task], task)
    ours, peers = peer_compare.by_mimicpipe(setting), peer_compare.by_peer(setting)
    found = peer_compare.compare(ours, peers)
    assert found.pose < TOLERANCE
    assert found.gripper < TOLERANCE
    # Nothing but interpolation is left out of the comparison.
    steps = sum(config.num_interpolation_steps for config in setting.subtasks["panda"])
    assert found.small_turns <= setting.attempts * steps
    if source == "tumbling":
        assert found.small_turns == 0


def test_every_case_but_one_changes_what_is_executed(tumbling):
    """So an option that does nothing in either would be seen. A lag changes no target, unless one starts at the eef."""
    plain = peer_compare.by_mimicpipe(setting_of("plain", tumbling, "stack"))
    for case in CASES:
        plan = peer_compare.by_mimicpipe(setting_of(case, tumbling, "stack"))
        same_steps = all(plan[seed].pose.shape == plain[seed].pose.shape for seed in plan)
        same = same_steps and peer_compare.compare(plan, plain).pose < 1e-3
        assert same == (case in ("plain", "from the last target, the eef lags")), case


def test_a_small_turn_is_made_at_once_by_the_peer_and_interpolated_by_us(tumbling):
    """The peer's `interpolate_rotations` jumps when the turn is below 0.05 rad; positions are interpolated by both."""
    del tumbling
    interpolate = peer_loop.peer_module("isaaclab.utils.math").interpolate_poses
    for turn, jumps in ((0.04, True), (0.06, False)):
        start = torch.eye(4)
        goal = poses.make_pose(
            torch.tensor([0.1, 0.2, 0.3]), poses.matrix_from_axis_angle(torch.tensor([0.0, turn, 0.0]))
        )
        theirs, _ = interpolate(start, goal, num_steps=4)
        ours = poses.interpolate(start.expand(4, 4, 4), goal.expand(4, 4, 4), torch.arange(1, 5) / 5)
        torch.testing.assert_close(ours[:, :3, 3], theirs[1:5, :3, 3])
        if jumps:
            torch.testing.assert_close(theirs[1:5, :3, :3], goal[:3, :3].expand(4, 3, 3))
            assert (ours[0, :3, :3] - goal[:3, :3]).abs().max() > 0.02
        else:
            torch.testing.assert_close(ours, theirs[1:5], rtol=0, atol=TOLERANCE)


# ---- selection


@pytest.fixture
def ranking(monkeypatch) -> Callable[..., tuple[np.ndarray, list[int]]]:
    """(scores, demos from the nearest on) of a strategy of the peer."""
    module = peer_loop.peer_module("isaaclab_mimic.datagen.selection_strategy")

    def rank(name: str, *args: Any, **kwargs: Any) -> tuple[np.ndarray, list[int]]:
        scores: list[np.ndarray] = []
        argsort, count = torch.argsort, len(args[2])

        def keep(values: torch.Tensor) -> torch.Tensor:
            scores.append(values.numpy())
            return argsort(values)

        strategy = module.make_selection_strategy(name)
        order = []
        with monkeypatch.context() as patch:
            patch.setattr(torch, "argsort", keep)
            for place in range(count):
                patch.setattr(torch, "randint", lambda *_, place=place: torch.tensor([place]))
                order.append(int(strategy.select_source_demo(*args, nn_k=count, **kwargs)))
        return scores[0], order

    return rank


@pytest.mark.parametrize(
    "weights", [{}, {"pos_weight": 5.0, "rot_weight": 0.3}, {"pos_weight": 1.0, "rot_weight": 0.0}]
)
@pytest.mark.parametrize("name", ["nearest_neighbor_object", "nearest_neighbor_robot_distance"])
def test_scores_and_order_of_the_strategies(name, weights, ranking):
    infos = [random_demo(number).info for number in range(8)]
    segments = [
        SimpleNamespace(eef_pose=info.eef_pose["panda"][5:], object_poses={"cubeA": info.object_poses["cubeA"][5:]})
        for info in infos
    ]
    for seed in range(20, 30):
        now = random_demo(seed).info
        eef, thing = now.eef_pose["panda"][0], now.object_poses["cubeA"][0]
        scores, order = ranking(name, eef, thing, segments, **weights)
        context = context_of(eef, thing, segments)
        source, here = (
            (context.source_object_pose(), context.object_pose())
            if name == "nearest_neighbor_object"
            else (context.source_eef_in_object(), context.eef_in_object())
        )
        ours = pose_distance(source, here[:, None], *({"pos_weight": 1.0, "rot_weight": 1.0} | weights).values())
        np.testing.assert_allclose(ours[0], scores, rtol=0, atol=TOLERANCE)
        assert np.diff(np.sort(scores)).min() > 2 * TOLERANCE, "no tie, so the order is one"
        for place, demo in enumerate(order):
            context.uniforms = np.asarray([(place + 0.5) / len(order)])
            assert STRATEGIES[name](context, nn_k=len(order), **weights).tolist() == [demo]
        for nn_k in (1, 3, 100):
            chosen = set()
            for draw in np.linspace(0, 1, 40, endpoint=False):
                context.uniforms = np.asarray([draw])
                chosen |= set(STRATEGIES[name](context, nn_k=nn_k, **weights).tolist())
            assert chosen == set(order[:nn_k])


def context_of(eef: torch.Tensor, thing: torch.Tensor, segments: list[Any]) -> SelectionContext:
    source_eef = torch.stack([segment.eef_pose[0] for segment in segments])
    source_object = torch.stack([segment.object_poses["cubeA"][0] for segment in segments])
    relative = poses.compose(poses.invert(source_object), source_eef)
    return SelectionContext(
        num_demos=np.asarray([len(segments)]),
        uniforms=np.zeros(1),
        eef_pose=lambda: eef[None].numpy(),
        object_pose=lambda: thing[None].numpy(),
        eef_in_object=lambda: poses.compose(poses.invert(thing[None]), eef[None]).numpy(),
        source_eef_pose=lambda: source_eef[None].numpy(),
        source_object_pose=lambda: source_object[None].numpy(),
        source_eef_in_object=lambda: relative[None].numpy(),
    )


# ---- action noise


class NoiseTape(peer_compare.TapedEnv):
    """Remembers which steps have action noise, by attempt."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.noise: dict[int, list[torch.Tensor]] = {}
        super().__init__(*args, **kwargs)

    def target_eef_pose_to_action(self, target_eef_pose, gripper_action, action_noise=None, env_ids=None):
        noise = {} if action_noise is None else action_noise
        for row, slot in enumerate(range(self.num_envs) if env_ids is None else env_ids.tolist()):
            drawn = noise["panda"][row].clone() if "panda" in noise else torch.zeros(self.noise_dim)
            self.noise.setdefault(self._seed_of[slot], []).append(drawn)
        return super().target_eef_pose_to_action(target_eef_pose, gripper_action, action_noise, env_ids)


@pytest.mark.parametrize("during", [False, True])
@pytest.mark.parametrize(("between", "fixed"), [(5, 0), (4, 3), (0, 2), (0, 0)])
def test_noise_is_on_the_same_steps_with_the_same_scale(during, between, fixed, tumbling):
    amplitudes = (0.03, 0.2)
    both = {
        "num_interpolation_steps": between, "num_fixed_steps": fixed, "apply_noise_during_interpolation": during,
    }  # fmt: skip
    options = [{"action_noise": amplitude} for amplitude in amplitudes]
    setting = Setting(TASKS["stack"], subtasks("stack", *options, **both), DataGenConfig(), tumbling, attempts=2)

    ours_env = NoiseTape(setting.task, setting.attempts)
    peer_compare.run_pipeline(peer_compare.parts_of(setting, ours_env))
    peers_env = NoiseTape(setting.task, setting.attempts)
    # The peer's amplitudes, seen through a noise of one standard deviation in every number.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "randn", torch.ones)
        adapter = peer_loop.adapter_for(peers_env, setting.subtasks, setting.datagen, setting.attempts, setting.seed)
        peer_loop.run_peer(adapter, tumbling)
    for seed in setting.seeds():
        amplitude = torch.stack(peers_env.noise[seed])[:, 0]
        drawn = torch.stack(ours_env.noise[seed])
        assert drawn.shape[0] == amplitude.shape[0]
        assert set(amplitude.tolist()) <= {0.0, *torch.tensor(amplitudes).tolist()}
        assert ((drawn != 0).all(dim=1) == (amplitude != 0)).all()
        for each in amplitudes:
            on = torch.isclose(amplitude, torch.tensor(each))
            scale = drawn[on].std()
            assert 0.75 * each < scale < 1.25 * each, f"{int(on.sum())} steps, standard deviation {scale}"
        quiet = 0 if during else 2 * (between + fixed)
        assert int((amplitude == 0).sum()) == quiet


# ---- where the two differ, and why


def pools(setting: Setting) -> tuple[DataGenInfoPool, Any]:
    """The same demos in mimicpipe's pool and in the peer's."""
    env = peer_compare.TapedEnv(setting.task, 1)
    ours = peer_compare.parts_of(setting, env).pool
    adapter = peer_loop.adapter_for(env, setting.subtasks, setting.datagen, 1, 0)
    module = peer_loop.peer_module("isaaclab_mimic.datagen.datagen_info_pool")
    peers = module.DataGenInfoPool(adapter, adapter.cfg, adapter.device)
    peers.load_from_dataset_file(str(setting.demos))
    return ours, peers


def peer_generator(setting: Setting, pool: Any) -> Any:
    return peer_loop.peer_module("isaaclab_mimic.datagen.data_generator").DataGenerator(pool.env, pool)


@pytest.mark.parametrize("source", ["pick", "stack", "tumbling"])
def test_the_pools_hold_the_same_segments(source, scripted, tumbling):
    task = "pick" if source == "pick" else "stack"
    ours, peers = pools(setting_of("plain", tumbling if source == "tumbling" else scripted[task], task))
    assert ours.num_datagen_infos == peers.num_datagen_infos == NUM_DEMOS
    np.testing.assert_array_equal(ours.subtask_boundaries["panda"], np.asarray(peers.subtask_boundaries["panda"]))
    for own, theirs in zip(ours.datagen_infos, peers.datagen_infos, strict=True):
        assert torch.equal(own.eef_pose["panda"], theirs.eef_pose["panda"])
        assert torch.equal(own.target_eef_pose["panda"], theirs.target_eef_pose["panda"])
        assert torch.equal(own.gripper_action["panda"], theirs.gripper_action["panda"])
        for name in ours.object_names:
            assert torch.equal(own.object_poses[name], theirs.object_poses[name])


def test_the_first_start_offset_is_drawn_by_us_and_never_by_the_peer(tumbling):
    """The peer draws from [low, low + 1): `randomize_subtask_boundaries` reads element 0 of the range twice."""
    both = {"first_subtask_start_offset_range": (1, 6), "subtask_term_offset_range": (-2, 5)}
    setting = Setting(TASKS["stack"], subtasks("stack", both, {}), DataGenConfig(), tumbling)
    ours, peers = pools(setting)
    generator = DataGenerator(ours.env, ours)
    own = np.stack([generator.randomize_subtask_boundaries(s)["panda"] for s in rng.attempt_seeds(0, np.arange(60))])
    np.random.seed(0)
    other = peer_generator(setting, peers)
    theirs = np.stack([other.randomize_subtask_boundaries()["panda"] for _ in range(60)])
    assert set(theirs[:, :, 0, 0].ravel()) == {1}
    assert set(own[:, :, 0, 0].ravel()) == set(range(1, 7))
    base = np.asarray(peers.subtask_boundaries["panda"])
    for drawn in (own, theirs):  # the ends are the same in both: any offset of the range, shared by the next start
        assert set((drawn[:, :, 0, 1] - base[:, 0, 1]).ravel()) == set(range(-2, 6))
        np.testing.assert_array_equal(drawn[:, :, 1, 0], drawn[:, :, 0, 1])
        np.testing.assert_array_equal(drawn[:, :, 1, 1], np.broadcast_to(base[:, 1, 1], drawn.shape[:2]))


def test_per_subtask_selection_needs_no_second_flag(tumbling):
    """`generation_select_src_per_subtask` without `..._per_arm` chooses once in the peer: after the first subtask
    `selected_src_demo_inds` is set, which switches choosing off. In MimicGen, and here, it chooses for each subtask."""
    alone = {"generation_select_src_per_subtask": True}
    choosing = subtasks("stack", {}, NEAREST_ROBOT)
    setting = Setting(TASKS["stack"], choosing, DataGenConfig(**alone), tumbling, attempts=4)
    ours = peer_compare.by_mimicpipe(setting)
    both = replace(setting, datagen=DataGenConfig(**PER_SUBTASK))
    once = replace(setting, datagen=DataGenConfig())
    assert peer_compare.compare(ours, peer_compare.by_peer(both)).pose < TOLERANCE
    peers = peer_compare.by_peer(setting)
    assert peer_compare.compare(peer_compare.by_mimicpipe(once), peers).pose < TOLERANCE
    assert any(
        ours[s].pose.shape != peers[s].pose.shape or not torch.allclose(ours[s].pose, peers[s].pose, atol=1e-3)
        for s in ours
    ), "some attempt would choose another demo for its second subtask"


def test_a_falling_signal_ends_a_subtask_in_the_peer_only(tmp_path):
    """The peer takes the first change of a signal, up or down; mimicpipe wants a rise, and refuses a demo without."""
    demo = random_demo(0)
    demo.info.subtask_term_signals["grasp"] = ~demo.info.subtask_term_signals["grasp"]
    fall = int((~demo.info.subtask_term_signals["grasp"]).nonzero()[0])
    file = written(tmp_path / "good.hdf5", [random_demo(0)])
    setting = setting_of("plain", file, "stack")
    ours, peers = pools(setting)
    with pytest.raises(SourceDemoError, match="true from the first step, so it never goes 0→1"):
        ours.add_demos([demo])
    episode = SimpleNamespace(
        data={
            "actions": demo.actions,
            "obs": {
                "datagen_info": {
                    "eef_pose": demo.info.eef_pose,
                    "object_pose": demo.info.object_poses,
                    "target_eef_pose": demo.info.target_eef_pose,
                    "subtask_term_signals": demo.info.subtask_term_signals,
                }
            },
        }
    )
    peers._add_episode(episode)
    assert peers.subtask_boundaries["panda"][-1][0] == (0, fall + 1)


def test_a_signal_on_the_last_subtask_is_used_by_us_only(tmp_path):
    """The peer's last subtask runs to the demo's end whatever it names; here a named signal ends it."""
    demo = random_demo(0)
    late = torch.arange(demo.info.length) >= 33
    demo.info.subtask_term_signals["placed"] = late
    file = written(tmp_path / "two_signals.hdf5", [demo])
    named = subtasks("stack", {}, {"subtask_term_signal": "placed"})
    ours, peers = pools(Setting(TASKS["stack"], named, DataGenConfig(), file))
    assert ours.subtask_boundaries["panda"][0, 1, 1] == 34
    assert peers.subtask_boundaries["panda"][0][1][1] == demo.info.length
