"""Random loops, each with more work for one pipe: whether what an estimate names as the bound is what bounds it."""
from . import mixed

# Twelve cycles of a pipe for each warp: copies, operation, kind.
MORE = {
    "FMA": (12, "fma.rn.f32 {0}, {0}, {0}, {0};", "f"),
    "FMA (heavy half)": (6, "mad.lo.s32 {0}, {0}, {0}, {0};", "r"),
    "ALU": (6, "lop3.b32 {0}, {0}, {1}, {2}, 0x96;", "r"),
    "XU": (2, "ex2.approx.ftz.f32 {0}, {0};", "f"),
    "load/store of the SM": (3, "shfl.sync.bfly.b32 {0}, {0}, 1, 31, -1;", "r"),
}
FAMILIES = {"fp32", "int", "fp16", "transcendental", "convert", "mixed", "warp"}


def many(seed, count):
    """Each loop as it is, and with more work for one pipe after the other."""
    index = made = 0
    while made < count:
        index += 1
        name, _ = mixed.one(seed * 100000 + index)
        if name.split("_")[0] not in FAMILIES:
            continue
        made += 1
        yield f"{name}.as_it_is", mixed.one(seed * 100000 + index)[1]
        for pipe, (copies, text, kind) in MORE.items():
            kernel = mixed.one(seed * 100000 + index)[1]
            registers = [kernel.keep(kernel.input(kind)) for _ in range(4)]
            for copy in range(copies):
                kernel.body.append(text.format(*(registers[(copy + offset) % 4] for offset in range(3))))
            yield f"{name}.{pipe.replace(' ', '_').replace('/', '-')}", kernel
