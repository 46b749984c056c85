"""Uploads and downloads: nothing is copied on the CPU; on a GPU nothing waits but for its own copy."""

import numpy as np
import pytest
import torch

from mimicpipe.pipeline.transfer import downloader, uploader

CPU = torch.device("cpu")


def test_on_the_cpu_nothing_is_copied() -> None:
    array = np.arange(6).reshape(2, 3)
    tensor = uploader(CPU)(array)
    assert tensor.dtype == torch.int64
    array[1, 2] = 7
    assert int(tensor[1, 2]) == 7
    assert downloader(CPU)(tensor) is tensor


@pytest.mark.parametrize("array", [np.zeros((0, 4), np.float32), np.ones(3, np.float64), np.array([True, False])])
def test_values_and_dtypes_stay(array) -> None:
    there = uploader(CPU)(array)
    assert there.shape == array.shape
    np.testing.assert_array_equal(downloader(CPU)(there).numpy(), array)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_on_a_gpu_both_ways_are_exact_and_allowed_where_synchronizing_is_not() -> None:
    device = torch.device("cuda", 0)
    upload, download = uploader(device), downloader(device)
    arrays = [np.random.default_rng(k).normal(size=(100 + k, 7)) for k in range(20)]
    torch.cuda.set_sync_debug_mode("error")
    try:
        there = [upload(array) for array in arrays]
        back = [download(tensor * 2.0) for tensor in there]
        part = download(there[3][5:50, 2:4])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for array, host in zip(arrays, back, strict=True):
        assert host.is_pinned()
        np.testing.assert_array_equal(host.numpy(), 2.0 * array)
    np.testing.assert_array_equal(part.numpy(), arrays[3][5:50, 2:4])
