"""Loops whose accesses to shared memory have bank conflicts: of one access, and random ones."""
import random

from . import micro, mixed
from .skeleton import Kernel

# Lanes are so many times their own width apart.
WAYS = {"": (1, 2, 4, 8, 16, 32), ".v2": (1, 2, 4, 8, 16), ".v4": (1, 2, 4, 8)}


def chain(width, ways):
    words, stride = micro.WIDTHS[width]
    kernel = Kernel(shared=8192)
    base = micro.address(kernel, stride * ways)
    into = [base] + [kernel.keep(kernel.new("r")) for _ in range(words - 1)]
    group = lambda names: "{" + ", ".join(names) + "}" if words > 1 else names[0]
    kernel.before.append(f"st.shared{width}.u32 [{base}], {group([base] * words)};")
    kernel.body += [f"ld.shared{width}.u32 {group(into)}, [{base}];"] * 8
    kernel.keep(base)
    return kernel


def one(seed):
    """Loads and stores of several strides among arithmetic."""
    rng = random.Random(seed)
    kernel = Kernel(shared=16384)
    pools = {kind: [kernel.keep(kernel.input(kind)) for _ in range(rng.choice([2, 4, 8]))] for kind in ("f", "r", "h")}
    for _ in range(rng.randrange(1, 4)):
        pools["base"] = {}
        for width, (words, stride) in micro.WIDTHS.items():
            pools["base"][words] = micro.address(kernel, stride * rng.choice(WAYS[width]))
        mixed.shared(rng, kernel, rng.randrange(1, 5), pools)
        mixed.arithmetic(rng, kernel, rng.choice(["fp32", "fp16"]), rng.randrange(0, 24), pools)
    return f"conflicts_{seed}", kernel


def every():
    for width, all_ways in WAYS.items():
        tag = width.strip(".") or "v1"
        for ways in all_ways:
            yield f"lds_{tag}_chain_{ways}", chain(width, ways)
            yield f"lds_{tag}_wide_{ways}", micro.shared_wide(width, True, ways)
            yield f"sts_{tag}_wide_{ways}", micro.shared_wide(width, False, ways)


def many(seed, count):
    for index in range(count):
        yield one(seed * 100000 + index)
