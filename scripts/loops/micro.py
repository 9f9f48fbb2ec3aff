"""Loops of one operation: as a chain (its latency) and side by side (its width)."""
from .skeleton import Kernel

# name: kind of the result, kinds of the further operands, text
SIMPLE = {
    "fadd": ("f", "f", "add.rn.f32 {d}, {d}, {0};"),
    "fmul": ("f", "f", "mul.rn.f32 {d}, {d}, {0};"),
    "ffma": ("f", "ff", "fma.rn.f32 {d}, {d}, {0}, {1};"),
    "fmnmx": ("f", "f", "min.f32 {d}, {d}, {0};"),
    "iadd3": ("r", "r", "add.s32 {d}, {d}, {0};"),
    "imad": ("r", "rr", "mad.lo.s32 {d}, {d}, {0}, {1};"),
    "imad_hi": ("r", "rr", "mad.hi.u32 {d}, {d}, {0}, {1};"),
    "imad_wide": ("l", "r", "{{.reg .b32 t; cvt.u32.u64 t, {d}; mad.wide.u32 {d}, t, {0}, {d};}}"),
    "iadd64": ("l", "l", "add.s64 {d}, {d}, {0};"),
    "lop3": ("r", "rr", "lop3.b32 {d}, {d}, {0}, {1}, 0x96;"),
    "shl": ("r", "r", "shl.b32 {d}, {d}, {0};"),
    "shf": ("r", "rr", "shf.l.wrap.b32 {d}, {d}, {0}, {1};"),
    "prmt": ("r", "rr", "prmt.b32 {d}, {d}, {0}, {1};"),
    "imnmx": ("r", "r", "min.s32 {d}, {d}, {0};"),
    "iabs": ("r", "r", "{{abs.s32 {d}, {d}; xor.b32 {d}, {d}, {0};}}"),
    "popc": ("r", "", "popc.b32 {d}, {d};"),
    "flo": ("r", "", "clz.b32 {d}, {d};"),
    "brev": ("r", "", "brev.b32 {d}, {d};"),
    "idp4a": ("r", "rr", "dp4a.s32.s32 {d}, {d}, {0}, {1};"),
    "isel": ("r", "rr", "{{.reg .pred q; setp.lt.s32 q, {d}, {0}; selp.b32 {d}, {0}, {1}, q;}}"),
    "fsel": ("f", "ff", "{{.reg .pred q; setp.lt.f32 q, {d}, {0}; selp.f32 {d}, {0}, {1}, q;}}"),
    "i2f": ("r", "", "{{.reg .f32 t; cvt.rn.f32.s32 t, {d}; mov.b32 {d}, t;}}"),
    "f2i": ("f", "", "{{.reg .b32 t; cvt.rni.s32.f32 t, {d}; mov.b32 {d}, t;}}"),
    "f2f_f16": ("f", "", "{{.reg .b16 t, u; .reg .b32 w; cvt.rn.f16.f32 t, {d}; mov.b32 w, {{t, t}}; mov.b32 {d}, w;}}"),
    "f16_f32": ("h", "", "{{.reg .b16 t, u; .reg .f32 w; mov.b32 {{t, u}}, {d}; cvt.f32.f16 w, t; mov.b32 {d}, w;}}"),
    "f2fp_bf16": ("f", "f", "{{.reg .b32 t; cvt.rn.bf16x2.f32 t, {d}, {0}; mov.b32 {d}, t;}}"),
    "frnd": ("f", "", "cvt.rni.f32.f32 {d}, {d};"),
    "f2f_f64": ("f", "", "{{.reg .f64 t; cvt.f64.f32 t, {d}; cvt.rn.f32.f64 {d}, t;}}"),
    "rcp": ("f", "", "rcp.approx.ftz.f32 {d}, {d};"),
    "rsqrt": ("f", "", "rsqrt.approx.ftz.f32 {d}, {d};"),
    "sqrt": ("f", "", "sqrt.approx.ftz.f32 {d}, {d};"),
    "ex2": ("f", "", "ex2.approx.ftz.f32 {d}, {d};"),
    "lg2": ("f", "", "lg2.approx.ftz.f32 {d}, {d};"),
    "sin": ("f", "", "sin.approx.ftz.f32 {d}, {d};"),
    "tanh": ("f", "", "tanh.approx.f32 {d}, {d};"),
    "ex2_h2": ("h", "", "ex2.approx.f16x2 {d}, {d};"),
    "hfma2": ("h", "hh", "fma.rn.f16x2 {d}, {d}, {0}, {1};"),
    "hadd2": ("h", "h", "add.rn.f16x2 {d}, {d}, {0};"),
    "hmul2": ("h", "h", "mul.rn.f16x2 {d}, {d}, {0};"),
    "hfma2_bf16": ("h", "hh", "fma.rn.bf16x2 {d}, {d}, {0}, {1};"),
    "hmnmx2": ("h", "h", "min.f16x2 {d}, {d}, {0};"),
    "dadd": ("d", "d", "add.rn.f64 {d}, {d}, {0};"),
    "dmul": ("d", "d", "mul.rn.f64 {d}, {d}, {0};"),
    "dfma": ("d", "dd", "fma.rn.f64 {d}, {d}, {0}, {1};"),
    "shfl": ("r", "", "shfl.sync.bfly.b32 {d}, {d}, 1, 31, -1;"),
    "shfl_idx": ("r", "r", "shfl.sync.idx.b32 {d}, {d}, {0}, 31, -1;"),
    "ballot": ("r", "r", "{{.reg .pred q; setp.lt.s32 q, {d}, {0}; vote.sync.ballot.b32 {d}, q, -1;}}"),
    "match": ("r", "", "match.any.sync.b32 {d}, {d}, -1;"),
    "redux": ("r", "", "redux.sync.add.s32 {d}, {d}, -1;"),
    "syncwarp": ("r", "r", "{{bar.warp.sync -1; add.s32 {d}, {d}, {0};}}"),
    "barrier": ("r", "r", "{{bar.sync 0; add.s32 {d}, {d}, {0};}}"),
}

