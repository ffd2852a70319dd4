"""The loops of calibration, compiled by Numba on first import and kept on disk; they run without Python's lock.

Importing this file costs about half a second (a second more when nothing is on disk yet): import it inside functions.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

BINS = 2048
LEVELS = 128
NON_FINITE = 1
_COPIES = 4
_CHUNK = 4096
_STRIDE = BINS + 16
_SIGN_OFF = np.int32(0x7FFFFFFF)
_INFINITY_BITS = np.int32(0x7F800000)
_LAST_BIN = np.int32(BINS - 1)
_LARGEST = np.finfo(np.float32).max
# Of a range up to this, float32 cannot hold how many bins are in 1: all of it is counted in bin 0.
_LEAST_RANGE = np.float32(BINS * 2.0**-128)
_TIE = 1e-12


def _compiled(signature: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile without Python's lock; keep the code on disk if Numba finds a writable folder."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return numba.njit(signature, nogil=True, cache=True)(function)
        except (RuntimeError, OSError):  # neither this folder nor the user's cache folder can be written
            return numba.njit(signature, nogil=True)(function)

    return decorate


def new_scratch() -> tuple[np.ndarray, np.ndarray]:
    """Return the buffers that one thread's calls of `count_values` share."""
    return np.zeros(_CHUNK, np.uint32), np.zeros(_COPIES * _STRIDE, np.uint32)


@_compiled("i4(i4[::1], b1)")
def largest_bits(bits, rectified):
    """Return the bit pattern of the largest magnitude of float32 values given as int32 `bits` `[n]`.

    Patterns without the sign are ordered as the magnitudes are, with infinity and NaN above all numbers; patterns of
    negative values are negative. With `rectified`, negative values count as zeros.
    """
    top = np.int32(0)
    if rectified:
        for i in range(bits.size):
            top = max(top, bits[i])
    else:
        for i in range(bits.size):
            top = max(top, np.int32(bits[i] & _SIGN_OFF))
    return top


@_compiled("void(u4[::1], i8[::1])")
def _flush(copies, counts):
    for i in range(BINS):
        counts[i] += np.int64(copies[i]) + copies[_STRIDE + i] + copies[2 * _STRIDE + i] + copies[3 * _STRIDE + i]
    copies[:] = 0


@_compiled("void(i8[::1])")
def _halve(counts):
    half = BINS // 2
    for i in range(half):
        counts[i] = counts[2 * i] + counts[2 * i + 1]
    counts[half:] = 0


@_compiled("i4(f4[::1], i4[::1], b1, i8[::1], f4[::1], i4[::1], u4[::1], u4[::1])")
def count_values(values, bits, rectified, counts, limits, limits_bits, bins, copies):
    """Add |`values`| to the histogram `counts` `[2048]` over `[0, limits[0]]` and keep the largest in `limits[1]`.

    `bits` and `limits_bits` are int32 views of `values` and `limits`. With `rectified`, what is counted is
    max(value, 0). When a value exceeds the range, the range doubles
    and pairs of bins merge. That is exact, so it does not matter how the values are split over calls: the bin of x
    at twice the range is half its bin. Four copies of the histogram take turns so that equal values in a row do not
    wait for each other.

    Returns:
        0, or NON_FINITE when a value is infinite or NaN; `counts` is then of no use.
    """
    copies[:] = 0
    for start in range(0, values.size, _CHUNK):
        chunk = values[start : start + _CHUNK]
        chunk_bits = bits[start : start + _CHUNK]
        top = largest_bits(chunk_bits, rectified)
        if top >= _INFINITY_BITS:
            return NON_FINITE
        if top > limits_bits[1]:
            limits_bits[1] = top
            if limits[0] == 0:
                limits[0] = limits[1]
        if top > limits_bits[0]:
            _flush(copies, counts)
            while top > limits_bits[0]:
                _halve(counts)
                limits[0] = min(limits[0] * np.float32(2), _LARGEST)
        scale = np.float32(BINS) / limits[0] if limits[0] > _LEAST_RANGE else np.float32(0)
        if rectified:
            for j in range(chunk.size):
                bins[j] = min(np.int32(max(chunk[j], np.float32(0)) * scale), _LAST_BIN)
        else:
            for j in range(chunk.size):
                bins[j] = min(np.int32(abs(chunk[j]) * scale), _LAST_BIN)
        whole = chunk.size // 4 * 4
        for j in range(0, whole, 4):
            copies[np.uint64(bins[j])] += np.uint32(1)
            copies[np.uint64(bins[j + 1]) + np.uint64(_STRIDE)] += np.uint32(1)
            copies[np.uint64(bins[j + 2]) + np.uint64(2 * _STRIDE)] += np.uint32(1)
            copies[np.uint64(bins[j + 3]) + np.uint64(3 * _STRIDE)] += np.uint32(1)
        for j in range(whole, chunk.size):
            copies[np.uint64(bins[j])] += np.uint32(1)
    _flush(copies, counts)
    return 0


@_compiled("i8(i8[::1])")
def least_divergence(counts):
    """Return how many bins of the histogram `counts` `[2048]` to keep so that 128 levels lose the least information.

    For i bins: P is the first i bins with all mass beyond added to the last; Q the first i bins in 128 groups of
    index·128//i, each group's mass spread evenly over its bins that are not empty. KL(P‖Q) is infinite where Q is 0
    and P is not. In a group all q are equal, so its part of Σ p·log q needs only its mass and how many of its bins
    are filled: both are differences of running sums, and a candidate costs 128 logarithms instead of i. The largest
    i wins ties.

    An i that clips values and keeps one filled bin is passed over: P and Q agree there however much is clipped, and
    the range of data away from zero would be its smallest value. So is an i that clips more than it keeps. The range
    is TensorRT 8.6.0's for all data of tests/fixtures/entropy_ranges.json.
    """
    mass = np.zeros(BINS + 1)
    filled = np.zeros(BINS + 1)
    weighted = np.zeros(BINS + 1)
    for i in range(BINS):
        count = float(counts[max(i, 1)])  # bin 0 takes the count of bin 1, so that zeros do not decide
        mass[i + 1] = mass[i] + count
        filled[i + 1] = filled[i] + (count > 0)
        weighted[i + 1] = weighted[i] + (count * np.log(count) if count > 0 else 0.0)
    total = mass[BINS]
    best, best_divergence = BINS, np.inf
    for i in range(LEVELS, BINS + 1):
        tail = total - mass[i]
        last = mass[i] - mass[i - 1]
        if tail >= mass[i] or (tail > 0 and (last == 0 or filled[i] == 1)):
            continue
        expected = weighted[i - 1] + ((last + tail) * np.log(last + tail) if last + tail > 0 else 0.0)
        low = 0
        for group in range(LEVELS):
            high = ((group + 1) * i + LEVELS - 1) // LEVELS
            group_mass = mass[high] - mass[low]
            if group_mass > 0:
                carried = group_mass + tail if group == LEVELS - 1 else group_mass
                expected -= carried * np.log(group_mass / (filled[high] - filled[low]))
            low = high
        divergence = expected / total - np.log(total) + np.log(mass[i])
        if divergence < best_divergence - _TIE:
            best, best_divergence = i, divergence
        elif divergence <= best_divergence + _TIE:
            best = i
    return best
