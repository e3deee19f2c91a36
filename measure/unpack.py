"""Unpacks recordings (zstd) with Python's own module, the package `zstandard`, or the system's libzstd.

Nearly every Linux has libzstd, because package managers use it. So machines that allow no installation need no package.
"""

from __future__ import annotations

import ctypes
import io

#: A minute of recording unpacks to a few megabytes. Anything larger than this is not a recording.
MOST_BYTES = 1 << 30


class NoZstd(RuntimeError):
    """This machine cannot unpack zstd."""


def unpacked(content: bytes) -> bytes:
    """All frames of a file, joined. Raises NoZstd if nothing here can unpack them, ValueError if they are not zstd."""
    try:
        from compression import zstd  # Python 3.14
    except ImportError:
        pass
    else:
        unpacked_content: bytes = zstd.decompress(content)
        return unpacked_content
    try:
        import zstandard
    except ImportError:
        return by_library(content)
    reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(content), read_across_frames=True)
    return io.BufferedReader(reader).read()


class _Buffer(ctypes.Structure):
    """ZSTD_inBuffer and ZSTD_outBuffer of zstd.h."""

    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("at", ctypes.c_size_t)]


def by_library(content: bytes) -> bytes:
    """The same through libzstd.so.1."""
    try:
        library = ctypes.CDLL("libzstd.so.1")
    except OSError:
        raise NoZstd("no zstd found; pip install zstandard, or install libzstd1") from None
    library.ZSTD_createDStream.restype = ctypes.c_void_p
    library.ZSTD_freeDStream.argtypes = [ctypes.c_void_p]
    library.ZSTD_decompressStream.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Buffer), ctypes.POINTER(_Buffer)]
    library.ZSTD_decompressStream.restype = ctypes.c_size_t
    library.ZSTD_isError.argtypes = [ctypes.c_size_t]
    stream = library.ZSTD_createDStream()
    try:
        source, room = ctypes.create_string_buffer(content, len(content)), ctypes.create_string_buffer(1 << 17)
        given = _Buffer(ctypes.cast(source, ctypes.c_void_p), len(content), 0)
        found = bytearray()
        while True:
            taken = _Buffer(ctypes.cast(room, ctypes.c_void_p), len(room), 0)
            before = given.at
            if library.ZSTD_isError(library.ZSTD_decompressStream(stream, ctypes.byref(taken), ctypes.byref(given))):
                raise ValueError("not a recording: its zstd is damaged")
            found += room.raw[: taken.at]
            if len(found) > MOST_BYTES:
                raise ValueError("not a recording: it unpacks to more than 1 GiB")
            # All was taken, and what is left inside did not fill the room.
            if given.at == given.size and taken.at < taken.size:
                return bytes(found)
            if given.at == before and taken.at == 0:
                raise ValueError("not a recording: its zstd ends in the middle")
    finally:
        library.ZSTD_freeDStream(stream)
