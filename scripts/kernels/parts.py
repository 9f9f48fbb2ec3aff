"""Pieces of kernels, each in several of the ways in which compilers and people write it."""
from dataclasses import dataclass

from .text import TAIL


@dataclass(frozen=True)
class Role:
    """A range of whole warps."""
    name: str
    first: int
    threads: int

    @property
    def end(self):
        return self.first + self.threads

    @property
    def warps(self):
        return self.threads // 32


def roles_of(sizes):
    """[Role] of [(name, warps)], side by side from thread 0."""
    roles, first = [], 0
    for name, warps in sizes:
        roles.append(Role(name, first, warps * 32))
        first += warps * 32
    return roles


def warp_index(k):
    """A register with the warp's number, read from one lane where the code says that it is uniform."""
    warp = k.reg()
    k.op("shr.u32", warp, k.tid, 5)
    if k.chance(0.5):
        uniform = k.reg()
        k.op("shfl.sync.idx.b32", uniform, warp, 0, 31, -1)
        return uniform
    return warp


def dispatch(k, bodies, done):
    """Each role's code for its range of threads. bodies: [(Role, function)]; every one of them ends at `done`."""
    unit, at = k.pick(("tid", 1), ("warp", 32))
    place = k.tid if unit == "tid" else warp_index(k)
    ends = []
    for role, _ in bodies:
        end = role.end
        if role is not bodies[-1][0] or end != k.threads:
            end = k.vary("range", end, [(f"{role.name} has a warp fewer", end - 32), (f"{role.name} has a warp more", end + 32)])
        ends.append(end // at)
    if k.chance(0.35) and len(bodies) > 1:
        labels = [k.new_label(role.name) for role, _ in bodies]
        for label, end in zip(labels[:-1], ends[:-1]):
            k.op("bra", label, guard=k.compare("lt", place, end))
        order = list(range(len(bodies) - 1))
        k.rng.shuffle(order)
        for i in [len(bodies) - 1] + order:  # who is not named in a branch falls through
            k.place(labels[i])
            if i == len(bodies) - 1 and bodies[i][0].end != k.threads:
                k.op("bra", done, guard=k.compare("ge", place, ends[i]))
            bodies[i][1]()
            k.jump(done)
        return
    for i, (role, body) in enumerate(bodies):
        k.note(f"{role.name}: threads {role.first} to {role.end - 1}")
        last = i == len(bodies) - 1
        after = done if last else k.new_label(f"not_{role.name}")
        if not last or role.end != k.threads:
            k.op("bra", after, guard=k.compare("ge", place, ends[i]))
        body()
        if not last:
            k.jump(done)
            k.place(after)


def lane_elected(k):
    """A predicate that holds in one lane of each warp; every lane of the warp is here."""
    predicate = k.reg("p")
    how = k.pick("elect", "tid", "laneid")
    if how == "elect":
        k.op("elect.sync", f"{k.pick('_', k.reg())}|{predicate}", k.pick("-1", "0xffffffff"))
        return predicate
    lane = k.reg()
    if how == "tid":
        k.op("and.b32", lane, k.tid, 31)
    else:
        k.op("mov.u32", lane, "%laneid")
    k.op("setp.eq.u32", predicate, lane, 0)
    return predicate


def thread_elected(k, role):
    """A predicate that holds in one thread of the role."""
    if k.chance(0.5):
        return k.compare("eq", k.tid, role.first)
    first, lane, both = warp_index(k), lane_elected(k), k.reg("p")
    k.op("setp.eq.and.u32", both, first, role.first // 32, lane)
    return both


def only(k, predicate, write):
    """Code for the threads in which the predicate holds: by a branch around it, or with a guard where it is one instruction."""
    start = len(k.lines)
    write()
    one = len(k.lines) == start + 1 and not k.lines[start].startswith("\t@") and k.lines[start].startswith("\t")
    if one and k.chance(0.5):
        k.lines[start] = f"\t@{predicate} " + k.lines[start].lstrip("\t")
        return
    after = k.new_label("skip")
    k.lines.insert(start, f"\t@!{predicate} bra \t{after};")
    k.place(after)


def warp_sync(k):
    k.op("bar.warp.sync", k.pick("-1", "0xffffffff"))


def block_sync(k, role=None, number=0):
    """Everybody of the block, or of a role, meets. With a number or without one, but all alike: an H200 faults where they differ."""
    count = k.threads if role is None else role.threads
    form = k.pick("bar.sync", "barrier.sync", "barrier.cta.sync", "barrier.cta.sync.aligned")
    if k.gives_count is None:
        k.gives_count = not k.chance(0.7)
    if role is None and not k.gives_count:
        k.op(form, number)
    else:
        k.op(form, k.value(number, 0.15), k.value(count, 0.15))


class Barriers:
    """An array of mbarriers, one a stage."""

    def __init__(self, k, name, stages):
        self.k, self.name, self.stages = k, name, stages
        k.shared.append(f"\t.shared .align 8 .b64 {name}[{stages}];" if stages > 1 or k.chance(0.5) else f"\t.shared .align 8 .b64 {name};")
        self.base = self.wide = None

    def begin(self):
        """Registers that every thread has, before roles part."""
        self.base = self.k.reg()
        self.k.op("mov.u32", self.base, self.name)
        if not self.k.space:
            self.wide = self.k.reg("rd")
            plain = self.k.reg("rd")
            self.k.op("cvt.u64.u32", plain, self.base)
            self.k.op("cvta.shared.u64", self.wide, plain)

    def at32(self, stage):
        """[address] in the shared window."""
        k = self.k
        if isinstance(stage, int):
            return f"[{self.base}+{8 * stage}]" if stage else f"[{self.base}]"
        address = k.reg()
        if k.chance(0.5):
            k.op("mad.lo.u32", address, stage, 8, self.base)
        else:
            offset = k.reg()
            k.op("shl.b32", offset, stage, 3)
            k.op("add.u32", address, self.base, offset)
        return f"[{address}]"

    def at(self, stage):
        """[address] in the kernel's way to name shared memory."""
        k = self.k
        if k.space:
            if isinstance(stage, int) and k.chance(0.3):
                return f"[{self.name}+{8 * stage}]"
            return self.at32(stage)
        if isinstance(stage, int):
            return f"[{self.wide}+{8 * stage}]"
        offset, address = k.reg("rd"), k.reg("rd")
        k.op("mul.wide.u32", offset, stage, 8)
        k.op("add.s64", address, self.wide, offset)
        return f"[{address}]"

    def init(self, count):
        """Written by the one thread that initialises."""
        k = self.k
        if self.stages > 1 and k.chance(0.25):
            last = k.number("init", f"stages of {self.name} initialised:", self.stages, (-1,), 1)
            count = k.number("count", f"count of {self.name}", count, near(count), 1)
            i, again = k.reg(), k.new_label("init")
            k.op("mov.u32", i, 0)
            k.place(again)
            k.op(f"mbarrier.init{k.space}.b64", self.at(i), count)
            k.op("add.u32", i, i, 1)
            k.op("bra", again, guard=k.compare("lt", i, last))
            return
        for stage in range(self.stages):
            now = k.number("count", f"count of {self.name}[{stage}]", count, near(count), 1)
            where = k.vary("init", stage, [(f"{self.name}[{stage}] initialised at {other}", other)
                                           for other in range(self.stages) if other != stage][:1])
            k.op(f"mbarrier.init{k.space}.b64", self.at(where), k.value(now, 0.2))


def near(count):
    return (1, -1, 32, -32) if count > 32 else (1, -1)


def prepare(k, barriers, fence=True):
    """One thread initialises [(Barriers, count)]; then everybody goes on."""
    for array, _ in barriers:
        array.begin()
    first = thread_elected(k, Role("first", 0, 32))
    form = k.pick("after", "inside", "all")

    def write():
        for array, count in barriers:
            array.init(count)
        if form == "inside" and fence:
            k.op("fence.mbarrier_init.release.cluster")

    only(k, first, write)
    if form != "inside" and fence:
        k.op("fence.mbarrier_init.release.cluster")
    if fence and k.chance(0.2):
        k.op("fence.proxy.async.shared::cta" if k.chance(0.5) else "fence.proxy.async")
    if k.cluster > 1:
        k.op("barrier.cluster.arrive.release.aligned" if k.chance(0.5) else "barrier.cluster.arrive")
        k.op("barrier.cluster.wait.acquire.aligned" if k.chance(0.5) else "barrier.cluster.wait")
    else:
        block_sync(k)


def wait(k, where, parity, what, token=False):
    """Waits until the phase of `parity` (or of the state `parity`, with `token`) is over."""
    by = "" if token else ".parity"
    done = k.reg("p")
    sem = ".acquire.cluster" if k.cluster > 1 else k.pick("", "", ".acquire.cta") if k.space == ".shared::cta" else ""
    style = k.pick("loop", "loop", "hint", "two", "sleep", "braces")

    def write():
        again = k.new_label("wait")
        operands = [done, where, parity]
        opcode = f"mbarrier.try_wait{by}{sem}{k.space}.b64"
        if style == "hint":
            operands.append(k.pick("0x989680", "10000000", "1000"))
        if style == "two":
            over = k.new_label("done")
            k.place(again)
            k.op(opcode, *operands)
            k.op("bra", over, guard=done)
            k.op("bra", again)
            k.place(over)
        elif style == "sleep":
            over = k.new_label("ready")
            k.place(again)
            k.op(f"mbarrier.test_wait{by}{sem}{k.space}.b64", *operands)
            k.op("bra", over, guard=done)
            k.op("nanosleep.u32", k.pick(20, 64, 100))
            k.op("bra", again)
            k.place(over)
        elif style == "braces":
            # as inline assembly in CUTLASS comes out
            k.lines += ["\t{", "\t.reg .pred P1;", "LAB_WAIT:"]
            k.op(opcode, "P1", *operands[1:])
            k.op("bra", "DONE", guard="P1")
            k.op("bra", "LAB_WAIT")
            k.lines += ["DONE:", "\t}"]
        else:
            k.place(again)
            k.op(opcode, *operands)
            k.op("bra", again, guard=f"!{done}")

    k.times("wait", f"wait for {what}", write)


class Cursor:
    """Where one side of a ring stands: slot and phase kept and wrapped, computed from the item's number, or known in a loop unrolled by
    stages. `phase` starts at `start`: 0 for who waits for `full`, 1 for who waits for `empty`."""

    def __init__(self, k, stages, start, what, computed=False):
        self.k, self.stages, self.start, self.what = k, stages, start, what
        self.style = "computed" if computed else k.pick("wrap", "wrap", "computed")
        self.slot = self.phase = None
        self.flip = k.vary("parity", 0, [(f"{what} starts at the other parity", 1)])
        self.toggles = k.vary("toggle", True, [(f"{what} does not toggle its phase", False)])

    def begin(self):
        k = self.k
        if self.style == "unrolled":
            self.phase = k.reg()
            k.op("mov.u32", self.phase, self.start ^ self.flip)
        elif self.style == "wrap":
            self.slot = k.reg() if self.stages > 1 else 0
            self.phase = k.reg()
            if self.stages > 1:
                k.op("mov.u32", self.slot, 0)
            k.op("mov.u32", self.phase, self.start ^ self.flip)

    def look(self, item):
        """Slot and phase of this item. item: the number of items before it, in a register or known."""
        k = self.k
        if self.style == "unrolled":
            return
        if isinstance(item, int):
            self.slot = item % self.stages
            self.phase = ((item // self.stages if self.toggles else 0) ^ self.start ^ self.flip) & 1
        elif self.style == "computed":
            turn = item
            if self.stages > 1:
                self.slot, turn = k.reg(), k.reg()
                power = self.stages & (self.stages - 1) == 0
                if power and k.chance(0.6):
                    k.op("and.b32", self.slot, item, self.stages - 1)
                    k.op("shr.u32", turn, item, self.stages.bit_length() - 1)
                elif k.chance(0.5):
                    k.op("rem.u32", self.slot, item, self.stages)
                    k.op("div.u32", turn, item, self.stages)
                else:
                    back = k.reg()
                    k.op("div.u32", turn, item, self.stages)
                    k.op("mul.lo.u32", back, turn, self.stages)
                    k.op("sub.u32", self.slot, item, back)
            else:
                self.slot = 0
            self.phase = k.reg()
            if not self.toggles:
                k.op("mov.u32", self.phase, self.start ^ self.flip)
                return
            k.op("and.b32", self.phase, turn, 1)
            if self.start ^ self.flip:
                k.op("xor.b32", self.phase, self.phase, 1)

    def advance(self, item):
        k = self.k
        if isinstance(item, int) or self.style != "wrap":
            return
        if self.stages == 1:
            if self.toggles:
                k.op("xor.b32", self.phase, self.phase, 1)
            return
        k.op("add.u32", self.slot, self.slot, 1)
        wrapped = k.compare(*k.pick(("eq", self.slot, self.stages), ("ge", self.slot, self.stages)))
        how = k.pick("guard", "select", "branch")
        if how == "select":
            k.op("selp.u32", self.slot, 0, self.slot, wrapped)
            bit = k.reg()
            k.op("selp.u32", bit, 1, 0, wrapped)
            if self.toggles:
                k.op("xor.b32", self.phase, self.phase, bit)
        elif how == "guard":
            k.op("mov.u32", self.slot, 0, guard=wrapped)
            if self.toggles:
                k.op("xor.b32", self.phase, self.phase, 1, guard=wrapped)
        else:
            after = k.new_label("wrapped")
            k.skip_unless(wrapped, after)
            k.op("mov.u32", self.slot, 0)
            if self.toggles:
                k.op("xor.b32", self.phase, self.phase, 1)
            k.place(after)


@dataclass(frozen=True)
class Trip:
    """How many items there are: `count`, the kernel's n, or either for each of some tiles."""
    count: int
    by_n: bool
    tiles: int = 1
    tiles_by_n: bool = False

    @staticmethod
    def choose(k):
        kind = k.pick("count", "count", "n", "tiles", "tiles_n")
        if kind == "n":
            return Trip(k.n, True)
        if kind == "tiles":
            return Trip(k.rng.randint(1, 6), False, k.rng.randint(2, 5))
        if kind == "tiles_n":
            return Trip(k.rng.randint(1, 4), False, k.n, True)
        return Trip(k.rng.randint(1, 20), False)

    @property
    def total(self):
        return self.count * self.tiles


def looped(k, trip, what, body, unrolled=True):
    """Writes a loop over the items; body(item) once an item, or as often as there are items (`unrolled` allows it). what: whose
    loop it is, where others have one that it must agree with. Returns the number of items, in a register or known."""
    off = k.vary("trip", 0, [(f"{what} takes an item more", 1), (f"{what} takes an item fewer", -1)] if what else [])
    if unrolled and not trip.by_n and not trip.tiles_by_n and trip.tiles == 1 and trip.count <= 4 and k.chance(0.5):
        for item in range(trip.count + max(off, 0)):
            start = len(k.lines)
            body(item)
            if item >= trip.count + off:
                del k.lines[start:]
        return trip.count + off
    item = k.reg()
    k.op("mov.u32", item, 0)

    def bound(count, by_n):
        if not by_n:
            return count
        if off and trip.by_n:
            register = k.reg()
            k.op("add.u32", register, k.n_register, off)
            return register
        return k.n_register

    def rounds(limit, may_be_none, inner, counter):
        again, over = k.new_label("loop"), k.new_label("end")
        if k.chance(0.5) or limit == 0:
            k.place(again)
            k.op("bra", over, guard=k.compare("ge", counter, limit))
            inner()
            k.jump(again)
            k.place(over)
        else:
            if may_be_none:
                k.op("bra", over, guard=k.compare("eq", limit, 0))
            k.place(again)
            inner()
            k.op("bra", again, guard=k.compare("lt", counter, limit))
            k.place(over)

    def one():
        body(item)
        k.op("add.u32", item, item, 1)

    if trip.tiles == 1 and not trip.tiles_by_n:
        rounds(bound(trip.count + off if not trip.by_n else 0, trip.by_n), trip.by_n, one, item)
        return item
    tile, step = k.reg(), k.reg()
    k.op("mov.u32", tile, 0)

    def a_tile():
        k.op("mov.u32", step, 0)

        def inner():
            one()
            k.op("add.u32", step, step, 1)

        rounds(trip.count + off, False, inner, step)
        k.op("add.u32", tile, tile, 1)

    rounds(bound(trip.tiles, trip.tiles_by_n), trip.tiles_by_n, a_tile, tile)
    return item


def work(k, total, where):
    """Reads shared memory at [where] into a running total."""
    value = k.reg()
    k.op("ld.shared.u32", value, where)
    k.op("add.u32", total, total, value)


def keep(k, total):
    """Stores a running total where nobody reads, so that what led to it stays."""
    offset, address = k.reg("rd"), k.reg("rd")
    k.op("mul.wide.u32", offset, k.tid, 4)
    k.op("add.s64", address, k.out, offset)
    k.op("st.global.u32", f"[{address}+{TAIL}]", total)
