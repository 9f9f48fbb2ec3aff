"""Where did my registers go, and did this change make it worse?

``inspect`` takes PTX text, a cubin's bytes or a path and gives a :class:`Report`; ``annotate``, ``disassemble``, ``diff``, ``occupancy``,
``timeline``, ``cost``, ``tune`` and ``gate`` answer one question each. They work in this process, without a GPU, and let other threads run meanwhile.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterable, Iterator, Literal, Mapping, Optional, Sequence, Tuple, Union, overload

from . import _map, _ptxinspect
from ._errors import CubinError, Error, InputError, PtxasError, TimeoutError, ToolchainError
from ._model import Advisory, Diagnostic, Finding, Kernel, Unit
from ._ptxinspect import __version__
from ._results import Annotated, Difference, KernelCosts, Listing, LoopCosts, OccupancyAnswer, Report, Timelines, Tuning, Verdict, _list

__all__ = [
    "Advisory",
    "Annotated",
    "CubinError",
    "Diagnostic",
    "Difference",
    "Error",
    "Finding",
    "InputError",
    "Kernel",
    "KernelCosts",
    "Listing",
    "LoopCosts",
    "OccupancyAnswer",
    "PtxasError",
    "Report",
    "Timelines",
    "TimeoutError",
    "ToolchainError",
    "Tuning",
    "Unit",
    "Verdict",
    "__version__",
    "annotate",
    "cost",
    "diff",
    "disassemble",
    "gate",
    "inspect",
    "map",
    "occupancy",
    "timeline",
    "tune",
]

#: PTX text (a ``str`` with a line feed), PTX or a cubin as bytes, or a path to anything that holds them.
Source = Union[str, bytes, bytearray, memoryview, "os.PathLike[str]"]
Strings = Union[str, Sequence[str]]


def _given(source: Source, name: Optional[str]) -> "_ptxinspect.Given":
    if isinstance(source, str):
        return (name or "<ptx>", source.encode("utf-8", "surrogateescape")) if "\n" in source else source
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
        return (name or ("<cubin>" if data[:4] == b"\x7fELF" else "<ptx>"), data)
    if isinstance(source, os.PathLike):
        return source
    raise TypeError(f"expected PTX text, a cubin's bytes or a path, found {type(source).__name__}")


def _options(
    arch: Optional[Strings],
    ptxas: Optional[Union[str, "os.PathLike[str]"]],
    flags: Strings,
    kernels: Strings,
    threads: Optional[int] = None,
    smem_dynamic: Optional[int] = None,
    timeout: Optional[float] = None,
    **more: Any,
) -> str:
    options: Dict[str, Any] = {
        "arch": [] if arch is None else _list(arch),
        "ptxas": None if ptxas is None else os.fspath(ptxas),
        "flags": _list(flags),
        "kernels": _list(kernels),
        "threads": threads,
        "smem_dynamic": smem_dynamic,
        "timeout": timeout,
        **more,
    }
    return json.dumps(options)


def inspect(
    source: Source,
    arch: Optional[Strings] = None,
    ptxas: Optional[Union[str, "os.PathLike[str]"]] = None,
    *,
    flags: Strings = (),
    kernels: Strings = (),
    threads: Optional[int] = None,
    smem_dynamic: Optional[int] = None,
    try_step: bool = False,
    at: Sequence[int] = (),
    roles: Optional[Mapping[str, int]] = None,
    timeout: Optional[float] = None,
    jobs: Optional[int] = None,
    cache: bool = False,
    compile_inside: bool = False,
    thorough: bool = False,
    name: Optional[str] = None,
) -> Report:
    """Compiles PTX, or reads a cubin or what holds cubins, and says where the registers went.

    ``arch`` is what PTX is compiled for (``"sm_90a"``; default: its ``.target``), ``ptxas`` a version such as ``"13.4"``, installed on
    first use, or a path. ``threads`` and ``smem_dynamic`` are what only the launch knows. ``try_step`` compiles PTX again, held to the
    registers with which one more block fits on an SM. ``kernels`` chooses by name (``*`` and ``?``), ``at`` asks which values are live at
    PTX lines, ``roles`` says how many warps a role has, ``cache`` keeps what ptxas makes, ``thorough`` executes barriers for seconds instead of
    milliseconds, ``name`` is what the source is called where it is text or bytes.
    """
    options = _options(
        arch, ptxas, flags, kernels, threads, smem_dynamic, timeout,
        try_step=try_step, at=list(at), roles=list((roles or {}).items()), jobs=jobs, cache=cache, compile_inside=compile_inside,
        thorough=thorough,
    )  # fmt: skip
    return Report(_ptxinspect.inspect(_given(source, name), options))


@overload
def map(
    jobs: Iterable[Union[Source, Mapping[str, Any]]],
    executor: "_map._Executor",
    *,
    ahead: int = 1024,
    raises: Literal[True] = True,
    jobs_each: int = 1,
    cache: bool = True,
    **common: Any,
) -> Iterator[Report]: ...


@overload
def map(
    jobs: Iterable[Union[Source, Mapping[str, Any]]],
    executor: "_map._Executor",
    *,
    ahead: int = 1024,
    raises: Literal[False],
    jobs_each: int = 1,
    cache: bool = True,
    **common: Any,
) -> Iterator[Union[Report, Error]]: ...


def map(
    jobs: Iterable[Union[Source, Mapping[str, Any]]],
    executor: "_map._Executor",
    *,
    ahead: int = 1024,
    raises: bool = True,
    jobs_each: int = 1,
    cache: bool = True,
    **common: Any,
) -> Iterator[Union[Report, Error]]:
    """Inspects many sources on an executor of ``concurrent.futures``, or one that does as those do: Dask's, mpi4py's. Answers in order.

    A job is a source, or the arguments of :func:`inspect` as a mapping; ``common`` are arguments that all have. Texts and bytes are sent
    along, paths must mean the same where the work is done. ``ahead`` jobs at most wait or run at once, each with ``jobs_each`` compilations
    at a time. An error is raised when its turn comes, or is the answer where ``raises`` is false. With ``cache`` what ptxas makes is kept, and
    taken from where ``PTXINSPECT_CACHE`` and ``PTXINSPECT_CACHE_URL`` of each worker say.
    """
    everything = {"jobs": jobs_each, "cache": cache, **common}
    for answer in _map.over(jobs, executor, ahead, lambda job: not isinstance(job, Mapping), everything):
        if raises and isinstance(answer, Error):
            raise answer
        yield answer


def annotate(
    source: Source,
    arch: Optional[Strings] = None,
    ptxas: Optional[Union[str, "os.PathLike[str]"]] = None,
    *,
    flags: Strings = (),
    kernels: Strings = (),
    threads: Optional[int] = None,
    smem_dynamic: Optional[int] = None,
    source_root: Optional[Union[str, "os.PathLike[str]"]] = None,
    timeout: Optional[float] = None,
    cache: bool = False,
    name: Optional[str] = None,
) -> Annotated:
    """Each PTX line, or line of the front end's source, with the SASS it became."""
    options = _options(arch, ptxas, flags, kernels, threads, smem_dynamic, timeout, cache=cache)
    return Annotated(_ptxinspect.annotate(_given(source, name), options, source_root), bool(_list(kernels)))


