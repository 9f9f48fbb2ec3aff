"""Rings that bulk copies fill: a phase of `full` is over when who announces has arrived and the bytes are there.

Bytes may come before they are announced: the arrival that is still due keeps the phase open, and the count of bytes may be below zero.
"""
from .parts import Trip, dispatch, keep, lane_elected, only, prepare, roles_of, warp_sync, work
from .rings import Agent, Ring, consume, finish, produce


class Tiles:
    """What is copied into a slot: some copies, side by side, each at a multiple of 128 bytes."""

    def __init__(self, k, name, stages, copies=None):
        self.k, self.name, self.stages = k, name, stages
        most = 32768 // stages
        self.sizes = [k.pick(16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 16 * k.rng.randint(1, 64)) for _ in range(copies or k.rng.randint(1, 3))]
        while sum(self.sizes) > most // 2:
            self.sizes = [max(16, s // 32 * 16) for s in self.sizes]
        self.offsets, at = [], 0
        for size in self.sizes:
            self.offsets.append(at)
            at += (size + 16 + 127) // 128 * 128  # 16 bytes more than right must not reach the next
        self.stride = at
        k.array(name, at * stages, 128)
        self.base = None

    def begin(self):
        self.base = self.k.reg()
        self.k.op("mov.u32", self.base, self.name)

    @property
    def total(self):
        return sum(self.sizes)

    def at(self, slot, offset=0):
        k = self.k
        if isinstance(slot, int):
            return f"[{self.base}+{slot * self.stride + offset}]"
        register = k.reg()
        k.op("mad.lo.u32", register, slot, self.stride, self.base)
        return f"[{register}+{offset}]" if offset else f"[{register}]"

    def source(self, item, offset=0):
        """A global address for the item; which one is of no matter, as long as it lies in `out`."""
        k = self.k
        address = k.reg("rd")
        if isinstance(item, int):
            k.op("add.s64", address, k.out, 1024 + item % 16 * 8192 + offset)
            return f"[{address}]"
        turn, wide = k.reg(), k.reg("rd")
        k.op("and.b32", turn, item, 15)
        k.op("mul.wide.u32", wide, turn, 8192)
        k.op("add.s64", address, k.out, wide)
        return f"[{address}+{1024 + offset}]"


def announce(k, how, where, what, total):
    """[before the copies, after them]: the arrival that expects the bytes, and the plain one where they are apart."""
    expected = k.vary("bytes", total, [(f"expects {total + d} bytes of {total} at {what}", total + d) for d in (16, -16) if total + d > 0])
    how = k.vary("expect", how, [(f"expect_tx at {what} dropped", "arrive"), (f"arrival with expect_tx at {what} is expect_tx alone", "expect")])
    sem = k.pick("", ".relaxed.cta") if k.space == ".shared::cta" else ""
    amount = k.value(expected, 0.3)
    if k.chance(0.15):
        amount, units = k.reg(), k.reg()
        k.op("mov.u32", units, expected // 16)
        k.op("shl.b32", amount, units, 4)

    def both():
        k.times("arrival", f"arrival at {what}", lambda: k.op(f"mbarrier.arrive.expect_tx{k.space}.b64", "_", where, amount))

    def expect():
        k.op(f"mbarrier.expect_tx{sem}{k.space}.b64", where, amount)

    def arrive():
        k.times("arrival", f"arrival at {what}", lambda: k.op(f"mbarrier.arrive{k.space}.b64", "_", where))

    def nothing():
        pass

    return {"first": (both, nothing), "last": (nothing, both), "apart": (expect, arrive), "arrive": (nothing, arrive), "expect": (expect, nothing)}[how]


def copy(k, tiles, ring, slot, item, index):
    size = tiles.sizes[index]
    size = k.vary("bytes", size, [(f"copies {size + d} bytes for {size}", size + d) for d in (16, -16) if size + d > 0])
    target, source, barrier = tiles.at(slot, tiles.offsets[index]), tiles.source(item, 4096 * (index % 2)), ring.full.at32(slot)
    hint, operands = "", []
    if k.chance(0.15):
        policy = k.reg("rd")
        k.op("createpolicy.fractional.L2::evict_first.b64", policy, "1.0")
        hint, operands = ".L2::cache_hint", [policy]
    amount = k.value(size, 0.3)
    k.times("copy", f"copy into {tiles.name}", lambda: k.op(
        f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes{hint}", target, source, amount, barrier, *operands))


def filler(k, ring, tiles):
    """fill(slot, item) for `produce`: one thread fills a slot by bulk copies."""
    how = k.pick("first", "first", "last", "apart")

    def fill(slot, item):
        before, after = announce(k, how, ring.full.at(slot), f"full{ring.name}", tiles.total)
        before()
        for index in range(len(tiles.sizes)):
            copy(k, tiles, ring, slot, item, index)
        after()

    return fill


def lanes_filler(k, ring, tiles, lanes):
    """As `filler`, but each of some lanes copies its share; one of them arrives for all the bytes."""
    size = tiles.sizes[0]

    def fill(slot, item):
        warp_sync(k)
        before, _ = announce(k, "first", ring.full.at(slot), f"full{ring.name}", size * lanes)
        only(k, lane_elected(k), before)
        if k.chance(0.5):
            warp_sync(k)
        lane, share, target = k.reg(), k.reg(), k.reg()
        k.op("and.b32", lane, k.tid, 31)
        bound = k.number("lanes", "lanes that copy:", lanes, (1, -1), 1)
        copies = k.compare("lt", lane, bound)

        def write():
            k.op("mul.lo.u32", share, lane, tiles.sizes[0])
            base = tiles.at(slot)[1:-1].split("+")
            k.op("add.u32", target, base[0], share)
            where = f"[{target}+{base[1]}]" if len(base) > 1 else f"[{target}]"
            source, barrier = tiles.source(item), ring.full.at32(slot)
            k.times("copy", f"copy into {tiles.name}", lambda: k.op(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", where, source, k.value(size, 0.2), barrier))

        only(k, copies, write)

    return fill


def bulk(k):
    """One ring filled by bulk copies."""
    groups = k.rng.randint(1, 3)
    roles = roles_of([("producer", k.pick(1, 1, 2))] + [(f"consumer{i}", k.rng.randint(1, 4)) for i in range(groups)])
    stages = k.rng.randint(1, 4)
    k.begin(roles[-1].end)
    lanes = k.pick(2, 4, 8, 16, 32) if roles[0].warps == 1 and k.chance(0.25) else 0
    producer = Agent(roles[0], not lanes, "thread")
    ring = Ring(k, "", stages, producer, [Agent.choose(k, role, solo=k.chance(0.15)) for role in roles[1:]])
    tiles = Tiles(k, "tile", stages, 1 if lanes else None)
    if lanes:
        tiles.sizes = [k.pick(16, 32, 64, 128, 16 * k.rng.randint(1, 16))]
        tiles.stride = (tiles.sizes[0] * 33 + 127) // 128 * 128
        k.shared[-1] = f"\t.shared .align 128 .b8 tile[{tiles.stride * stages}];"
    trip = Trip.choose(k)
    k.what = (f"a ring of {stages} filled by bulk copies of {' + '.join(map(str, tiles.sizes))} bytes{f' by {lanes} lanes' if lanes else ''}, "
              f"{groups} consumer groups, {trip.total} items")
    tiles.begin()
    prepare(k, ring.barriers())
    fill = lanes_filler(k, ring, tiles, lanes) if lanes else filler(k, ring, tiles)
    total = k.reg()
    k.op("mov.u32", total, 0)
    reads, tail = k.chance(0.6), k.chance(0.5)
    done = k.new_label("done")

    def consumer(agent):
        consume(k, ring, agent, trip, read=(lambda slot: work(k, total, tiles.at(slot))) if reads else None)
        if reads:
            keep(k, total)

    dispatch(k, [(roles[0], lambda: produce(k, ring, trip, fill, tail))]
             + [(agent.role, lambda agent=agent: consumer(agent)) for agent in ring.consumers], done)
    finish(k, done)
