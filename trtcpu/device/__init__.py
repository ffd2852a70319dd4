"""The "device": checked memory, and streams that run beside the calling thread. `cuda` puts pycuda's names on it."""
