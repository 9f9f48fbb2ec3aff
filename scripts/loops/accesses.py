"""Kernels of one access to shared memory each: strides, vectors, swizzles, predicates, broadcasts, matrices, atomics.

The address of a lane is computed in PTX as compilers do it, from %tid, with integers that are known to nobody else; what each lane's is,
is computed here too, so that the machine can be looked at apart from whoever reads the PTX.
"""
import random

from .skeleton import Kernel

THREADS = 512
COPIES = 8
SPAN = 16384
ROOM = SPAN + 2048 * COPIES + 4096
MASK = 0xFFFFFFFF


class Address:
    """Lines of PTX and, by lane, the numbers that they make."""

    def __init__(self, kernel, random):
        self.kernel, self.random, self.lines = kernel, random, []
        self.lane = self.make("and.b32 {0}, %i1, 31;", range(32)) if random.random() < 0.7 else self.make("mov.u32 {0}, %laneid;", range(32))

    def make(self, line, numbers, *arguments):
        register = self.kernel.new("r")
        self.lines.append(line.format(register, *[argument[0] for argument in arguments]))
        return register, [number & MASK for number in numbers]

    def one(self, line, of, argument):
        return self.make(line, map(of, argument[1]), argument)

    def two(self, line, of, first, second):
        return self.make(line, map(of, first[1], second[1]), first, second)

    def times(self, value, by):
        if by and by & (by - 1) == 0 and self.random.random() < 0.6:
            shift = by.bit_length() - 1
            return self.one("shl.b32 {0}, {1}, %d;" % shift, lambda a: a << shift, value)
        return self.one("mul.lo.s32 {0}, {1}, %d;" % by, lambda a: a * by, value)

    def modulo(self, value, by):
        if self.random.random() < 0.3:
            bits = by.bit_length() - 1
            return self.one("bfe.u32 {0}, {1}, 0, %d;" % bits, lambda a: a % by, value)
        return self.one(self.random.choice(["and.b32 {0}, {1}, %d;" % (by - 1), "rem.u32 {0}, {1}, %d;" % by]), lambda a: a % by, value)

    def divide(self, value, by):
        return self.one(self.random.choice(["shr.u32 {0}, {1}, %d;" % (by.bit_length() - 1), "div.u32 {0}, {1}, %d;" % by]), lambda a: a // by, value)

    def plus(self, first, second):
        return self.two("add.s32 {0}, {1}, {2};", lambda a, b: a + b, first, second)

    def swizzled(self, value, bits, base, shift):
        moved = self.one("shr.u32 {0}, {1}, %d;" % shift, lambda a: a >> shift, value)
        moved = self.one("and.b32 {0}, {1}, %d;" % (((1 << bits) - 1) << base), lambda a: a & ((1 << bits) - 1) << base, moved)
        return self.two("xor.b32 {0}, {1}, {2};", lambda a, b: a ^ b, value, moved)

    def pattern(self, width):
        """Numbers of bytes, multiples of a width."""
        choose = self.random.choice
        form = choose(["stride", "rows", "rows", "swizzle", "swizzle", "broadcast", "few", "clamp", "back", "insert", "permute", "lop3"])
        lane = self.lane
        most = SPAN // width // 32
        if form == "stride":
            return self.times(lane, width * self.random.randint(0, min(most, 40)))
        if form == "rows":
            by = choose([2, 4, 8, 16])
            row, column = self.divide(lane, by), self.modulo(lane, by)
            if self.random.random() < 0.4:
                row, column = column, row
            pitch = choose([32, 64, 128, 132, 136, 144, 160, 256, 264, 272, 512])
            pitch = max(width, pitch // width * width)
            return self.plus(self.times(row, pitch), self.times(column, width * choose([1, 1, 1, 2])))
        if form == "swizzle":
            pitch = choose([64, 128, 256])
            by = choose([4, 8, 16])
            row, column = self.modulo(lane, by), self.divide(lane, by)
            linear = self.plus(self.times(row, pitch), self.times(column, 16))
            bits = choose([1, 2, 3])
            return self.swizzled(linear, bits, 4, choose([3, 3, 4]))
        if form == "broadcast":
            return self.times(self.divide(lane, choose([2, 4, 8, 16, 32])), width * choose([1, 2, 3, 8, 16, 32]))
        if form == "few":
            # Some bits of the lane alone: others have the same.
            mask = self.random.randint(1, 30)
            return self.times(self.one("and.b32 {0}, {1}, %d;" % mask, lambda a: a & mask, lane), width * choose([1, 1, 2, 3, 8]))
        if form == "clamp":
            bound = self.random.randint(1, 30)
            name, of = choose([("min", min), ("max", max)])
            kept = self.one("%s.%s {0}, {1}, %d;" % (name, choose(["s32", "u32"]), bound), lambda a: of(a, bound), lane)
            return self.times(kept, width * choose([1, 2, 4, 8, 16, 32]))
        if form == "back":
            back = self.one("sub.s32 {0}, 31, {1};", lambda a: 31 - a, lane)
            return self.times(back, width * self.random.randint(1, min(most, 20)))
        if form == "insert":
            at = choose([2, 3])
            upper = self.divide(lane, 1 << at)
            inserted = self.two("bfi.b32 {0}, {1}, {2}, %d, 3;" % at, lambda a, b: b & ~(7 << at) | (a & 7) << at, upper, lane)
            return self.times(inserted, width * choose([1, 2, 4]))
        if form == "permute":
            wide = self.one("prmt.b32 {0}, {1}, 0, 0x4404;", lambda a: a << 8, lane)
            narrow = self.one("shr.u32 {0}, {1}, %d;" % choose([1, 2, 4]), lambda a: a, wide)
            shift = int(self.lines[-1].split(",")[-1].strip(" ;"))
            narrow = (narrow[0], [number >> shift for number in wide[1]])
            return self.one("and.b32 {0}, {1}, %d;" % (SPAN - 1 & ~(width - 1)), lambda a: a & (SPAN - 1 & ~(width - 1)), narrow)
        first, second = self.times(lane, width), self.times(lane, width * 8)
        table, of = choose([(0x96, lambda a, b, c: a ^ b ^ c), (0xFC, lambda a, b, c: a | b), (0x3C, lambda a, b, c: a ^ b)])
        mixed = self.make("lop3.b32 {0}, {1}, {2}, %d, %d;" % (width * 4, table),
                          map(lambda a, b: of(a, b, width * 4), first[1], second[1]), first, second)
        return self.one("and.b32 {0}, {1}, %d;" % (SPAN - 1 & ~(width - 1)), lambda a: a & (SPAN - 1 & ~(width - 1)), mixed)

    def base(self, width, offset):
        """The buffer, by a way that compilers go, and something that all lanes share and nobody knows."""
        choose = self.random.choice
        place = self.make("mov.u32 {0}, buffer;", [0] * 32)
        if self.random.random() < 0.3:
            # A multiple of the width that only the data tell; all lanes have the same.
            self.lines.append("ld.global.u32 %i6, [%a1+1048572];")
            unknown = self.make("and.b32 {0}, %%i6, %d;" % (0x70 & ~(width - 1)), [0] * 32)
            place = self.plus(place, unknown)
        if self.random.random() < 0.2:
            self.lines += ["cvt.u64.u32 %%a6, %s;" % offset[0], "cvt.u64.u32 %%a7, %s;" % place[0], "add.s64 %a6, %a6, %a7;"]
            return self.make("cvt.u32.u64 {0}, %a6;", offset[1])
        if self.random.random() < 0.3:
            return self.make("mad.lo.s32 {0}, {1}, 1, {2};", offset[1], offset, place)
        return choose([self.plus(place, offset), self.plus(offset, place)])

    def predicate(self):
        """A guard, and the lanes that pass it."""
        choose, lane = self.random.choice, self.lane
        form = choose(["below", "bit", "not", "equal"])
        if form == "below":
            bound = self.random.randint(1, 31)
            self.lines.append(f"setp.lt.u32 %p7, {lane[0]}, {bound};")
            return "@%p7 ", [number < bound for number in range(32)]
        if form == "bit":
            bit = choose([1, 2, 4, 8])
            test = self.one("and.b32 {0}, {1}, %d;" % bit, lambda a: a & bit, lane)
            self.lines.append(f"setp.ne.s32 %p7, {test[0]}, 0;")
            return "@%p7 ", [number & bit != 0 for number in range(32)]
        if form == "not":
            bound = self.random.randint(1, 31)
            self.lines.append(f"setp.ge.s32 %p7, {lane[0]}, {bound};")
            return "@!%p7 ", [number < bound for number in range(32)]
        by, rest = choose([2, 4, 8]), self.random.randint(0, 1)
        left = self.modulo(lane, by)
        self.lines.append(f"setp.eq.s32 %p7, {left[0]}, {rest};")
        return "@%p7 ", [number % by == rest for number in range(32)]


LOADS = [("u8", 1, 1), ("u16", 2, 1), ("b32", 4, 1), ("b32", 4, 1), ("b32", 4, 1), ("b64", 8, 1), ("v2.b32", 8, 2), ("v4.b32", 16, 4), ("v2.b64", 16, 2)]


def one(kind, random):
    """A kernel of an access, and what is known of it."""
    kernel = Kernel(threads=THREADS, shared=ROOM)
    address = Address(kernel, random)
    matrix = kind in ("ldmatrix", "stmatrix")
    count = random.choice([1, 2, 4])
    form, width, words = random.choice(LOADS)
    if matrix:
        width = 16
    if kind in ("atom", "red"):
        # Wider ones are loops of compare and swap.
        form, width, words = "u32", 4, 1
    base = address.base(width, address.pattern(width))
    guard, active = "", [True] * 32
    if not matrix and random.random() < 0.25:
        guard, active = address.predicate()
    kernel.before += address.lines
    if guard:
        # Lanes that are off stay off for the whole loop: a guard at each access would be a branch at each.
        kernel.before.append(("@%p7" if "!" in guard else "@!%p7") + " bra OFF;")
        kernel.after.append("\nOFF:\n  mov.u64 %a5, %clock64;")
    accesses = []
    letter = "l" if form.endswith("64") else "r"
    for copy in range(COPIES):
        place = f"[{base[0]}+{copy * 2048}]"
        registers = [kernel.new("r" if matrix else letter) for _ in range(count if matrix else words)]
        # Adding nothing, or one, is done otherwise.
        kernel.before[:0] = [f"mov.b{64 if name[1] == 'l' else 32} {name}, {copy + 2};" for name in registers]
        group = "{" + ", ".join(registers) + "}"
        if kind == "ldmatrix":
            accesses.append(f"ldmatrix.sync.aligned.m8n8.x{count}.shared.b16 {group}, {place};")
        elif kind == "stmatrix":
            accesses.append(f"stmatrix.sync.aligned.m8n8.x{count}.shared.b16 {place}, {group};")
        elif kind == "load":
            accesses.append(f"ld.volatile.shared.{form} {group if words > 1 else registers[0]}, {place};")
        elif kind == "store":
            accesses.append(f"st.volatile.shared.{form} {place}, {group if words > 1 else registers[0]};")
        elif kind == "atom":
            accesses.append(f"atom.shared.add.{form} {registers[0]}, {place}, {registers[0]};")
        else:
            accesses.append(f"red.shared.add.{form} {place}, {registers[0]};")
        if kind == "ldmatrix":
            # Nothing takes a load out of the loop whose result each turn adds to.
            sums = [kernel.keep(kernel.new("r")) for _ in registers] if copy == 0 else sums
            kernel.before[:0] = [f"mov.b32 {name}, 0;" for name in sums] if copy == 0 else []
            accesses += [f"xor.b32 {into}, {into}, {new};" for into, new in zip(sums, registers)]
        elif kind in ("load", "atom"):
            kernel.outputs += registers
    kernel.body += accesses
    return kernel, {"kind": kind, "bytes": width, "count": count if matrix else words, "lines": address.lines,
                    "access": guard + accesses[0], "lanes": [number if on else None for number, on in zip(base[1], active)]}


KINDS = ["load"] * 9 + ["store"] * 6 + ["ldmatrix"] * 3 + ["stmatrix"] * 2 + ["atom"] * 2 + ["red"] * 2


def many(seed, count):
    """Kernels by name, and what is known of each."""
    for number in range(count):
        chance = random.Random(f"{seed}/{number}")
        kind = KINDS[number % len(KINDS)]
        kernel, known = one(kind, chance)
        yield f"{kind}_{number:04}", kernel, known

