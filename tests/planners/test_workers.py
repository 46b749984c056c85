"""Processes that plan: the answers are those of the search, whichever process gives them, and none is left behind."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from planning_cases import SETTINGS, above, env, request, scene, scenes_of

from mimicpipe.pipeline.protocol import PlanFailedError
from mimicpipe.planners.joint_motion import Search
from mimicpipe.planners.rrt import RrtPlanner
from mimicpipe.planners.workers import WorkerLostError, Workers

# Processes that start take seconds each on a busy machine.
pytestmark = pytest.mark.timeout(180)
KEYS = tuple(f.name for f in fields(SETTINGS) if f.name != "fps")


@contextmanager
def workers(count: int = 1, timeout_s: float = 50.0, settings=SETTINGS):
    made = Workers(count, (scenes_of(env()), settings), timeout_s)
    try:
        yield made
    finally:
        made.close()


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def an_order(seed: int = 1):
    scene(seed)
    return request(above("cubeA", 0.09), seed=seed)


def out_of_reach():
    scene(0)
    goal = above("cubeA", 0.1)
    goal[0, 3] = 1.5
    return request(goal)


ENDLESS = replace(SETTINGS, goal_tries=100_000)
"""For a goal that is out of reach: a posture is looked for for minutes."""


def test_processes_answer_what_the_search_finds_or_why_not_and_end_when_they_are_closed():
    orders = [an_order(seed) for seed in (1, 3, 5)]
    expected = [Search(scenes_of(env()), order, SETTINGS).run().targets for order in orders]
    planner = RrtPlanner(env(), workers=1, **{name: getattr(SETTINGS, name) for name in KEYS})

    async def plan_all():
        ways = await asyncio.gather(*(planner.plan(order) for order in orders))
        with pytest.raises(PlanFailedError, match="the goal is out of reach"):
            await planner.plan(out_of_reach())
        return ways

    try:
        ways = asyncio.run(plan_all())
        (pid,) = planner.workers.pids
        assert lives(pid)
    finally:
        planner.close()
    assert all(np.array_equal(way, wanted) for way, wanted in zip(ways, expected, strict=True))
    assert not lives(pid)
    planner.close()


def test_a_process_that_dies_is_named_and_replaced_and_asked_again(caplog):
    order = an_order()
    with workers() as made, caplog.at_level(logging.WARNING, logger="mimicpipe"):
        first = asyncio.run(made.ask(order))
        (pid,) = made.pids
        os.kill(pid, signal.SIGKILL)
        second = asyncio.run(made.ask(order))
        assert made.pids != [pid]
    assert np.array_equal(first[1], second[1])
    assert f"planner process 0 (pid {pid}) was killed by SIGKILL" in caplog.text


def test_the_second_death_over_a_request_fails_it_with_the_name_of_the_process():
    class Unpicklable:
        """What no process can make sense of: it exits when it reads it."""

        def __reduce__(self):
            return os._exit, (3,)

    with (
        workers() as made,
        pytest.raises(WorkerLostError, match=r"planner process 0 \(pid \d+\) was ended with exit code 3"),
    ):
        asyncio.run(made.ask(Unpicklable()))  # type: ignore[arg-type]


def test_closing_while_a_process_plans_ends_it_at_once():
    async def ask_and_close(made) -> None:
        asked = asyncio.create_task(made.ask(out_of_reach()))
        while not made.pids:
            await asyncio.sleep(0.01)
        pids = made.pids
        await asyncio.to_thread(made.close)
        with pytest.raises((WorkerLostError, asyncio.CancelledError)):
            await asked
        assert not any(lives(pid) for pid in pids)

    with workers(settings=ENDLESS) as made:
        asyncio.run(ask_and_close(made))


def test_no_process_outlives_a_run_that_is_killed(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        textwrap.dedent(
            """
            import asyncio, sys, time
            from planning_cases import SETTINGS, above, env, request, scene, scenes_of
            from mimicpipe.planners.workers import Workers
            scene(1)
            made = Workers(1, (scenes_of(env()), SETTINGS), 50.0)
            asyncio.run(made.ask(request(above("cubeA", 0.09))))
            print(*made.pids, flush=True)
            time.sleep(60)
            """
        )
    )
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert process.stdout is not None
    with process, process.stdout:
        pid = int(process.stdout.readline())
        assert lives(pid)
        process.kill()
    while lives(pid):  # the test's own limit is that of the wait
        time.sleep(0.05)


def test_the_limit_in_seconds_is_a_failed_plan_that_is_told_from_others(caplog):
    planner = RrtPlanner(env(), workers=1, goal_tries=ENDLESS.goal_tries, timeout_s=0.5)
    try:
        with pytest.raises(PlanFailedError, match=r"longer than planner.timeout_s=0.5; .* not reproducible"):
            asyncio.run(planner.plan(out_of_reach()))
        assert planner.workers.pids == []
    finally:
        planner.close()
    assert "not reproducible" in caplog.text
