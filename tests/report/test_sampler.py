import asyncio
import io
import itertools
import json
from types import SimpleNamespace

from mimicpipe.report import sampler as module
from mimicpipe.report.console import ProgressView
from mimicpipe.report.sampler import Sampler
from mimicpipe.trackers.jsonl import JsonlTracker


def test_snapshots_are_taken_on_the_loop_and_logged_with_their_axes(tmp_path, monkeypatch):
    tracker, stream = JsonlTracker(tmp_path / "metrics.jsonl"), io.StringIO()
    taken: list[int] = []
    monkeypatch.setattr(module, "DRAW_EVERY_S", 0.001)
    monkeypatch.setattr(module, "LOG_EVERY_S", 4.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: float(len(taken))))  # a second each

    def take() -> dict[str, float]:
        asyncio.get_running_loop()
        taken.append(len(taken))
        return {"wall_s": 0.5 * len(taken), "env_steps": 10.0 * len(taken), "generation/successes": 1.0}

    async def main() -> None:
        sampler = Sampler(take, ProgressView("pick", 2, stream=stream), tracker)
        task = asyncio.create_task(sampler.run())
        while len(taken) < 12:
            await asyncio.sleep(0.005)
        task.cancel()
        last = sampler.last()
        assert last["env_steps"] == 10 * len(taken)

    asyncio.run(main())
    tracker.close({}, 0)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    logged = [row["env_steps"] for row in rows[:-1]]
    assert logged[:2] == [40, 80]
    assert all(
        later - earlier >= 40 for earlier, later in itertools.pairwise(logged)
    )  # more, where the machine is busy
    assert len(rows) >= 3
    assert rows[-1]["env_steps"] == 10 * len(taken)
    assert rows[-1]["wall_s"] == 0.5 * len(taken)
    assert all(row["generation/successes"] == 1.0 for row in rows)
    assert stream.getvalue().count("\n") == 1
