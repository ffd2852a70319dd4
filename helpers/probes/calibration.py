"""Reads calibration caches."""

import struct

__all__ = ["read_scales"]


def read_scales(cache: bytes) -> dict[str, float]:
    """Return the scale of each tensor in a calibration cache; an empty dictionary where it is none.

    The first line names TensorRT's version and the algorithm. Each line after it is `tensor: 3d189ef9`, a big-endian
    float32 in hexadecimal: the scale, of which 127 are the largest magnitude that INT8 keeps.
    """
    header, *lines = cache.decode(errors="replace").splitlines() or [""]
    if not header.startswith("TRT-"):
        return {}
    scales = {}
    for line in lines:
        name, separator, value = line.rpartition(": ")
        try:
            scales[name] = struct.unpack(">f", bytes.fromhex(value.strip().zfill(8)))[0]
        except (ValueError, struct.error):
            return {}
    return scales
