"""Eight and four bits: the grids are those of the public definitions, and shared scales do what they say."""

import numpy as np
import pytest
import torch

from helpers.toys.number_formats import E2M1, E4M3, E5M2, INT4, INT8, NVFP4, SCHEMES, Format, Scheme, relative_error

ml_dtypes = pytest.importorskip("ml_dtypes")
_PUBLIC = ((E4M3, ml_dtypes.float8_e4m3fn), (E5M2, ml_dtypes.float8_e5m2), (E2M1, ml_dtypes.float4_e2m1fn))


def _weights(rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(15).standard_normal((rows, columns), dtype=np.float32)


@pytest.mark.parametrize(("own", "public"), _PUBLIC, ids=lambda each: getattr(each, "name", ""))
def test_a_grid_has_every_finite_number_of_the_public_definition(own: Format, public: type) -> None:
    patterns = np.arange(2**own.bits // 2, dtype=np.uint8).view(public).astype(np.float32)
    assert list(own.grid) == patterns[np.isfinite(patterns)].tolist()


@pytest.mark.parametrize(("own", "public"), _PUBLIC, ids=lambda each: getattr(each, "name", ""))
def test_rounding_is_that_of_the_public_definition_ties_too(own: Format, public: type) -> None:
    grid = np.asarray(own.grid, dtype=np.float32)
    values = np.concatenate([grid, (grid[1:] + grid[:-1]) / 2, grid[:-1] * 1.03, _weights(1, 2000)[0]])
    for signed in (values, -values):
        expected = np.clip(signed, -own.largest, own.largest).astype(public).astype(np.float32)
        assert np.array_equal(own.rounded(signed), expected)


def test_eight_bits_are_rounded_as_pytorch_does() -> None:
    values = torch.from_numpy(_weights(100, 100) * 40)
    assert np.array_equal(E4M3.rounded(values.numpy()), values.to(torch.float8_e4m3fn).float().numpy())
    assert np.array_equal(E5M2.rounded(values.numpy()), values.to(torch.float8_e5m2).float().numpy())


def test_what_is_too_large_becomes_the_largest() -> None:
    assert E4M3.rounded(np.array([1e6, -1e6])).tolist() == [448, -448]
    assert INT4.rounded(np.array([7.49, -90.0])).tolist() == [7, -7]


def test_int8_per_channel_is_pytorchs_symmetric_quantisation() -> None:
    weights = torch.from_numpy(_weights(8, 64))
    scales = weights.abs().amax(dim=1) / 127
    expected = torch.fake_quantize_per_channel_affine(weights, scales, torch.zeros(8, dtype=torch.int32), 0, -127, 127)
    assert np.allclose(Scheme("", INT8).rounded(weights.numpy()), expected.numpy(), atol=1e-6)


def test_groups_know_nothing_of_one_another() -> None:
    weights = _weights(2, 64)
    before = Scheme("", INT4, 16).rounded(weights)
    weights[0, 3] = 1000
    after = Scheme("", INT4, 16).rounded(weights)
    assert np.array_equal(before[:, 16:], after[:, 16:]) and not after[0, [0, 1, 2, *range(4, 16)]].any()


def test_nvfp4_rounds_the_scale_of_a_block_to_e4m3_under_one_for_all() -> None:
    weights = _weights(4, 32)
    blocks = weights.reshape(-1, 16)
    whole = np.float32(np.abs(weights).max() / (6 * 448))
    coded = (np.abs(blocks).max(axis=1, keepdims=True) / 6 / whole).astype(ml_dtypes.float8_e4m3fn)
    scales = coded.astype(np.float32) * whole
    expected = (blocks / scales).clip(-6, 6).astype(ml_dtypes.float4_e2m1fn).astype(np.float32) * scales
    assert np.allclose(NVFP4.rounded(weights), expected.reshape(4, 32), atol=1e-7)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_shapes_odd_lengths_and_zeros_are_kept(scheme: Scheme) -> None:
    weights = np.zeros((3, 5, 7), dtype=np.float32)
    assert np.array_equal(scheme.rounded(weights), weights)
    weights[1] = _weights(5, 7)
    back = scheme.rounded(weights)
    assert back.shape == weights.shape and back.dtype == np.float32 and not back[[0, 2]].any()
    assert 0 < relative_error(weights, back) < 0.3


def test_bits_per_weight_count_the_scales_in() -> None:
    assert NVFP4.bits_per_weight(4096) == 4.5
    assert Scheme("", INT4, 128).bits_per_weight(4096) == 4.125
    assert Scheme("", INT8).bits_per_weight(64) == 8.25
