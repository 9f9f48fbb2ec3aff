"""The kernel around a loop: registers with values that nobody can fold, a clock on either side, and a sink for every result."""

HEAD = """.version 8.3
.target sm_90a
.address_size 64
{declarations}
.visible .entry loop(.param .u64 clocks, .param .u64 data, .param .u64 sink, .param .u32 turns)
{bounds}{{
"""

# One set of registers of each kind: f32, s32, f64, packed halves, 64-bit integers, predicates.
KINDS = {"f": (".f32", "f"), "r": (".b32", "r"), "d": (".f64", "d"), "h": (".b32", "h"), "l": (".b64", "l")}


class Kernel:
    """Collects lines; `text` is the whole file."""

    def __init__(self, threads=None, shared=0):
        self.counts = {kind: 0 for kind in KINDS}
        self.before, self.body, self.after = [], [], []
        self.inputs = {kind: [] for kind in KINDS}
        self.outputs = []
        self.threads = threads
        self.shared = shared

    def new(self, kind):
        self.counts[kind] += 1
        return f"%{KINDS[kind][1]}{self.counts[kind] - 1}"

    def input(self, kind):
        """A register with a value from memory."""
        register = self.new(kind)
        self.inputs[kind].append(register)
        return register

    def keep(self, register):
        """Its value is stored after the loop."""
        self.outputs.append(register)
        return register

    def text(self):
        bounds = f".reqntid {self.threads}, 1, 1\n" if self.threads else ""
        shared = f".shared .align 1024 .b8 buffer[{self.shared}];\n" if self.shared else ""
        lines = [HEAD.format(declarations=shared, bounds=bounds)]
        for kind, (form, letter) in KINDS.items():
            lines.append(f"  .reg {form} %{letter}<{self.counts[kind] + 1}>;\n")
        lines.append("  .reg .b32 %i<8>;\n  .reg .b64 %a<12>;\n  .reg .pred %p<8>;\n")
        put = lambda text: lines.append("  " + text + "\n")
        put("ld.param.u64 %a0, [clocks];")
        put("ld.param.u64 %a1, [data];")
        put("ld.param.u64 %a2, [sink];")
        put("ld.param.u32 %i0, [turns];")
        put("cvta.to.global.u64 %a0, %a0;")
        put("cvta.to.global.u64 %a1, %a1;")
        put("cvta.to.global.u64 %a2, %a2;")
        put("mov.u32 %i1, %tid.x;")
        put("mad.wide.u32 %a3, %i1, 8, %a1;")
        for kind, registers in self.inputs.items():
            form = {"f": "f32", "r": "u32", "d": "f64", "h": "b32", "l": "u64"}[kind]
            base = {"f": 0, "r": 65536, "d": 131072, "h": 196608, "l": 262144}[kind]
            for index, register in enumerate(registers):
                put(f"ld.global.{form} {register}, [%a3+{base + 16 * (index % 64) * 8}];")
        for line in self.before:
            put(line)
        put("bar.sync 0;")
        put("mov.u64 %a4, %clock64;")
        lines.append("TURN:\n  .pragma \"nounroll\";\n")
        for line in self.body:
            put(line)
        put("add.s32 %i0, %i0, -1;")
        put("setp.ne.s32 %p0, %i0, 0;")
        put("@%p0 bra TURN;")
        put("mov.u64 %a5, %clock64;")
        for line in self.after:
            put(line)
        # One word for each warp: first and last clock, and where it ran.
        put("mov.u32 %i2, %ctaid.x;")
        put("mov.u32 %i3, %ntid.x;")
        put("mad.lo.s32 %i3, %i2, %i3, %i1;")
        put("shr.u32 %i2, %i3, 5;")
        put("mad.wide.u32 %a0, %i2, 24, %a0;")
        put("st.global.u64 [%a0], %a4;")
        put("st.global.u64 [%a0+8], %a5;")
        put("mov.u32 %i4, %smid;")
        put("st.global.u32 [%a0+16], %i4;")
        put("mad.wide.u32 %a2, %i3, 8, %a2;")
        for register in self.outputs:
            form = {"f": "f32", "r": "u32", "d": "f64", "h": "b32", "l": "u64"}[self.kind(register)]
            put(f"st.volatile.global.{form} [%a2], {register};")
        put("ret;")
        lines.append("}\n")
        return "".join(lines)

    @staticmethod
    def kind(register):
        letter = register[1]
        return next(kind for kind, (_, name) in KINDS.items() if name == letter)
