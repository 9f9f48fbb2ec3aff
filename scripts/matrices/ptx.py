"""The kernel of one instruction: each thread's registers come from memory, the instruction runs once, its results go back."""
from .fragments import register_bits
from .forms import parts

HEAD = """// {opcode}
.version 8.7
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 image[];
.visible .entry k(.param .u64 p_in, .param .u64 p_out, .param .u64 p_image, .param .u32 p_bytes, .param .u64 p_a, .param .u64 p_b,
    .param .u32 p_metadata)
.maxntid {threads}
{{
.reg .pred %p<4>;
.reg .b32 %t, %base, %at, %end, %word, %address, %metadata, %r<{words}>;
.reg .b64 %in, %out, %image, %a, %b, %from, %d<{doubles}>;
mov.u32 %t, %tid.x;
mov.u32 %base, image;
ld.param.u64 %in, [p_in];
ld.param.u64 %out, [p_out];
ld.param.u64 %image, [p_image];
ld.param.u32 %end, [p_bytes];
ld.param.u64 %a, [p_a];
ld.param.u64 %b, [p_b];
ld.param.u32 %metadata, [p_metadata];
cvta.to.global.u64 %in, %in;
cvta.to.global.u64 %out, %out;
cvta.to.global.u64 %image, %image;
mad.wide.u32 %in, %t, {in_bytes}, %in;
mad.wide.u32 %out, %t, {out_bytes}, %out;
shl.b32 %at, %t, 2;
fill: setp.ge.u32 %p0, %at, %end;
@%p0 bra filled;
cvt.u64.u32 %from, %at;
add.u64 %from, %image, %from;
ld.global.b32 %word, [%from];
add.u32 %address, %base, %at;
st.shared.b32 [%address], %word;
add.u32 %at, %at, {step};
bra fill;
filled: fence.proxy.async;
bar.sync 0;
setp.eq.u32 %p1, 0, 0;
"""

BACK = """bar.sync 0;
shl.b32 %at, %t, 2;
drain: setp.ge.u32 %p0, %at, %end;
@%p0 bra drained;
cvt.u64.u32 %from, %at;
add.u64 %from, %image, %from;
add.u32 %address, %base, %at;
ld.shared.b32 %word, [%address];
st.global.b32 [%from], %word;
add.u32 %at, %at, {step};
bra drain;
drained:
"""


class Banks:
    """Registers handed out by operand, with where each lies in memory."""

    def __init__(self):
        self.words, self.doubles, self.offset = 0, 0, 0

    def take(self, layouts):
        """(names, [(name, bits, offset)]) of the registers of layouts."""
        found = []
        for layout in layouts:
            bits = register_bits(layout)
            for _ in layout["registers"]:
                if bits == 64:
                    name, self.doubles = f"%d{self.doubles}", self.doubles + 1
                else:
                    name, self.words = f"%r{self.words}", self.words + 1
                found.append((name, bits, self.offset))
                self.offset += bits // 8
        return "{" + ", ".join(name for name, _, _ in found) + "}", found


def operands(job):
    """(what is read, what is written) as layouts, in the order of memory."""
    layouts = {layout["operand"]: layout for layout in job["layouts"]}
    family = job["family"]
    if family.startswith("mma"):
        return [layouts["A"], layouts["B"], layouts["C"]], [layouts["D"]]
    if family in ("ldmatrix", "stmatrix"):
        return ([], job["layouts"]) if family == "ldmatrix" else (job["layouts"], [])
    if family == "movmatrix":
        return [job["layouts"][1]], [job["layouts"][0]]
    return [layouts["D"]] + ([layouts["A"]] if job["a"] == "registers" else []), [layouts["D"]]


def instruction(job, read, written):
    """Its text, with the vectors of registers that it reads and writes."""
    opcode, family = job["opcode"], job["family"]
    if family == "mma":
        return f"{opcode} {written}, {', '.join(read)};"
    if family == "mma.sp":
        return f"{opcode} {written}, {', '.join(read)}, %metadata, 0x0;"
    if family == "ldmatrix":
        return f"{opcode} {written}, [%address];"
    if family == "stmatrix":
        return f"{opcode} [%address], {read[0]};"
    if family == "movmatrix":
        return f"{opcode} {written.strip('{}')}, {read[0].strip('{}')};"
    (_, _, k), types, _ = parts(opcode)
    factors = [read[1] if job["a"] == "registers" else "%a", "%b"]
    metadata = ["%metadata", "0"] if family == "wgmma.sp" else []
    scales = ["%p1"] + (["1", "1"] if types[0] != "s32" else [])
    if types[1] in ("f16", "bf16"):
        scales += [str(way) for way in (job["transposed"][1:] if job["a"] == "registers" else job["transposed"])]
    multiply = f"{opcode} {', '.join([read[0], *factors, *metadata, *scales])};"
    return "\n".join(["wgmma.fence.sync.aligned;", multiply, "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"])


def threads(job):
    return 32 * job["layouts"][0]["warps"]


def addresses(job):
    """Whether each thread reads the address of a row first."""
    return job["family"] in ("ldmatrix", "stmatrix")


def sizes(job):
    """Bytes of each thread: (read, written)."""
    def of(layouts):
        return sum(len(layout["registers"]) * register_bits(layout) // 8 for layout in layouts)

    read, written = operands(job)
    return of(read) + 4 * addresses(job), of(written)


def kernel(job):
    read, written = operands(job)
    banks = Banks()
    banks.offset = 4 * addresses(job)
    loads, vectors = [], []
    # the matrices of stmatrix are one operand
    for layouts in [read] if addresses(job) else [[layout] for layout in read]:
        text, registers = banks.take(layouts)
        vectors.append(text)
        loads += [f"ld.global.b{bits} {name}, [%in+{offset}];" for name, bits, offset in registers]
    if addresses(job):
        loads += ["ld.global.b32 %address, [%in];", "add.u32 %address, %address, %base;"]
    if job["family"].startswith(("wgmma", "descriptors")):
        # D is read and written
        stores = [line.replace("ld.", "st.").replace("%in", "%out").replace(";", "").split(" ")
                  for line in loads[:len(read[0]["registers"])]]
        stores = [f"{op} {place}, {name.rstrip(',')};" for op, name, place in stores]
        own = vectors[0]
    else:
        banks.offset = 0
        own, registers = banks.take(written)
        stores = [f"st.global.b{bits} [%out+{offset}], {name};" for name, bits, offset in registers]
    read_bytes, written_bytes = sizes(job)
    step = 4 * threads(job)
    head = HEAD.format(opcode=job["opcode"], threads=threads(job), words=banks.words + 1, doubles=banks.doubles + 1, step=step,
                       in_bytes=read_bytes, out_bytes=written_bytes)
    back = BACK.format(step=step) if job["family"] == "stmatrix" else ""
    return head + "\n".join([*loads, instruction(job, vectors, own), *stores]) + "\n" + back + "ret;\n}\n"
