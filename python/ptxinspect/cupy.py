"""CuPy's raw modules and kernels, compiled by CuPy's NVRTC and inspected, without a GPU."""

from __future__ import annotations

import os
import struct
from typing import Any, Optional, Sequence

import ptxinspect

from ._results import Report

__all__ = ["cubin", "inspect"]


def cubin(module: Any, arch: str = "sm_90", options: Sequence[str] = ()) -> bytes:
    """The cubin that NVRTC makes of a ``RawModule``, a ``RawKernel`` or a source text, with lines of the source.

    Options of the module and its name expressions are kept, ``options`` are added.
    """
    import cupy
    from cupy.cuda import nvrtc

    source = module if isinstance(module, str) else module.code
    if source is None:
        raise ValueError("the module was loaded from a file: inspect that file with ptxinspect.inspect")
    own = () if isinstance(module, str) else tuple(module.options or ())
    headers = os.path.join(os.path.dirname(cupy.__file__), "_core", "include")
    bundled = os.path.join(headers, "cupy", "_cccl")
    folders = [headers, *(os.path.join(bundled, name) for name in ("libcudacxx", "thrust", "cub"))]
    program = nvrtc.createProgram(source, f"{_name(module)}.cu", (), ())
    try:
        for name in getattr(module, "name_expressions", None) or ():
            nvrtc.addNameExpression(program, name)
        wanted = (*own, f"--gpu-architecture={arch}", "-lineinfo", *(f"-I{folder}" for folder in folders), *options)
        try:
            nvrtc.compileProgram(program, wanted)
        except nvrtc.NVRTCError as error:
            raise ValueError(f"NVRTC does not compile it ({error}):\n{nvrtc.getProgramLog(program)}") from error
        return _whole(bytes(nvrtc.getCUBIN(program)))
    finally:
        nvrtc.destroyProgram(program)


def inspect(
    module: Any,
    arch: str = "sm_90",
    options: Sequence[str] = (),
    *,
    threads: Optional[int] = None,
    smem_dynamic: Optional[int] = None,
) -> Report:
    """Where the registers of its kernels went: :func:`cubin`, then :func:`ptxinspect.inspect`. ``threads`` and ``smem_dynamic`` are what only
    the launch knows."""
    data = cubin(module, arch, options)
    return ptxinspect.inspect(data, threads=threads, smem_dynamic=smem_dynamic, name=_name(module))


def _whole(data: bytes) -> bytes:
    """CuPy takes NVRTC's cubin for a text that ends in NUL and drops its last byte: the upper byte of a program header's alignment, which is 0."""
    if len(data) < 64:
        return data
    start, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    return data + b"\0" if start + size * count == len(data) + 1 else data


def _name(module: Any) -> str:
    return str(getattr(module, "name", None) or "module")
