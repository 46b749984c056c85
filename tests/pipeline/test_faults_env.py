"""Simulators that fail: one that raises ends the run with its own traceback, a slot that is not finite fails alone."""

import threading

import pytest
import torch
from fault_runs import BOTH_ENVS, Run, assert_exact, assert_others_are_unchanged, reference
from generators import MemorySink, PlanGenerator, StepGenerator
from point_env import PointEnv

NAN = float("nan")


class SimulatorError(OSError):
    pass


def breaking(env_class, method: str, after: int):
    """An env whose method raises at its call number `after`."""

    class Breaks(env_class):
        calls = 0

    def broken(self, *args, **kwargs):
        self.calls += 1
        if self.calls > after:
            raise SimulatorError(f"{method} is lost")
        return getattr(env_class, method)(self, *args, **kwargs)

    setattr(Breaks, method, broken)
    return Breaks


@BOTH_ENVS
@pytest.mark.parametrize("after", [0, 3])
@pytest.mark.parametrize(
    "method", ["reset", "start_step", "observe", "success", "finite", "get_state", "target_eef_pose_to_action"]
)
def test_one_that_raises_ends_the_run_and_what_was_committed_stays(env_class, method, after):
    env = breaking(env_class, method, after)(3)
    run = Run(env, PlanGenerator(env)).go()
    assert isinstance(run.error, SimulatorError)
    assert run.seconds < 10
    frames, traceback = [], run.error.__traceback__
    while traceback is not None:
        frames.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    assert frames[-1] == "broken", "its own traceback"
    assert [o.attempt for o in run.outcomes] == list(range(len(run.outcomes)))
    assert len(run.sink.episodes) == sum(o.success for o in run.outcomes)
    assert_others_are_unchanged(run, set(), reference())


@BOTH_ENVS
def test_one_that_fails_as_a_step_ends_ends_the_run(env_class):
    class Breaks(env_class):
        def start_step(self, actions, env_ids=None):
            end = super().start_step(actions, env_ids)

            def broken():
                end()
                if self.steps > 40:
                    raise SimulatorError("the step is lost")

            return broken

    env = Breaks(3)
    run = Run(env, PlanGenerator(env)).go()
    assert isinstance(run.error, SimulatorError)
    assert [row[0] for row in run.rows] == [0, 1, 2]
    assert_others_are_unchanged(run, set(), reference())


def diverging(env_class, attempt: int, at_step: int, spoil):
    """An env in which the slot of one attempt, known by its goal, is spoilt after so many of its steps."""
    goal = reference().episodes[attempt].columns["observation.state"][0, 3].item()

    class Diverges(env_class):
        def start_step(self, actions, env_ids=None):
            end = super().start_step(actions, env_ids)

            def ended():
                end()
                spoil(self, (self.state[:, 3] == goal) & (self.state[:, 6] == at_step))

            return ended

    return Diverges


def lose_the_eef(env, slots):
    env.state[slots, 0] = NAN


@BOTH_ENVS
@pytest.mark.parametrize("make_generator", [PlanGenerator, StepGenerator])
@pytest.mark.parametrize("at_step", [1, 10, 29])
@pytest.mark.parametrize("num_envs", [1, 5])
def test_a_slot_that_is_not_finite_fails_alone_and_is_used_again(env_class, make_generator, at_step, num_envs):
    env = diverging(env_class, 1, at_step, lose_the_eef)(num_envs)
    run = Run(env, make_generator(env)).go()
    assert_exact(run)
    assert run.rows[1][1:3] == (False, "nonfinite")
    slot = run.outcomes[1].slot
    assert any(o.slot == slot and o.success for o in run.outcomes[2:]), "reset, and used again"
    assert torch.isfinite(env.state[slot]).all()
    plain = PointEnv(1)
    expected = Run(plain, make_generator(plain), num_demos=10**6, max_attempts=16).go()
    assert_others_are_unchanged(run, {1}, expected)


@BOTH_ENVS
@pytest.mark.parametrize("recorded", [True, False])  # failed attempts, too
def test_a_frame_that_is_not_finite_is_never_recorded(env_class, recorded, caplog):
    """A sensor that fails for one step: the simulator's state is finite again when the plan ends."""

    class Flickers(env_class):
        goal = reference().episodes[1].columns["observation.state"][0, 3].item()

        def observe(self, env_ids=None):
            seen = super().observe(env_ids)
            state = seen["observation.state"] = seen["observation.state"].clone()
            state[(state[:, 3] == self.goal) & (state[:, 6] == 7), 6] = NAN
            return seen

    env = Flickers(4)
    run = Run(env, PlanGenerator(env), failed_sink=MemorySink() if recorded else None).go()
    assert_exact(run)
    assert run.rows[1][1:3] == (False, "nonfinite")
    assert all(torch.isfinite(e.columns["observation.state"]).all() for e in run.sink.episodes)
    assert all(e.finite for e in run.sink.episodes)
    slot = run.outcomes[1].slot
    assert (
        f"attempt 1 in slot {slot} is not recorded: feature 'observation.state': NaN or infinity in frame 7"
        in caplog.text
    )


@BOTH_ENVS
def test_all_slots_not_finite_at_once(env_class):
    class AllLost(env_class):
        def start_step(self, actions, env_ids=None):
            end = super().start_step(actions, env_ids)

            def ended():
                end()
                if 5 <= self.steps < 9:
                    self.state[:, 1] = NAN

            return ended

    env = AllLost(4)
    run = Run(env, PlanGenerator(env)).go()
    assert_exact(run)
    assert [row[2] for row in run.rows[:4]] == ["nonfinite"] * 4
    assert_others_are_unchanged(run, {0, 1, 2, 3}, reference())


@BOTH_ENVS
def test_a_simulator_that_hangs_is_named(env_class, monkeypatch):
    monkeypatch.setattr("mimicpipe.pipeline.watchdog._GRACE_S", 0.2)
    answers = threading.Event()

    class Hangs(env_class):
        def success(self):
            if self.steps == 20:
                answers.wait(30)
            return super().success()

    env, stuck = Hangs(3), []
    run = Run(env, PlanGenerator(env), stall_timeout_s=0.8)

    def on_stuck(error):
        stuck.append(str(error))
        answers.set()  # in a real run the process ends here

    run.state.on_stuck = on_stuck
    run.go()
    assert len(stuck) == 1
    assert "the event loop is blocked: task " in stuck[0]
    assert "at batch step 20" in stuck[0] or "at batch step 21" in stuck[0]
    assert str(run.error) == stuck[0]