def disassemble(
    source: Source,
    arch: Optional[Strings] = None,
    ptxas: Optional[Union[str, "os.PathLike[str]"]] = None,
    *,
    flags: Strings = (),
    kernels: Strings = (),
    timeout: Optional[float] = None,
    name: Optional[str] = None,
) -> Listing:
    """SASS in its order, with live registers, PTX lines and source lines."""
    return Listing(_ptxinspect.disassemble(_given(source, name), _options(arch, ptxas, flags, kernels, timeout=timeout)))


def diff(
    before: Source,
    after: Source,
    arch: Optional[Union[str, Tuple[str, str]]] = None,
    ptxas: Optional[Union[str, Tuple[str, str]]] = None,
    *,
    flags: Strings = (),
    before_flags: Strings = (),
    after_flags: Strings = (),
    kernels: Strings = (),
    threads: Optional[int] = None,
    smem_dynamic: Optional[int] = None,
    timeout: Optional[float] = None,
    cache: bool = True,
) -> Difference:
    """Two builds side by side; ``arch`` and ``ptxas`` may be pairs, before and after."""

    def side(at: int, own: Strings) -> str:
        def of(value: Optional[Union[str, Tuple[str, str]]]) -> Optional[str]:
            return value if value is None or isinstance(value, str) else value[at]

        all_flags = [*_list(flags), *_list(own)]
        return _options(of(arch), of(ptxas), all_flags, kernels, threads, smem_dynamic, timeout, cache=cache)

    old, new = _given(before, "before"), _given(after, "after")
    return Difference(_ptxinspect.diff(old, side(0, before_flags), new, side(1, after_flags)))


def occupancy(
    arch: str,
    registers: int,
    threads: int,
    smem: int = 0,
    smem_dynamic: int = 0,
    barriers: int = 0,
    cluster: int = 1,
    smem_mode: Literal["portable", "non_portable", "oversized"] = "non_portable",
    carveout: Optional[int] = None,
    tmem_columns: int = 0,
) -> OccupancyAnswer:
    """How many blocks of a launch an SM holds, and how far the next step and the next cliff are."""
    launch = {
        "registers": registers,
        "threads": threads,
        "smem": smem,
        "smem_dynamic": smem_dynamic,
        "barriers": barriers,
        "cluster": cluster,
        "smem_mode": smem_mode,
        "carveout": carveout,
        "tmem_columns": tmem_columns,
    }
    return OccupancyAnswer(json.loads(_ptxinspect.occupancy(arch, json.dumps(launch))))


