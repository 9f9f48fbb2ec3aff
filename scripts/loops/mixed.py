"""Random loops: operations of one family or of several, on values that earlier operations made."""
import random

from . import micro
from .skeleton import Kernel

FAMILIES = {
    "fp32": ["fadd", "fmul", "ffma", "ffma", "ffma", "fmnmx"],
    "int": ["iadd3", "imad", "lop3", "shf", "shl", "prmt", "imnmx", "iadd64", "imad_wide", "idp4a", "popc", "isel"],
    "fp16": ["hfma2", "hfma2", "hadd2", "hmul2", "hfma2_bf16", "hmnmx2"],
    "transcendental": ["ex2", "rcp", "rsqrt", "lg2", "sin", "tanh", "ffma", "fmul", "fadd"],
    "convert": ["i2f", "f2i", "f2f_f16", "f16_f32", "f2fp_bf16", "frnd", "fmul", "iadd3"],
    "fp64": ["dadd", "dmul", "dfma", "iadd3", "ffma"],
    "warp": ["shfl", "shfl_idx", "ballot", "fadd", "iadd3", "lop3"],
}
FAMILIES["mixed"] = sorted(set(FAMILIES["fp32"] + FAMILIES["int"] + FAMILIES["fp16"] + ["ex2", "rcp", "i2f", "shfl"]))


def arithmetic(rng, kernel, family, count, pools):
    for _ in range(count):
        name = rng.choice(FAMILIES[family])
        kind, operands, text = micro.SIMPLE[name]
        pick = lambda wanted: rng.choice(pools[wanted])
        result = pick(kind)
        if rng.random() < 0.25:
            # A fresh value from an older one: the two go on apart.
            fresh = rng.choice(pools[kind])
            if kind in "fd":
                kernel.body.append(f"add.rn.f{32 if kind == 'f' else 64} {fresh}, {result}, {pick(kind)};")
            elif kind in "rh":
                kernel.body.append(f"xor.b32 {fresh}, {result}, {pick(kind)};")
        kernel.body.append(text.format(*[pick(operand) for operand in operands], d=result))


def shared(rng, kernel, count, pools):
    base = pools["base"]
    for _ in range(count):
        width = rng.choice(["", ".v2", ".v4"])
        words, stride = micro.WIDTHS[width]
        offset = rng.randrange(16) * 512
        group = lambda names: "{" + ", ".join(names) + "}" if words > 1 else names[0]
        if rng.random() < 0.7:
            into = [kernel.new("r") for _ in range(words)]
            kernel.body.append(f"ld.volatile.shared{width}.u32 {group(into)}, [{base[words]}+{offset}];")
            for name in into:
                target = rng.choice(pools["r"])
                kernel.body.append(f"{rng.choice(['add.s32', 'xor.b32'])} {target}, {target}, {name};")
        else:
            source = [rng.choice(pools["r"]) for _ in range(words)]
            kernel.body.append(f"st.volatile.shared{width}.u32 [{base[words]}+{offset}], {group(source)};")


def matrices(rng, kernel, count, name, accumulators, factors):
    opcode, kind, d, a, b = micro.MATRICES[name]
    group = lambda names: "{" + ", ".join(names) + "}"
    for _ in range(count):
        sums = rng.choice(accumulators)
        left = factors[0][:a] if rng.random() < 0.5 else factors[1][:a]
        kernel.body.append(f"{opcode} {group(sums)}, {group(left)}, {group(factors[2][:b])}, {group(sums)};")


def one(seed):
    rng = random.Random(seed)
    family = rng.choice(sorted(FAMILIES) + ["shared", "shared", "mma", "mma", "gemm", "l1", "wgmma"])
    kernel = Kernel(shared=16384)
    if family == "wgmma":
        n = rng.choice([8, 16, 24, 32, 64, 96, 128, 160, 256])
        kernel = micro.wgmma(n, rng.random() < 0.4, rng.choice([1, 2, 3, 4, 8]))
        values = [kernel.keep(kernel.input("f")) for _ in range(rng.choice([2, 4, 8]))]
        work = rng.randrange(0, 24)
        for _ in range(work):
            a, b, c = (rng.choice(values) for _ in range(3))
            kernel.body.insert(1, f"fma.rn.f32 {a}, {b}, {c}, {a};")
        return f"{family}_{seed}", kernel
    pools = {kind: [kernel.keep(kernel.input(kind)) for _ in range(rng.choice([2, 3, 4, 6, 8]))] for kind in ("f", "r", "h")}
    if family == "fp64":
        pools["d"] = [kernel.keep(kernel.input("d")) for _ in range(rng.choice([1, 2, 4]))]
    if family in ("int", "mixed"):
        pools["l"] = [kernel.keep(kernel.input("l")) for _ in range(rng.choice([1, 2, 3]))]
    count = rng.choice([6, 12, 20, 32, 48, 64, 96])
    if family in ("shared", "gemm", "mixed"):
        pools["base"] = {words: micro.address(kernel, stride) for words, stride in micro.WIDTHS.values()}
    if family == "shared":
        for _ in range(rng.randrange(1, 5)):
            shared(rng, kernel, rng.randrange(1, 6), pools)
            arithmetic(rng, kernel, rng.choice(["fp32", "fp16"]), rng.randrange(0, 16), pools)
        if rng.random() < 0.3:
            kernel.body.append("bar.sync 0;")
    elif family == "l1":
        kernel.before += ["and.b32 %i5, %i1, 31;", "mad.wide.u32 %a6, %i5, 4, %a1;"]
        for _ in range(rng.randrange(1, 8)):
            value = kernel.new("f")
            kernel.body.append(f"ld.global.ca.f32 {value}, [%a6+{rng.randrange(32) * 128}];")
            target = rng.choice(pools["f"])
            kernel.body.append(f"fma.rn.f32 {target}, {value}, {rng.choice(pools['f'])}, {target};")
            arithmetic(rng, kernel, "fp32", rng.randrange(0, 12), pools)
    elif family in ("mma", "gemm"):
        name = rng.choice(sorted(name for name in micro.MATRICES if "f64" not in name))
        opcode, kind, d, a, b = micro.MATRICES[name]
        accumulators = [[kernel.keep(kernel.input(kind)) for _ in range(d)] for _ in range(rng.choice([1, 2, 4, 6, 8]))]
        factors = [[kernel.input("h") for _ in range(4)] for _ in range(3)]
        for _ in range(rng.randrange(1, 4)):
            if family == "gemm":
                for factor in factors:
                    kernel.body.append(f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{', '.join(factor)}}}, [{pools['base'][4]}+{rng.randrange(16) * 512}];")
            matrices(rng, kernel, rng.choice([2, 4, 8, 12]), name, accumulators, factors)
            arithmetic(rng, kernel, rng.choice(["fp32", "int" if "l" in pools else "fp16"]), rng.randrange(0, 12), pools)
    else:
        arithmetic(rng, kernel, family, count, pools)
    return f"{family}_{seed}", kernel


def many(seed, count):
    for index in range(count):
        yield one(seed * 100000 + index)
