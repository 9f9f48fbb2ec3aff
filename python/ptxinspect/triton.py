"""Triton's kernels: those at hand, those of its cache, and a whole autotune space compiled without a GPU.

``inspect`` takes a compiled kernel, ``kernels`` a function that was launched, ``cache`` a folder; ``compare`` compiles configurations and ranks
them, ``prune`` does so for ``triton.autotune``. Block size and dynamic shared memory are those of Triton's launcher.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import ptxinspect

from . import _ptxinspect
from ._errors import Error
from ._jit import (
    Parts, compile_parts, compiled_of, config_of, flags_of, is_compiled, jit_function, launch_of, metadata_of, parts_of_arguments,
    parts_of_signature, ptxas_of, target_of,
)  # fmt: skip
from ._results import Report
from ._table import Entry, Table

__all__ = ["Entry", "Table", "cache", "compare", "inspect", "kernels", "prune"]

Arch = Optional[Union[str, int]]
Kernel = Any


def inspect(
    kernel: Kernel,
    arch: Arch = None,
    *,
    signature: Optional[Mapping[str, Any]] = None,
    constants: Optional[Mapping[str, Any]] = None,
    arguments: Optional[Mapping[str, Any]] = None,
    ptxas: Optional[Union[str, "os.PathLike[str]"]] = None,
    **options: Any,
) -> Report:
    """Where the registers of a Triton kernel went, with the block size and the shared memory of its launch.

    A compiled kernel (what a launch, ``warmup`` or ``triton.compile`` returns) is read as it is. A function of ``triton.jit`` is the one
    kernel that its launches have compiled; or it is compiled here, without a GPU, for ``arch``, from a ``signature`` of types in Triton's words
    (``{"x": "*fp32:16", "n": "i32"}``) and ``constants``, or from the ``arguments`` of a launch; ``options`` are ``num_warps``, ``num_stages``
    and the like. ``ptxas`` compiles its PTX with another ptxas instead of reading its cubin.
    """
    if is_compiled(kernel):
        return _report(kernel, ptxas)
    function = jit_function(kernel)
    if signature is None and arguments is None:
        found = compiled_of(function)
        if len(found) == 1:
            return _report(found[0], ptxas)
        several = f"{len(found)} were compiled in this process: ptxinspect.triton.kernels has them all"
        none = "it was not compiled in this process: launch it, or give signature and arch"
        raise ValueError(f"{function.__name__}: {several if found else none}")
    target = target_of(arch)
    parts = _parts(function, target, signature, constants or {}, arguments, options)
    return _report(compile_parts(function, target, parts, options), ptxas)


def kernels(kernel: Kernel) -> Table:
    """Every kernel that launches of a function have compiled in this process, by configuration."""
    function = jit_function(kernel)
    return Table([_entry(compiled, config_of(metadata_of(compiled))) for compiled in compiled_of(function)])


def cache(folder: Optional[Union[str, "os.PathLike[str]"]] = None) -> Table:
    """The kernels of a cache folder by configuration: Triton's own (default: ``TRITON_CACHE_DIR``, or ``~/.triton/cache``), or one that holds
    such folders, as Inductor's does. What cannot be read is an entry with its error."""
    if folder is None:
        home = os.environ.get("TRITON_HOME") or os.path.expanduser("~")
        folder = os.environ.get("TRITON_CACHE_DIR") or os.path.join(home, ".triton", "cache")
    report = Report(_ptxinspect.survey(Path(folder), json.dumps({})))
    entries = [_of_cache(row) for row in report.rows() if row["kind"] == "entry"]
    failed = (unit for unit in report.units if unit.error is not None)
    entries.extend(Entry(Path(unit.input).stem, {}, {}, unit.error.message) for unit in failed if unit.error)
    entries.sort(key=lambda entry: (entry.name, *(str(entry.config.get(key, "")).rjust(8) for key in ("arch", "num_warps", "num_stages"))))
    return Table(entries, f"{os.fspath(folder)}: {len(entries)} kernels")


