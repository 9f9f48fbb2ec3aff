"""Numba's CUDA kernels, compiled to PTX by Numba and inspected, without a GPU."""

from __future__ import annotations

import os
import re
from typing import Any, Optional, Sequence, Tuple, Union

import ptxinspect

from ._results import Report

__all__ = ["inspect", "ptx"]


def ptx(kernel: Any, signature: Optional[Any] = None, arch: str = "sm_90") -> str:
    """The PTX that Numba makes of a kernel for an architecture, with lines of the Python source.

    ``kernel`` is a dispatcher of ``numba.cuda.jit`` or a plain function, ``signature`` a tuple of Numba's types or its text; of a dispatcher
    that was compiled for one signature it is that one. ``fastmath`` and ``opt`` of a dispatcher are kept.
    """
    from numba import cuda
    from numba.core import sigutils

    compute = re.fullmatch(r"sm_(\d+)(\d)[af]?", arch)
    if compute is None:
        raise ValueError(f"arch={arch!r}: expected an architecture such as 'sm_90'")
    if signature is None:
        signature = _only_signature(kernel)
    arguments, _ = sigutils.normalize_signature(signature)
    options = getattr(kernel, "targetoptions", {})
    kept = {key: options[key] for key in ("fastmath", "opt") if options.get(key) is not None}
    function = getattr(kernel, "py_func", kernel)
    capability = (int(compute.group(1)), int(compute.group(2)))
    text, _ = cuda.compile_ptx(function, arguments, cc=capability, lineinfo=True, **kept)
    return str(text)


def inspect(
    kernel: Any,
    signature: Optional[Any] = None,
    arch: str = "sm_90",
    ptxas: Optional[Union[str, "os.PathLike[str]"]] = None,
    *,
    threads: Optional[int] = None,
    smem_dynamic: Optional[int] = None,
    flags: Union[str, Sequence[str]] = (),
) -> Report:
    """Where the registers of a Numba kernel went: :func:`ptx`, then :func:`ptxinspect.inspect`. ``max_registers`` of a dispatcher is kept;
    ``threads`` and ``smem_dynamic`` are what only the launch knows."""
    most = getattr(kernel, "targetoptions", {}).get("max_registers")
    own: Tuple[str, ...] = () if most is None else (f"--maxrregcount={most}",)
    given = (flags,) if isinstance(flags, str) else tuple(flags)
    text = ptx(kernel, signature, arch)
    name = getattr(kernel, "__name__", "<numba>")
    return ptxinspect.inspect(
        text, arch, ptxas, flags=[*own, *given], threads=threads, smem_dynamic=smem_dynamic, name=name
    )


def _only_signature(kernel: Any) -> Any:
    found = list(getattr(kernel, "signatures", ()))
    if len(found) != 1:
        compiled = f"it is compiled for {len(found)} signatures" if found else "it is not compiled for any signature yet"
        raise ValueError(f"{getattr(kernel, '__name__', kernel)}: {compiled}: give one, such as 'void(float32[::1])'")
    return found[0]
