import pytest

from mimicpipe.recorders.none import NullRecorder


def test_it_counts_and_reports_each_episode_as_durable_at_once(make_episode):
    recorder = NullRecorder()
    told = []
    recorder.on_durable = lambda episode, index: told.append((episode.outcome.attempt, index))
    episodes = [make_episode(7, length=3), make_episode(8, length=0), make_episode(9, length=4)]
    for episode in episodes:
        recorder.commit(episode)
    assert recorder.try_commit(make_episode(10, length=1)) is True
    assert told == [(7, 0), (9, 1), (10, 2)]
    assert (recorder.episodes, recorder.frames) == (3, 8)
    assert recorder.nbytes == episodes[0].nbytes + episodes[2].nbytes + make_episode(10, length=1).nbytes
    assert recorder.stats() == {}
    assert recorder.finalize() is None
    assert recorder.finalize() is None
    with pytest.raises(RuntimeError, match="already finalized"):
        recorder.commit(episodes[0])