def compare(
    kernel: Kernel,
    configs: Optional[Iterable[Any]] = None,
    arch: Arch = None,
    *,
    signature: Optional[Mapping[str, Any]] = None,
    constants: Optional[Mapping[str, Any]] = None,
    arguments: Optional[Mapping[str, Any]] = None,
    advisories: bool = True,
    jobs: Optional[int] = None,
) -> Table:
    """Compiles a kernel in many configurations, in parallel and without a GPU, and puts them in order.

    ``configs`` are ``triton.Config`` or plain mappings (``{"BLOCK": 128, "num_warps": 4}``); of an autotuner they are its own. Types come
    from ``signature`` and ``constants``, or from the ``arguments`` of a launch, as in :func:`inspect`. With ``advisories``, Triton's ptxas
    runs once more on the PTX of each, for its warnings.

    First come those that spill least in loops, then least at all, then those that ptxas warns least of, then those that fill an SM best, then
    the shortest; those that no SM can hold, or that do not compile, are last. It is an order of what the compiler made, not of time:
    use it to leave out what is broken, and measure the rest.
    """
    own = getattr(kernel, "configs", None)
    chosen = list(configs if configs is not None else own or [])
    if not chosen:
        raise ValueError("there are no configurations: give configs, or an autotuner, which has its own")
    function = jit_function(kernel)
    target = target_of(arch)

    def one(config: Any) -> Entry:
        values, options = _split(function, config)
        shown = {**values, **{key: value for key, value in options.items() if key in ("num_warps", "num_stages")}}
        shown.update({key: value for key, value in config_of(options).items() if key not in shown})
        try:
            # A configuration's values stand over what is common to all.
            named = None if arguments is None else {**arguments, **values}
            parts = _parts(function, target, signature, {**(constants or {}), **values}, named, options)
            compiled = compile_parts(function, target, parts, options)
            return _entry(compiled, shown, config, target if advisories else None)
        except Exception as error:  # What a compiler of others raises is of any kind.
            return Entry(function.__name__, shown, {}, f"{type(error).__name__}: {error}", made_from=config)

    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        entries = list(pool.map(one, chosen))
    entries.sort(key=_rank)
    return Table(entries, f"{function.__name__} for sm_{target.arch}: {len(entries)} configurations")


def prune(
    kernel: Union[Kernel, Callable[[], Kernel]],
    arch: Arch = None,
    *,
    spills_in_loops: int = 0,
    advisories: bool = False,
    keep: int = 1,
    top: Optional[int] = None,
    jobs: Optional[int] = None,
) -> Callable[..., List[Any]]:
    """A function for ``triton.autotune(prune_configs_by={"early_config_prune": …})``: it leaves out configurations that do not compile, that
    no SM can hold, or that have more than ``spills_in_loops`` spill instructions in loops, and with ``advisories`` those that ptxas warns of.
    At least ``keep`` stay, the best by the order of :func:`compare`; at most ``top``.

    ``kernel`` is the function of ``triton.jit``; where a decorator has not named it yet, ``lambda: matmul``. A configuration that spills can
    still win: ``spills_in_loops`` says how much of it is let pass.
    """

    def early_config_prune(configs: Sequence[Any], named_args: Mapping[str, Any], **kwargs: Any) -> List[Any]:
        found = kernel() if callable(kernel) and not hasattr(kernel, "arg_names") and not hasattr(kernel, "fn") else kernel
        function = jit_function(found)
        arguments = {**named_args, **{key: value for key, value in kwargs.items() if key in function.arg_names}}
        table = compare(function, configs, arch, arguments=arguments, advisories=advisories, jobs=jobs)
        usable = [entry for entry in table if entry.launchable]
        good = [
            entry
            for entry in usable
            if (entry.figures.get("spills_in_loops") or 0) <= spills_in_loops and not (advisories and entry.figures.get("advisories"))
        ]
        chosen = good if len(good) >= keep else (usable or list(table))[:keep]
        kept = {id(entry.made_from) for entry in chosen[:top]}
        # In the order they came.
        return [config for config in configs if id(config) in kept]

    return early_config_prune


