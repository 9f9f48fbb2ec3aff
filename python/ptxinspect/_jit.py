"""Triton's objects, as much of them as is needed: what a compiled kernel says of itself, and compiling one without a GPU."""

from __future__ import annotations

import os
import re
import shlex
import warnings
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

#: Lanes of a warp.
WARP = 32
#: What a cache's metadata says that tells configurations of one kernel apart.
CONFIG = ("num_warps", "num_stages", "num_ctas", "maxnreg")
#: Flags that ptxinspect gives to ptxas itself.
OWN_FLAGS = ("-v", "--verbose", "-lineinfo", "--generate-line-info", "-suppress-debug-info", "--suppress-debug-info")


class Launch(NamedTuple):
    """How Triton's launcher starts a kernel."""

    threads: Optional[int]
    smem_dynamic: int


def metadata_of(compiled: Any) -> Mapping[str, Any]:
    """The metadata of a compiled kernel, whatever form this release of Triton gives it."""
    metadata = getattr(compiled, "metadata", None)
    if metadata is None:
        return {}
    if isinstance(metadata, Mapping):
        return metadata
    as_dict = getattr(metadata, "_asdict", None)
    return dict(as_dict() if as_dict is not None else vars(metadata))


def launch_of(metadata: Mapping[str, Any]) -> Launch:
    """Block size and dynamic shared memory. Warps that warp specialisation adds are in ``num_warps``: Triton counts them in."""
    warps, shared = metadata.get("num_warps"), metadata.get("shared")
    threads = warps * WARP if isinstance(warps, int) and 0 < warps <= WARP else None
    return Launch(threads, shared if isinstance(shared, int) and shared >= 0 else 0)


def config_of(metadata: Mapping[str, Any]) -> Dict[str, Any]:
    """What tells this configuration from others; what is nothing out of the ordinary is left out."""
    ordinary = {"num_ctas": 1, "maxnreg": None}
    return {key: metadata[key] for key in CONFIG if key in metadata and metadata[key] != ordinary.get(key, object())}


def is_compiled(kernel: Any) -> bool:
    """Whether it is a ``CompiledKernel``."""
    return hasattr(kernel, "asm") and hasattr(kernel, "metadata")


def jit_function(kernel: Any) -> Any:
    """The ``JITFunction`` inside autotuners and heuristics."""
    while not hasattr(kernel, "device_caches") and hasattr(kernel, "fn"):
        kernel = kernel.fn
    if not hasattr(kernel, "arg_names"):
        expected = "a kernel of triton.jit, an autotuner of one, or a compiled kernel"
        raise TypeError(f"expected {expected}, found {type(kernel).__name__}")
    return kernel


def compiled_of(function: Any) -> List[Any]:
    """The kernels that launches or warm-ups of a function have compiled in this process, oldest first."""
    found: List[Any] = []
    for per_device in getattr(function, "device_caches", {}).values():
        # A tuple whose first part maps keys to kernels; releases before 3.3 have the mapping itself.
        cached = per_device[0] if isinstance(per_device, tuple) else per_device
        found.extend(kernel for kernel in cached.values() if hasattr(kernel, "asm"))
    return found


def target_of(arch: Optional[Union[str, int]]) -> Any:
    """A ``GPUTarget``: of ``"sm_90a"``, ``90``, or of the GPU of this machine."""
    from triton.backends.compiler import GPUTarget

    if arch is None:
        from triton.runtime import driver

        try:
            return driver.active.get_current_target()
        except Exception as error:
            raise ValueError(f"there is no GPU to compile for ({error}): give arch, such as 'sm_90a'") from error
    digits = re.fullmatch(r"(?:sm_?|compute_)?(\d+)[af]?", str(arch))
    if digits is None:
        raise ValueError(f"arch={arch!r}: expected 'sm_90a' or 90")
    return GPUTarget("cuda", int(digits.group(1)), WARP)


#: Signature, constants and attributes, as ``ASTSource`` takes them.
Parts = Tuple[Dict[str, str], Dict[Tuple[int, ...], Any], Dict[Tuple[int, ...], Any]]