MATRICES = {
    "mma_16816_f32": ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "f", 4, 4, 2),
    "mma_1688_f32": ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", "f", 4, 2, 1),
    "mma_16816_f16": ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", "h", 2, 4, 2),
    "mma_16816_bf16": ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "f", 4, 4, 2),
    "mma_1688_tf32": ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "f", 4, 4, 2),
    "mma_1684_tf32": ("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", "f", 4, 2, 1),
    "mma_16832_s8": ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", "r", 4, 4, 2),
    "mma_16816_s8": ("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", "r", 4, 2, 1),
    "mma_884_f64": ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "d", 2, 1, 1),
}


def simple(name, chains, copies):
    kind, operands, text = SIMPLE[name]
    kernel = Kernel()
    results = [kernel.keep(kernel.input(kind)) for _ in range(chains)]
    others = [kernel.input(operand) for operand in operands]
    for index in range(copies):
        kernel.body.append(text.format(*others, d=results[index % chains]))
    return kernel


def matrix(name, chains, copies):
    opcode, kind, d, a, b = MATRICES[name]
    kernel = Kernel()
    word = "d" if kind == "d" else "h"
    results = [[kernel.keep(kernel.input(kind)) for _ in range(d)] for _ in range(chains)]
    left = [kernel.input(word) for _ in range(a)]
    right = [kernel.input(word) for _ in range(b)]
    group = lambda registers: "{" + ", ".join(registers) + "}"
    for index in range(copies):
        result = group(results[index % chains])
        kernel.body.append(f"{opcode} {result}, {group(left)}, {group(right)}, {result};")
    return kernel


def address(kernel, stride):
    """A register with this thread's address in the buffer."""
    base = kernel.new("r")
    kernel.before += [
        f"mov.u32 {base}, buffer;",
        "and.b32 %i5, %i1, 31;",
        f"mad.lo.s32 {base}, %i5, {stride}, {base};",
    ]
    return base


WIDTHS = {"": (1, 4), ".v2": (2, 8), ".v4": (4, 16)}


def shared_chain(width):
    words, stride = WIDTHS[width]
    kernel = Kernel(shared=8192)
    base = address(kernel, stride)
    into = [base] + [kernel.keep(kernel.new("r")) for _ in range(words - 1)]
    kernel.before.append(f"st.shared{width}.u32 [{base}], {'{' + ', '.join([base] * words) + '}' if words > 1 else base};")
    target = "{" + ", ".join(into) + "}" if words > 1 else base
    kernel.body += [f"ld.shared{width}.u32 {target}, [{base}];"] * 8
    kernel.keep(base)
    return kernel


def shared_wide(width, load, ways=1):
    words, stride = WIDTHS[width]
    kernel = Kernel(shared=40960)
    base = address(kernel, stride * ways)
    sums = [kernel.keep(kernel.input("r")) for _ in range(8 * words)]
    for index in range(8):
        registers = sums[index * words:(index + 1) * words]
        if load:
            temporary = [kernel.new("r") for _ in registers]
            target = "{" + ", ".join(temporary) + "}" if words > 1 else temporary[0]
            kernel.body.append(f"ld.volatile.shared{width}.u32 {target}, [{base}+{index * 1024}];")
            kernel.after += [f"xor.b32 {into}, {into}, {new};" for into, new in zip(registers, temporary)]
        else:
            source = "{" + ", ".join(registers) + "}" if words > 1 else registers[0]
            kernel.body.append(f"st.volatile.shared{width}.u32 [{base}+{index * 1024}], {source};")
    return kernel


