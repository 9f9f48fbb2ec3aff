"""The matrix instructions of sm_80 to sm_90a."""
import re

from .values import BITS


def parts(opcode):
    """((m, n, k), types, whether it is sparse) of a multiplication."""
    shape = tuple(map(int, re.search(r"\.m(\d+)n(\d+)k(\d+)", opcode).groups()))
    words = opcode.split(".")
    return shape, [word for word in words if word in BITS], any(word == "sp" or word.startswith("sp::") for word in words)


def form(family, opcode, **more):
    return {"family": family, "opcode": opcode, **more}


def dense():
    """`mma.sync`."""
    def one(shape, d, a, b, tail="", layouts="row.col", c=None):
        return form("mma", f"mma.sync.aligned.{shape}.{layouts}.{d}.{a}.{b}.{c or d}{tail}")

    for layouts in ("row.row", "row.col", "col.row", "col.col"):
        for d, c in (("f16", "f16"), ("f32", "f32"), ("f32", "f16")):
            yield one("m8n8k4", d, "f16", "f16", layouts=layouts, c=c)
    for shape in ("m16n8k8", "m16n8k16"):
        yield from (one(shape, d, a, a) for d, a in (("f16", "f16"), ("f32", "f16"), ("f32", "bf16")))
    yield from (one(shape, "f32", "tf32", "tf32") for shape in ("m16n8k4", "m16n8k8"))
    yield from (one(shape, "f64", "f64", "f64") for shape in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"))
    for types, d, shapes in ((("e4m3", "e5m2"), ("f16", "f32"), ("m16n8k16", "m16n8k32")),
                             (("s8", "u8"), ("s32",), ("m8n8k16", "m16n8k16", "m16n8k32")),
                             (("s4", "u4"), ("s32",), ("m8n8k32", "m16n8k32", "m16n8k64"))):
        yield from (one(shape, sum, a, b) for shape in shapes for sum in d for a in types for b in types)
    for shape in ("m8n8k128", "m16n8k128", "m16n8k256"):
        yield from (one(shape, "s32", "b1", "b1", f".{op}.popc") for op in ("xor", "and"))


def sparse():
    """`mma.sp`."""
    for variant in ("sp", "sp::ordered_metadata"):
        def one(shape, d, a, b):
            return form("mma.sp", f"mma.{variant}.sync.aligned.{shape}.row.col.{d}.{a}.{b}.{d}")

        for shape in ("m16n8k16", "m16n8k32"):
            yield from (one(shape, d, a, a) for d, a in (("f16", "f16"), ("f32", "f16"), ("f32", "bf16")))
        yield from (one(shape, "f32", "tf32", "tf32") for shape in ("m16n8k8", "m16n8k16"))
        for types, d, shapes in ((("e4m3", "e5m2"), "f32", ("m16n8k64",)), (("s8", "u8"), "s32", ("m16n8k32", "m16n8k64")),
                                 (("s4", "u4"), "s32", ("m16n8k64", "m16n8k128"))):
            yield from (one(shape, d, a, b) for shape in shapes for a in types for b in types)


# D, A, B, K of a dense one.
WARPGROUP = ([(d, "f16", "f16", 16) for d in ("f16", "f32")] + [("f32", "bf16", "bf16", 16), ("f32", "tf32", "tf32", 8)]
             + [(d, a, b, 32) for d in ("f16", "f32") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
             + [("s32", a, b, 32) for a in ("s8", "u8") for b in ("s8", "u8")] + [("s32", "b1", "b1", 256)])


def widths(d):
    """Every N that there is."""
    return [n for n in range(8, 257, 8) if d != "s32" or n <= 32 or n % 16 == 0]


def warpgroup():
    """`wgmma`: every N, with A in registers and in shared memory in turn; some with both."""
    for d, a, b, k in WARPGROUP:
        for at, n in enumerate(widths(d)):
            opcode = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{d}.{a}.{b}" + (".and.popc" if a == "b1" else "")
            for place in (0, 1) if n in (8, 64, 256) else (at % 2,):
                yield form("wgmma", opcode, a=("registers", "shared memory")[place], transposed=[0, 0])
    for d, a, b, k in WARPGROUP[:-1]:
        for n in (8, 24, 128, 256):
            opcode = f"wgmma.mma_async.sp.sync.aligned.m64n{n}k{2 * k}.{d}.{a}.{b}"
            for place in ("registers", "shared memory"):
                yield form("wgmma.sp", opcode, a=place, transposed=[0, 0])


def described():
    """`wgmma` with many descriptors: of every size of an element K-major, of 16 bits in all four ways."""
    opcode = "wgmma.mma_async.sync.aligned.m64n{}k{}.{}.{}.{}".format
    for transposed in ([0, 0], [0, 1], [1, 0], [1, 1]):
        for n, a in ((64, "f16"), (256, "bf16"), (8, "f16"), (136, "f16")):
            yield form("descriptors", opcode(n, 16, "f32", a, a), a="shared memory", transposed=transposed, count=8)
    for n, k, d, a in ((128, 8, "f32", "tf32"), (96, 32, "f32", "e4m3"), (192, 32, "s32", "s8")):
        yield form("descriptors", opcode(n, k, d, a, a), a="shared memory", transposed=[0, 0], count=8)


def moved():
    """`ldmatrix`, `stmatrix`, `movmatrix`."""
    for name in ("ldmatrix", "stmatrix"):
        for count in ("x1", "x2", "x4"):
            yield from (form(name, f"{name}.sync.aligned.m8n8.{count}{way}.shared.b16") for way in ("", ".trans"))
    yield form("movmatrix", "movmatrix.sync.aligned.m8n8.trans.b16")


def every():
    return [*dense(), *sparse(), *warpgroup(), *described(), *moved()]