def _parts(
    function: Any,
    target: Any,
    signature: Optional[Mapping[str, Any]],
    constants: Mapping[str, Any],
    arguments: Optional[Mapping[str, Any]],
    options: Mapping[str, Any],
) -> Parts:
    if arguments is not None:
        return parts_of_arguments(function, target, {**arguments, **constants}, options)
    if signature is None:
        raise ValueError(f"{function.__name__}: give signature, its types in Triton's words, or the arguments of a launch")
    return parts_of_signature(function, signature, constants)


def _split(function: Any, config: Any) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """A configuration's values for the kernel, and its options for the compiler."""
    everything = dict(config) if isinstance(config, Mapping) else config.all_kwargs()
    of_kernel = {key: value for key, value in everything.items() if key in function.arg_names}
    return of_kernel, {key: value for key, value in everything.items() if key not in of_kernel}


def _report(compiled: Any, ptxas: Optional[Union[str, "os.PathLike[str]"]] = None) -> Report:
    metadata = metadata_of(compiled)
    launch, name = launch_of(metadata), str(metadata.get("name", "<triton>"))
    facts: Dict[str, Any] = {"threads": launch.threads, "smem_dynamic": launch.smem_dynamic, "name": name}
    if ptxas is None and "cubin" in compiled.asm:
        return ptxinspect.inspect(compiled.asm["cubin"], **facts)
    if "ptx" not in compiled.asm:
        raise ValueError(f"{name}: it is no kernel for an NVIDIA GPU: it has neither PTX nor a cubin")
    return ptxinspect.inspect(compiled.asm["ptx"], ptxas=ptxas, **facts)


def _entry(compiled: Any, config: Mapping[str, Any], made_from: Any = None, warned_for: Any = None) -> Entry:
    """The figures of a compiled kernel; for a target also what its ptxas warns of, else that is not known."""
    metadata = metadata_of(compiled)
    launch, name = launch_of(metadata), str(metadata.get("name", "<triton>"))
    facts = {"threads": launch.threads, "smem_dynamic": launch.smem_dynamic}
    read = Report(_ptxinspect.survey((name, bytes(compiled.asm["cubin"])), json.dumps(facts)))
    unit = read.units[0]
    if unit.error is not None:
        return Entry(name, config, {}, unit.error.message, made_from=made_from)
    figures = next(row for row in read.rows() if row["kind"] == "entry")
    figures["advisories"] = None if warned_for is None else _advisories(compiled, warned_for, unit)
    return Entry(name, config, figures, None, lambda: _report(compiled), made_from)


def _advisories(compiled: Any, target: Any, unit: ptxinspect.Unit) -> Optional[List[str]]:
    """The codes of what Triton's own ptxas warns of, run with the flags that the cubin records; none where it cannot be asked."""
    ptxas = ptxas_of(target)
    if ptxas is None or "ptx" not in compiled.asm:
        return None
    try:
        flags = flags_of(unit.cubin.made_with if unit.cubin else None)
        report = ptxinspect.inspect(compiled.asm["ptx"], unit.arch, ptxas, flags=flags)
    except Error:
        return None
    return sorted({advisory.code or advisory.severity for advisory in report.advisories})


def _of_cache(row: Dict[str, Any]) -> Entry:
    path = Path(row["input"])
    try:
        metadata = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        metadata = {}
    config = config_of(metadata) if isinstance(metadata, dict) else {}
    # Values of the kernel's constants are not in the cache: its folder is what tells some configurations apart.
    config = {"arch": row["arch"], **config, "key": path.parent.name[:8]}
    return Entry(row["kernel"], config, row, None, lambda: ptxinspect.inspect(path))


def _rank(entry: Entry) -> Tuple[Any, ...]:
    """Smaller is better; spills that cannot be told are worse than none and better than one."""
    figures = entry.figures

    def spills(key: str) -> float:
        value = figures.get(key)
        return 0.5 if value is None else float(value)

    return (
        entry.error is not None,
        not entry.launchable,
        spills("spills_in_loops"),
        spills("spill_instructions"),
        len(figures.get("advisories") or ()),
        -(figures.get("warps_per_sm") or 0),
        figures.get("instructions") or 0,
        figures.get("registers") or 0,
    )