def global_chain():
    kernel = Kernel()
    kernel.before += ["mad.wide.u32 %a6, %i1, 8, %a2;", "st.global.u64 [%a6], %a6;"]
    kernel.body += ["ld.global.ca.u64 %a6, [%a6];"] * 4
    kernel.after += ["st.global.u64 [%a6+8], %a6;"]
    return kernel


def ldmatrix(count, chain, trans=False):
    kernel = Kernel(shared=16384)
    base = address(kernel, 16)
    kernel.keep(base)
    form = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if trans else ''}.shared.b16"
    if chain:
        kernel.before += [f"st.shared.v4.u32 [{base}], {{{base}, {base}, {base}, {base}}};"]
        for _ in range(4):
            registers = [base] + [kernel.keep(kernel.new("r")) for _ in range(count - 1)]
            kernel.body += [f"{form} {{{', '.join(registers)}}}, [{base}];", f"and.b32 {base}, {base}, 0x1ff0;"]
        return kernel
    sums = [kernel.keep(kernel.input("r")) for _ in range(count)]
    for index in range(8):
        registers = [kernel.new("r") for _ in range(count)]
        kernel.body.append(f"{form} {{{', '.join(registers)}}}, [{base}+{index * 512}];")
        kernel.body += [f"xor.b32 {into}, {into}, {new};" for into, new in zip(sums, registers)]
    return kernel


def atomic(chain):
    kernel = Kernel(shared=16384)
    base = address(kernel, 4)
    sums = [kernel.keep(kernel.input("r")) for _ in range(4)]
    for index in range(4):
        value = sums[0 if chain else index]
        kernel.body.append(f"atom.shared.add.u32 {value}, [{base}+{index * 128}], {value};")
    return kernel