def parts_of_signature(function: Any, signature: Mapping[str, Any], constants: Mapping[str, Any]) -> Parts:
    """From types in Triton's words. ``"*fp16:16"`` is a pointer divisible by 16, ``"i32:1"`` a number that is 1, as Triton's own
    ahead-of-time compiler has them."""
    names = list(function.arg_names)
    unknown = sorted((set(signature) | set(constants)) - set(names))
    if unknown:
        raise ValueError(f"{function.__name__} has no argument {', '.join(unknown)}: it has {', '.join(names)}")
    types: Dict[str, str] = {}
    values: Dict[Tuple[int, ...], Any] = {}
    attributes: Dict[Tuple[int, ...], Any] = {}
    missing = []
    for at, name in enumerate(names):
        given = signature.get(name)
        if name in constants or (given is not None and not isinstance(given, str)):
            types[name] = "constexpr"
            values[(at,)] = constants[name] if name in constants else given
        elif given is None or given == "constexpr":
            missing.append(name)
        else:
            kind, _, hint = given.partition(":")
            if hint not in ("", "1", "16"):
                raise ValueError(f"{name}: {given!r}: expected a type such as '*fp16' or 'i32', ':16' or ':1' behind it")
            types[name] = kind.strip() if hint != "1" else "constexpr"
            if hint == "16":
                attributes[(at,)] = [["tt.divisibility", 16]]
            elif hint == "1":
                values[(at,)] = 1
    if missing:
        raise ValueError(f"{function.__name__}: the type or the value of {', '.join(missing)} is not given")
    return types, values, attributes


def parts_of_arguments(function: Any, target: Any, arguments: Mapping[str, Any], options: Mapping[str, Any]) -> Parts:
    """From the arguments of a launch, specialised as Triton would."""
    from triton.compiler import make_backend
    from triton.runtime.jit import create_function_from_signature

    backend = make_backend(target)
    binder = create_function_from_signature(function.signature, function.params, backend)
    bound, specialization, rest = binder(**arguments, **options)
    _, signature, constants, attributes = function._pack_args(backend, dict(options), bound, specialization, rest)
    return signature, constants, attributes


def compile_parts(function: Any, target: Any, parts: Parts, options: Mapping[str, Any]) -> Any:
    """Compiles for a target; no GPU is asked."""
    import triton
    from triton.compiler import ASTSource

    signature, constants, attributes = parts
    source = getattr(function, "ASTSource", ASTSource)(function, signature, constants, attributes)
    with warnings.catch_warnings():
        # Of defaults that change in a later release; who launches the kernel is told.
        warnings.simplefilter("ignore", UserWarning)
        return triton.compile(source, target=target, options=dict(options))


def ptxas_of(target: Any) -> Optional[str]:
    """The ptxas that Triton itself runs for a target."""
    try:
        from triton.backends.nvidia import compiler

        found = compiler.get_ptxas(target.arch)
    except (ImportError, AttributeError, TypeError, RuntimeError):
        return None
    # Releases before 3.4 have a pair of path and version.
    path = found[0] if isinstance(found, tuple) else getattr(found, "path", found)
    return path if isinstance(path, str) and os.path.exists(path) else None


def flags_of(made_with: Optional[str]) -> List[str]:
    """The flags of a ptxas command line that a cubin records, less those that ptxinspect gives itself, architecture and files."""
    words = shlex.split(made_with or "")
    flags: List[str] = []
    skip = False
    for word in words:
        name = word.split("=", 1)[0]
        if skip:
            skip = False
        elif name in ("-arch", "--gpu-name", "-o", "--output-file"):
            skip = "=" not in word
        elif word not in OWN_FLAGS and not word.endswith((".ptx", ".o", ".cubin")):
            flags.append(word)
    return flags


def named(function: Any, values: Sequence[Any]) -> Dict[str, Any]:
    """Positional arguments by their names."""
    return dict(zip(function.arg_names, values))