def timeline(
    source: Source,
    *,
    kernels: Strings = (),
    threads: Optional[int] = None,
    steps: Optional[int] = None,
    timeout: Optional[float] = None,
    name: Optional[str] = None,
) -> Timelines:
    """The barriers of a PTX's kernels executed: who waits for whom. It needs no ptxas."""
    options = _options(None, None, (), kernels, threads, timeout=timeout)
    return Timelines(_ptxinspect.timeline(_given(source, name), options, steps))


def cost(
    source: Source,
    arch: Optional[Strings] = None,
    ptxas: Optional[str] = None,
    *,
    line: Optional[int] = None,
    warps: Union[int, Sequence[int]] = (),
    memory: Literal["l1", "l2", "dram"] = "l1",
    latency: Optional[int] = None,
    hazards: bool = False,
    accesses: bool = False,
    flags: Strings = (),
    kernels: Strings = (),
    threads: Optional[int] = None,
    smem_dynamic: Optional[int] = None,
    timeout: Optional[float] = None,
    jobs: Optional[int] = None,
    cache: bool = True,
    name: Optional[str] = None,
) -> LoopCosts:
    """What a turn of each loop costs by the schedule of ptxas: cycles by warps, what bounds them, what is waited for. An estimate.

    ``line`` asks for the innermost loop around a PTX line, ``warps`` for numbers of warps on a scheduler (1 to 16), ``memory`` says where data
    of global memory are, ``latency`` after how many cycles they come. ``accesses`` tells bank conflicts and sectors of every access of memory, ``hazards`` consumers
    that come too early by the control bits.
    """
    options = _options(arch, ptxas, flags, kernels, threads, smem_dynamic, timeout, jobs=jobs, cache=cache)
    asked = {
        "line": line,
        "warps": [warps] if isinstance(warps, int) else list(warps),
        "memory": memory,
        "latency": latency,
        "hazards": hazards,
        "accesses": accesses,
    }
    return LoopCosts(_ptxinspect.cost(_given(source, name), options, json.dumps(asked)))


def tune(
    source: Source,
    arch: Optional[Strings] = None,
    ptxas: Strings = (),
    *,
    budget: Optional[int] = None,
    minutes: Optional[float] = None,
    rows: Optional[int] = None,
    flags: Strings = (),
    kernels: Strings = (),
    threads: Optional[int] = None,
    smem_dynamic: Optional[int] = None,
    timeout: Optional[float] = None,
    jobs: Optional[int] = None,
    cache: bool = True,
    name: Optional[str] = None,
) -> Tuning:
    """Tries ptxas flags and small edits of the PTX: what removes spills, fits one more block on an SM, saves instructions.

    ``ptxas`` are the releases to try, the first of which is what the others are compared with; ``budget`` is how many builds a kernel may
    take, ``minutes`` how long. Every row was built; an edit is tried only where it is checked that it leaves results as they are.
    """
    options = _options(arch, None, flags, kernels, threads, smem_dynamic, timeout, jobs=jobs, cache=cache)
    return Tuning(_ptxinspect.tune(_given(source, name), options, _list(ptxas), budget, minutes, rows))


def gate(
    inputs: Sequence[Union[str, "os.PathLike[str]"]] = (),
    *,
    baseline: Optional[Union[str, "os.PathLike[str]"]] = None,
    policy: Optional[Union[str, "os.PathLike[str]"]] = None,
    arch: Strings = (),
    ptxas: Strings = (),
    flags: Strings = (),
    kernels: Strings = (),
    deny: Strings = (),
    ratchet: bool = False,
    threads: Optional[int] = None,
    smem_dynamic: Optional[int] = None,
    timeout: Optional[float] = None,
    jobs: Optional[int] = None,
    cache: bool = True,
    thorough: bool = False,
) -> Verdict:
    """Compares with a recorded baseline, as ``ptxinspect gate`` does; nothing is written. A verdict is true where nothing got worse."""
    asked = {
        "inputs": [os.fspath(path) for path in inputs],
        "baseline": None if baseline is None else os.fspath(baseline),
        "policy": None if policy is None else os.fspath(policy),
        "arch": _list(arch),
        "ptxas": _list(ptxas),
        "flags": _list(flags),
        "kernels": _list(kernels),
        "deny": _list(deny),
        "ratchet": ratchet,
        "threads": threads,
        "smem_dynamic": smem_dynamic,
        "timeout": timeout,
        "jobs": jobs,
        "no_cache": not cache,
        "thorough": thorough,
    }
    return Verdict(_ptxinspect.gate(json.dumps(asked)))
