"""Loops that ask what shares a way: stores beside loads, copies and their groups, fences, barriers, matrices of a warp group beside all these."""
from .skeleton import Kernel

FORMS = {4: "f32", 8: "v2.f32", 16: "v4.f32"}
# A number that is 0, which nobody can fold: what addresses grow by.
ZERO = "ld.global.u64 %a7, [%a2+8388608];"
FENCES = {"block": "membar.cta;", "shared": "fence.proxy.async.shared::cta;", "all": "fence.proxy.async;"}


def words(registers):
    return registers[0] if len(registers) == 1 else "{" + ", ".join(registers) + "}"


def stores(width, loads, count, same):
    """Loads and stores of each thread's own words, the stores where the loads were or elsewhere."""
    kernel = Kernel()
    kernel.before += [ZERO, "mov.u32 %i5, %tid.x;", f"mad.wide.u32 %a6, %i5, {width}, %a2;", "add.s64 %a6, %a6, 4194304;"]
    kernel.before += ["mov.b64 %a8, %a6;" if same else "add.s64 %a8, %a6, 2097152;"]
    sums, stored = [], []
    for place in range(max(loads, count)):
        if place < loads:
            held = [kernel.new("f") for _ in range(width // 4)]
            kernel.body.append(f"ld.global.{FORMS[width]} {words(held)}, [%a6+{place * 16384}];")
            total = kernel.keep(kernel.input("f"))
            sums += [f"add.f32 {total}, {total}, {one};" for one in held]
        else:
            held = [kernel.input("f") for _ in range(width // 4)]
        if place < count:
            stored.append(f"st.global.{FORMS[width]} [%a8+{place * 16384}], {words(held)};")
    kernel.body += sums + stored + ["add.s64 %a6, %a6, %a7;", "add.s64 %a8, %a8, %a7;"]
    return kernel


def into_shared(kernel, width, row):
    """Addresses of copies: rows of so many bytes, far apart."""
    lanes = min(32, row // width)
    kernel.before += [
        ZERO, "mov.u32 %i5, %tid.x;", f"and.b32 %i6, %i5, {lanes - 1};", f"div.u32 %i5, %i5, {lanes};", "and.b32 %i5, %i5, 255;",
        f"mul.lo.u32 %i5, %i5, {4096 if row < 512 else 512};", f"mad.lo.u32 %i5, %i6, {width}, %i5;", "cvt.u64.u32 %a6, %i5;",
        "add.s64 %a6, %a6, %a2;", "mov.u32 %i5, %tid.x;", "and.b32 %i5, %i5, 127;", f"mul.lo.u32 %i5, %i5, {width};",
        "mov.u32 %i6, buffer;", "add.u32 %i5, %i5, %i6;",
    ]


def copies(way, width, row, count, groups, left):
    kernel = Kernel(shared=32768)
    into_shared(kernel, width, row)
    for place in range(count):
        kernel.body.append(f"cp.async.{way}.shared.global [%i5+{place * 8192}], [%a6+{place * 1024}], {width};")
        if (place + 1) % (count // groups) == 0:
            kernel.body.append("cp.async.commit_group;")
    kernel.body += [f"cp.async.wait_group {left};", "add.s64 %a6, %a6, %a7;"]
    return kernel


def scattered(width, lines, ways):
    """Copies of a warp whose lanes touch so many lines of global memory, so many of them in one bank of shared memory."""
    kernel, of_line = Kernel(shared=20480), 32 // lines
    kernel.before += [
        ".reg .b32 %q<2>;", ZERO, "mov.u32 %i5, %tid.x;", "and.b32 %i6, %i5, 31;", "shr.u32 %i5, %i5, 5;", "and.b32 %i5, %i5, 3;",
        "mul.lo.u32 %i7, %i5, 512;", f"div.u32 %q0, %i6, {of_line};", "mad.lo.u32 %i7, %q0, 2048, %i7;", f"and.b32 %q0, %i6, {of_line - 1};",
        f"mad.lo.u32 %i7, %q0, {width}, %i7;", "cvt.u64.u32 %a6, %i7;", "add.s64 %a6, %a6, %a2;", f"div.u32 %q0, %i6, {ways};",
        f"and.b32 %q1, %i6, {ways - 1};", f"mul.lo.u32 %i7, %q0, {width};", f"mad.lo.u32 %i7, %q1, {512 if width == 16 else 128}, %i7;",
        "mov.u32 %i6, buffer;", "add.u32 %i5, %i7, %i6;",
    ]
    for place in range(8):
        beside = place * 64 % 512 if lines > 1 else place * 512
        kernel.body.append(f"cp.async.ca.shared.global [%i5+{place * 4096 % 16384}], [%a6+{beside}], {width};")
    kernel.body += ["cp.async.commit_group;", "cp.async.wait_group 0;", "add.s64 %a6, %a6, %a7;"]
    return kernel


def fences(text, count, work):
    kernel = Kernel(shared=16384)
    sums, factor = [kernel.keep(kernel.input("f")) for _ in range(8)], kernel.input("f")
    for _ in range(count):
        kernel.body.append(text)
        kernel.body += [f"fma.rn.f32 {sums[place % 8]}, {sums[place % 8]}, {factor}, {factor};" for place in range(work)]
    return kernel


def barriers(count):
    kernel = Kernel()
    total, factor = kernel.keep(kernel.input("f")), kernel.input("f")
    for _ in range(count):
        kernel.body += ["bar.sync 0;", f"fma.rn.f32 {total}, {total}, {factor}, {factor};"]
    return kernel


def matrices(columns, fence, copied=0, stored=0, barred=False):
    """Two multiplications of a warp group a turn, with copies or stores to shared memory beside them."""
    kernel = Kernel(shared=40960)
    into_shared(kernel, 16, 512)
    kernel.before += ["and.b32 %i6, %i6, 262143;", "shr.u32 %i6, %i6, 4;", "cvt.u64.u32 %a8, %i6;", f"or.b64 %a8, %a8, {1 << 62 | 64 << 32 | 1 << 16};"]
    sums = ", ".join(kernel.keep(kernel.input("f")) for _ in range(columns // 2))
    kept = ", ".join(kernel.input("r") for _ in range(4))
    kernel.body += ["bar.sync 0;"] * barred
    kernel.body += [f"st.shared.v4.b32 [%i5+{24576 + place * 2048}], {{{kept}}};" for place in range(stored)]
    kernel.body += [FENCES["shared"]] * fence + ["bar.sync 0;"] * barred + ["wgmma.fence.sync.aligned;"]
    kernel.body += [f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16 {{{sums}}}, %a8, %a8, 1, 1, 1, 0, 0;"] * 2
    kernel.body.append("wgmma.commit_group.sync.aligned;")
    kernel.body += [f"cp.async.cg.shared.global [%i5+{16384 + place * 2048}], [%a6+{place * 1024}], 16;" for place in range(copied)]
    kernel.body += ["cp.async.commit_group;"] * (copied > 0) + ["wgmma.wait_group.sync.aligned 0;"]
    kernel.body += ["cp.async.wait_group 2;"] * (copied > 0) + ["add.s64 %a6, %a6, %a7;"]
    return kernel


def every():
    for width in FORMS:
        for loads, count in ((4, 0), (0, 4), (4, 1), (4, 2), (4, 4), (1, 4), (8, 6)):
            yield f"stores_{width}_{loads}_{count}", stores(width, loads, count, False)
            if loads and count:
                yield f"stores_{width}_{loads}_{count}_same", stores(width, loads, count, True)
    for way, width in (("cg", 16), ("ca", 16), ("ca", 8), ("ca", 4)):
        for row in (row for row in (64, 128, 512) if row >= 4 * width):
            for count, left in ((2, 0), (2, 2), (4, 0), (4, 2)):
                yield f"copies_{way}{width}_{row}_{count}_{left}", copies(way, width, row, count, 1, left)
        for groups in (2, 4):
            yield f"copies_{way}{width}_groups_{groups}", copies(way, width, 512, 4, groups, 8)
    for width, lines, ways in ((width, 1 << lines, 1 << ways) for width in (4, 8, 16) for lines in range(6) for ways in range(6)):
        if width * 32 // lines <= 128 and width * ways <= 128:
            yield f"scattered_{width}_{lines}_{ways}", scattered(width, lines, ways)
    for name, text in FENCES.items():
        for count, work in ((1, 0), (1, 16), (2, 0), (2, 16)):
            yield f"fence_{name}_{count}_{work}", fences(text, count, work)
    for count in (1, 2, 4):
        yield f"barriers_{count}", barriers(count)
    for columns in (64, 128):
        for fence in (0, 1):
            for copied in (0, 1, 2, 4):
                yield f"wgmma_{columns}_copies_{copied}_fence_{fence}", matrices(columns, fence, copied=copied)
    for stored in (2, 4, 8):
        for barred in (False, True):
            yield f"wgmma_64_stores_{stored}_{'barred' if barred else 'free'}", matrices(64, 1, stored=stored, barred=barred)