def wgmma(n, from_registers, count, wait=0):
    """`count` multiplications of 64 × n × 16, committed and waited for in each turn."""
    kernel = Kernel(threads=None, shared=32768)
    sums = [kernel.keep(kernel.input("f")) for _ in range(n // 2)]
    descriptor = ["mov.u32 %i5, buffer;", "shr.u32 %i5, %i5, 4;", "cvt.u64.u32 %a6, %i5;",
                  "or.b64 %a6, %a6, 0x4000004000010000;"]
    kernel.before += descriptor
    registers = [kernel.input("h") for _ in range(4)]
    first = "{" + ", ".join(registers) + "}" if from_registers else "%a6"
    kernel.body.append("wgmma.fence.sync.aligned;")
    trans = ", 0" if from_registers else ", 0, 0"
    for _ in range(count):
        kernel.body.append(
            f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{', '.join(sums)}}}, {first}, %a6, 1, 1, 1{trans};")
    kernel.body += ["wgmma.commit_group.sync.aligned;", f"wgmma.wait_group.sync.aligned {wait};"]
    return kernel


def every():
    """All of them: name and kernel."""
    yield "empty", Kernel()
    for name in SIMPLE:
        copies = 8 if name in ("match", "redux", "barrier", "f2f_f64") else 32
        yield f"{name}_chain", simple(name, 1, copies)
        yield f"{name}_wide", simple(name, 8, copies)
    for name in MATRICES:
        yield f"{name}_chain", matrix(name, 1, 8)
        yield f"{name}_wide", matrix(name, 4, 16)
    for width in WIDTHS:
        tag = width.strip(".") or "v1"
        yield f"lds_{tag}_chain", shared_chain(width)
        yield f"lds_{tag}_wide", shared_wide(width, True)
        yield f"sts_{tag}_wide", shared_wide(width, False)
    for ways in (2, 4, 8):
        yield f"lds_v1_ways{ways}", shared_wide("", True, ways)
        yield f"sts_v1_ways{ways}", shared_wide("", False, ways)
    yield "ldg_chain", global_chain()
    for count in (1, 2, 4):
        yield f"ldmatrix_x{count}_chain", ldmatrix(count, True)
        yield f"ldmatrix_x{count}_wide", ldmatrix(count, False)
    yield "ldmatrix_x4_trans_wide", ldmatrix(4, False, True)
    yield "atoms_chain", atomic(True)
    yield "atoms_wide", atomic(False)
    for n in (8, 16, 32, 64, 96, 128, 192, 256):
        yield f"wgmma_{n}_ss", wgmma(n, False, 4)
        yield f"wgmma_{n}_rs", wgmma(n, True, 4)
    yield "wgmma_64_one", wgmma(64, False, 1)
    yield "wgmma_128_one", wgmma(128, False, 1)
    yield "wgmma_64_two", wgmma(64, False, 2)
    yield "wgmma_64_eight", wgmma(64, False, 8)
    # How long bodies fare: instructions beyond what the first caches hold.
    for copies in (96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096):
        yield f"long_ffma_{copies}", simple("ffma", 8, copies)
        yield f"long_lop3_{copies}", simple("lop3", 8, copies)


# What meets in a pair shows which pipe it goes to.
PAIRED = [
    "fadd", "fmul", "imad", "imad_wide", "hadd2", "hfma2", "f16_f32", "lop3", "shf", "prmt", "iadd3", "i2f", "fmnmx", "isel",
    "f2fp_bf16", "idp4a", "ex2", "popc", "shfl", "dadd", "ballot", "imnmx", "iadd64",
]


def pair(first, second, copies=16):
    kernel = Kernel()
    pools = {}
    for which, name in enumerate((first, second)):
        kind, operands, _ = SIMPLE[name]
        pools[which] = ([kernel.keep(kernel.input(kind)) for _ in range(6)], [kernel.input(operand) for operand in operands])
    for index in range(copies):
        for which, name in enumerate((first, second)):
            results, others = pools[which]
            kernel.body.append(SIMPLE[name][2].format(*others, d=results[index % 6]))
    return kernel


def pairs():
    for index, first in enumerate(PAIRED):
        for second in PAIRED[index + 1:]:
            yield f"pair_{first}-{second}", pair(first, second)
    for name in ("fadd", "lop3", "imad", "hadd2", "ex2", "ffma", "prmt"):
        for copies in (1, 2, 3, 4, 6, 8, 12, 16, 24):
            yield f"short_{name}_{copies}", simple(name, min(copies, 8), copies)


def toggled(width, load, space="global", copies=8):
    """Accesses whose address changes from turn to turn, so that none is hoisted."""
    words, stride = WIDTHS[width]
    kernel = Kernel()
    group = lambda names: "{" + ", ".join(names) + "}" if words > 1 else names[0]
    sums = [kernel.keep(kernel.input("r")) for _ in range(copies * words)]
    if space == "local":
        kernel.before += [".local .align 16 .b8 own[512];", "mov.u64 %a6, own;", "cvt.u64.u32 %a7, %i0;", "and.b64 %a7, %a7, 0;", "add.u64 %a6, %a6, %a7;"]
        name, toggle, step = "local", 256, 16
    else:
        kernel.before += ["and.b32 %i5, %i1, 31;", f"mad.wide.u32 %a6, %i5, {stride}, %a{1 if load else 2};"]
        name, toggle, step = "global.ca" if load else "global", 8192, 512
    for index in range(copies):
        registers = sums[index * words:(index + 1) * words]
        if load:
            temporary = [kernel.new("r") for _ in registers]
            kernel.body.append(f"ld.{name}{width}.u32 {group(temporary)}, [%a6+{index * step}];")
            kernel.body += [f"xor.b32 {into}, {into}, {new};" for into, new in zip(registers, temporary)]
        else:
            kernel.body.append(f"st.{name}{width}.u32 [%a6+{index * step}], {group(registers)};")
    kernel.body.append(f"xor.b64 %a6, %a6, {toggle};")
    return kernel


def chase(stride, count):
    """A chain through global memory: each thread of the block follows its own pointers, `stride` bytes apart."""
    kernel = Kernel()
    kernel.before += [
        "mov.u64 %a6, %a2;", f"mov.u32 %i5, {count};", "FILL:", f"add.u64 %a7, %a6, {stride};", "st.global.u64 [%a6], %a7;",
        "mov.u64 %a6, %a7;", "add.s32 %i5, %i5, -1;", "setp.ne.s32 %p1, %i5, 0;", "@%p1 bra FILL;", "st.global.u64 [%a6], %a2;", "mov.u64 %a6, %a2;",
    ]
    kernel.body += ["ld.global.ca.u64 %a6, [%a6];"] * 4
    kernel.after += ["st.global.u64 [%a2], %a6;"]
    return kernel


def more():
    """Memory in its other forms."""
    for width in WIDTHS:
        tag = width.strip(".") or "v1"
        yield f"ldg_{tag}_toggled", toggled(width, True)
        yield f"stg_{tag}_toggled", toggled(width, False)
        yield f"ldl_{tag}_toggled", toggled(width, True, "local")
        yield f"stl_{tag}_toggled", toggled(width, False, "local")
    yield "chase_l1", chase(128, 64)
    yield "chase_l2", chase(4096, 2000)
