"""Mean and standard deviation of an episode's pixels as LeRobot 0.6 has them: summed one by one, in float32.

Such a sum stands still where a summand is smaller than half of its last digit: of 100 frames of 128 x 128 pixels, mean
and deviation are off by 1e-3 of the range. The order of the sum is fixed, and so is its error; it is made here as well,
so that a dataset says what LeRobot's own would.
"""

import numpy as np

from mimicpipe.compiled import compiled


@compiled
def _sums(pixels: np.ndarray) -> np.ndarray:
    """(2, 3) float32: the sums of pixels (N, 3) uint8 and of their squares, in order."""
    sums = np.zeros((2, 3), np.float32)
    red, green, blue = sums[0]
    red2, green2, blue2 = sums[1]
    for i in range(len(pixels)):
        r, g, b = np.float32(pixels[i, 0]), np.float32(pixels[i, 1]), np.float32(pixels[i, 2])
        red += r
        green += g
        blue += b
        red2 += r * r
        green2 += g * g
        blue2 += b * b
    sums[0, 0], sums[0, 1], sums[0, 2] = red, green, blue
    sums[1, 0], sums[1, 1], sums[1, 2] = red2, green2, blue2
    return sums


def mean_and_std(frames: np.ndarray) -> np.ndarray:
    """(2, 3) float32 in [0, 1]: mean and standard deviation of each channel of frames (S, H, W, 3) uint8."""
    pixels = np.ascontiguousarray(frames).reshape(-1, 3)
    if len(frames) == 1:  # LeRobot's array then has a channel's pixels side by side, which numpy sums in pairs
        channels = np.ascontiguousarray(pixels.T).astype(np.float32)
        mean, squares = channels.mean(axis=1), (channels**2).mean(axis=1)
    else:
        mean, squares = _sums(pixels) / np.float32(len(pixels))
    std = np.sqrt(np.maximum(np.float32(0), squares - mean**2))
    return np.stack([mean, std]) / np.float32(255)
