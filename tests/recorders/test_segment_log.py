"""The log survives a cut at any byte, and damage at any byte, with everything before it."""

import os

import pytest
from full_disk import largest_file
from hypothesis import given, settings
from hypothesis import strategies as st

from mimicpipe.errors import RecorderError
from mimicpipe.recorders.segment_log import SegmentLog, scan

HEADER = {"format": 1, "name": "é"}


def write(path, payloads, header=HEADER):
    log = SegmentLog(path, header)
    for number, payload in enumerate(payloads):
        log.append([({"number": number}, [payload[:2], payload[2:]])])
    log.close()


def numbers(path):
    header, records, end = scan(path)
    found = []
    for record in records:
        with path.open("rb") as file:
            file.seek(record.offset)
            found.append((record.meta["number"], file.read(record.nbytes)))
    return header, found, end


@settings(deadline=None, max_examples=60)
@given(payloads=st.lists(st.binary(max_size=40), max_size=4), data=st.data())
def test_a_cut_or_a_changed_byte_costs_what_is_behind_it_and_nothing_else(tmp_path_factory, payloads, data):
    path = tmp_path_factory.mktemp("log") / "a.log"
    ends = []
    log = SegmentLog(path, HEADER)
    ends.append(path.stat().st_size)
    for number, payload in enumerate(payloads):
        log.append([({"number": number}, [payload])])
        ends.append(path.stat().st_size)
    log.close()
    assert numbers(path) == (HEADER, list(enumerate(payloads)), ends[-1])

    at = data.draw(st.integers(0, ends[-1] - 1))
    if data.draw(st.booleans()):
        os.truncate(path, at)
    else:
        content = bytearray(path.read_bytes())
        content[at] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)
    whole = sum(end <= at for end in ends)
    header, found, end = numbers(path)
    assert header == (HEADER if whole else None)
    assert found == list(enumerate(payloads))[: max(0, whole - 1)]
    assert end == ([0, *ends])[whole]

    log = SegmentLog(path, HEADER)  # goes on behind what is whole
    log.append([({"number": 99}, [b"new"])])
    log.close()
    assert numbers(path)[1] == [*found, (99, b"new")]


def test_many_records_are_one_append(tmp_path):
    log = SegmentLog(tmp_path / "a.log", HEADER)
    log.append([({"number": n}, [bytes([n % 256]) * n, b"", b"x"]) for n in range(700)])
    log.close()
    assert numbers(tmp_path / "a.log")[1] == [(n, bytes([n % 256]) * n + b"x") for n in range(700)]


def test_another_header_is_refused(tmp_path):
    write(tmp_path / "a.log", [b"one"])
    with pytest.raises(RecorderError, match=r"a\.log: was written with other features or settings"):
        SegmentLog(tmp_path / "a.log", {"format": 2})


def test_a_full_disk_leaves_what_was_there_and_names_the_file(tmp_path):
    path = tmp_path / "a.log"
    log = SegmentLog(path, HEADER)
    log.append([({"number": 0}, [b"good"])])
    with largest_file(3000), pytest.raises(OSError, match=r"File too large: .*a\.log"):
        log.append([({"number": 1}, [b"small"]), ({"number": 2}, [bytes(5000)])])
    assert numbers(path)[1] == [(0, b"good")]
    log.append([({"number": 3}, [b"room again"])])
    log.close()
    assert numbers(path)[1] == [(0, b"good"), (3, b"room again")]
