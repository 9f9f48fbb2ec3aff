"""Makes sets of kernels: the same seed, the same files."""
import os
import random

from . import bulk, cluster, mixed, named, pools, rings, warp
from .text import Kernel

FAMILIES = {
    "named": named.named, "rings": rings.rings, "bulk": bulk.bulk, "cluster": cluster.cluster, "pools": pools.pools,
    "mixed": mixed.mixed, "warp": warp.warp,
}
RIGHT = 0.4  # the share of kernels without a change


def kernel(family, seed, changed):
    """The text of one kernel with its head."""
    k = Kernel(seed)
    FAMILIES[family](k)
    if changed:
        # a kind first, so that what a kernel has many of is not all that is changed
        rng = random.Random(seed + ":change")
        kind = rng.choice(sorted({kind for kind, _ in k.points}))
        wanted = rng.choice([i for i, (of, _) in enumerate(k.points) if of == kind])
        k = Kernel(seed, wanted)
        FAMILIES[family](k)
        assert k.change != "none", seed
    body = k.text()
    head = [("arch", "sm_90a"), (None, k.what), ("threads", k.threads), ("cluster", k.cluster), ("n", k.n), ("hardware", "?"), ("finding", "?"),
            ("family", family), ("change", k.change)]
    return "".join(f"// {name}: {value}\n" if name else f"// {value}\n" for name, value in head) + body


def write_set(folder, seed, count, families):
    """Writes `count` kernels, the families in turn, and returns their paths."""
    os.makedirs(folder, exist_ok=True)
    rng = random.Random(seed)
    paths = []
    for number in range(count):
        family = families[number % len(families)]
        path = os.path.join(folder, f"{family}_{number // len(families):04}.ptx")
        with open(path, "w", encoding="utf-8") as out:
            out.write(kernel(family, f"{seed}:{family}:{number // len(families)}", rng.random() >= RIGHT))
        paths.append(path)
    return paths
