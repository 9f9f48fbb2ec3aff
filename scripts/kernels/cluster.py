"""Clusters: the cluster's own barrier in halves, arrivals at other blocks' mbarriers, pushes into their memory, multicast.

Where a block touches another one's memory, everybody meets before (the mbarriers are initialised) and at the end (nobody leaves early).
"""
from .bulk import Tiles
from .parts import Barriers, Cursor, Role, Trip, block_sync, dispatch, looped, only, prepare, roles_of, wait, warp_sync
from .rings import Agent, Ring, consume, finish, produce, walk


def half(k, kind, aligned=True):
    """barrier.cluster.arrive or .wait."""
    sem = {"arrive": k.pick("", ".release", ".relaxed"), "wait": k.pick("", ".acquire")}[kind]
    k.times(f"cluster {kind}", f"barrier.cluster.{kind}", lambda: k.op(
        f"barrier.cluster.{kind}{sem}{'.aligned' if aligned and k.chance(0.5) else ''}"))


def rank_of(k):
    rank = k.reg()
    k.op("mov.u32", rank, "%cluster_ctarank")
    return rank


def mapped(k, address, rank):
    """[address] of another block's memory. address: [register+offset] in this block's."""
    register, _, offset = address[1:-1].partition("+")
    target = k.reg()
    k.op("mapa.shared::cluster.u32", target, register, rank)
    return f"[{target}+{offset}]" if offset else f"[{target}]"


def part(k, done):
    """The end of every kernel whose blocks touch each other's memory."""
    k.place(done)
    k.note("nobody leaves before everybody is here")
    warp_sync(k)
    half(k, "arrive")
    half(k, "wait")
    k.count_self()
    k.op("ret")


def halves(k):
    """Arrive and wait, in some rounds, by roles of their own; some warps may have left before."""
    sizes = [(f"group{i}", k.rng.randint(1, 3)) for i in range(k.rng.randint(1, 3))]
    roles = roles_of(sizes)
    away = k.pick(0, 0, 0, 1)
    k.begin(roles[-1].end + 32 * away, k.pick(2, 2, 2, 4))
    trip = Trip(k.n, True) if k.chance(0.4) else Trip(k.rng.randint(1, 8), False)
    k.what = f"{trip.total} rounds at the barrier of a cluster of {k.cluster} by {len(roles)} roles" + (", a warp has left" if away else "")
    done = k.new_label("done")
    if away:
        stay = k.new_label("stay")
        k.op("bra", stay, guard=k.compare("lt", k.tid, roles[-1].end))
        k.leave()
        k.place(stay)

    def group(role, number):
        def body(_):
            half(k, "arrive")
            if k.chance(0.4):
                block_sync(k, role, number)
            half(k, "wait")

        looped(k, trip, role.name, body)
        if k.vary("exit", False, [(f"{role.name} arrives once more and leaves", True)]):
            k.op("barrier.cluster.arrive")

    numbers = [k.named_id() for _ in roles]
    dispatch(k, [(role, lambda role=role, number=number: group(role, number)) for role, number in zip(roles, numbers)], done)
    finish(k, done)


def arrivals(k):
    """Every block arrives at every block's mbarrier, its own among them, in each round."""
    k.space = ".shared::cta"
    k.begin(32 * k.rng.randint(1, 6), k.pick(2, 2, 4))
    everybody = Role("everybody", 0, k.threads)
    agent = Agent.choose(k, everybody, solo=False)
    agent.weight = 1
    inbox = Barriers(k, "inbox", 1)
    trip = Trip(k.n, True) if k.chance(0.4) else Trip(k.rng.randint(1, 10), False)
    k.what = f"{trip.total} rounds of arrivals from every block of {k.cluster} at every block, by {agent.kind}"
    prepare(k, [(inbox, agent.count() * k.cluster)])
    done = k.new_label("done")
    unrolled = k.chance(0.5)
    cursor = Cursor(k, 1, 0, "everybody")

    def one(_):
        agent.arrive(k, None, "every inbox", lambda: at_every_block(k, inbox.at32(0), unrolled, "inbox"))
        wait(k, inbox.at(0), cursor.phase, "the inbox")
        agent.settle(k)

    walk(k, cursor, trip, None, one)
    part(k, done)


def at_every_block(k, address, unrolled, what):
    """An arrival at the same mbarrier in each block."""
    opcode = "mbarrier.arrive.release.cluster.shared::cluster.b64"
    if unrolled:
        for rank in range(k.cluster):
            to = k.vary("rank", rank, [(f"arrival at {what} of block {rank} goes to {(rank + 1) % k.cluster}", (rank + 1) % k.cluster)])
            where = mapped(k, address, to)
            k.times("remote", f"arrival at {what} of block {rank}", lambda: k.op(opcode, "_", where))
        return
    rank, again = k.reg(), k.new_label("block")
    k.op("mov.u32", rank, 0)
    k.place(again)
    k.op(opcode, "_", mapped(k, address, rank))
    k.op("add.u32", rank, rank, 1)
    last = k.number("rank", f"blocks that {what} is told of:", k.cluster, (-1,))
    k.op("bra", again, guard=k.compare("lt", rank, last))


def push(k):
    """One thread of each block pushes tiles into the next block's memory, or block 0 into block 1's."""
    k.space = ".shared::cta"
    cluster = k.pick(2, 2, 4)
    one_way = cluster == 2 and k.chance(0.4)
    roles = roles_of([("producer", 1), ("consumer", k.rng.randint(1, 4))])
    k.begin(roles[-1].end, cluster)
    stages = k.rng.randint(1, 3)
    producer, consumer = Agent(roles[0], True, "thread"), Agent.choose(k, roles[1], solo=k.chance(0.2))
    consumer.weight = 1
    ring = Ring(k, "", stages, producer, [consumer])
    tiles = Tiles(k, "tile", stages, 1)
    k.array("source", max(4096, tiles.total + 16))
    trip = Trip.choose(k)
    by_sender = k.chance(0.6)
    k.what = (f"{'block 0 pushes into block 1' if one_way else f'every block of {cluster} pushes into the next'}: a ring of {stages}, {tiles.total} bytes, "
              f"expected by {'the sender' if by_sender else 'the receiver'}, {trip.total} items")
    tiles.begin()
    source = k.reg()
    k.op("mov.u32", source, "source")
    rank, after, before = rank_of(k), k.reg(), k.reg()
    k.op("add.u32", after, rank, 1)
    k.op("and.b32", after, after, cluster - 1)
    k.op("add.u32", before, rank, cluster - 1)
    k.op("and.b32", before, before, cluster - 1)
    prepare(k, ring.barriers())
    done = k.new_label("done")
    size = tiles.total
    expected = k.vary("bytes", size, [(f"expects {size + d} bytes of {size}", size + d) for d in (16, -16) if size + d > 0])
    copied = k.vary("bytes", size, [(f"copies {size + d} bytes for {size}", size + d) for d in (16, -16) if size + d > 0])

    def fill(slot, _):
        full = mapped(k, ring.full.at32(slot), after)
        if by_sender:
            k.times("arrival", "arrival at full", lambda: k.op("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64", "_", full, expected))
        target = mapped(k, tiles.at(slot), after)
        k.times("copy", "push", lambda: k.op("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes",
                                            target, f"[{source}]", copied, full))

    def arm(slot):
        """The receiver expects the bytes itself; they may be there before."""
        where = ring.full.at(slot)

        def write():
            k.times("arrival", "arrival at full", lambda: k.op("mbarrier.arrive.expect_tx.shared::cta.b64", "_", where, expected))

        if consumer.solo:
            return write()
        only(k, k.compare("eq", k.tid, roles[1].first), write)

    def free(slot):
        empty = mapped(k, ring.empty.at32(slot), before)
        consumer.arrive(k, None, "empty", lambda: k.op("mbarrier.arrive.release.cluster.shared::cluster.b64", "_", empty))

    tail = k.chance(0.5)

    def produces():
        if one_way:
            k.op("bra", done, guard=k.compare("ne", rank, 0))
        produce(k, ring, trip, fill, tail)

    def consumes():
        if one_way:
            k.op("bra", done, guard=k.compare("ne", rank, 1))
        consume(k, ring, consumer, trip, before=None if by_sender else arm, free=free)

    dispatch(k, [(roles[0], produces), (roles[1], consumes)], done)
    part(k, done)


def multicast(k):
    """Bulk copies into all blocks at once: each block sends its share, or block 0 sends all."""
    k.space = ".shared::cta"
    cluster = k.pick(2, 2, 4)
    roles = roles_of([("producer", 1)] + [(f"consumer{i}", k.rng.randint(1, 3)) for i in range(k.rng.randint(1, 2))])
    k.begin(roles[-1].end, cluster)
    stages = k.rng.randint(1, 4)
    consumers = [Agent.choose(k, role, solo=False) for role in roles[1:]]
    for agent in consumers:
        agent.weight = 1
    ring = Ring(k, "", stages, Agent(roles[0], True, "thread"), consumers)
    ring.free *= cluster
    share = k.pick(16, 64, 128, 256, 512, 16 * k.rng.randint(1, 32))
    stride = (share * cluster + 16 + 127) // 128 * 128
    k.array("tile", stride * stages)
    leader = k.chance(0.4)
    trip = Trip.choose(k)
    total = share * cluster
    k.what = (f"multicast to a cluster of {cluster}, {f'{total} bytes by block 0' if leader else f'{share} bytes by each block'}, a ring of {stages}, "
              f"{len(consumers)} consumer groups, {trip.total} items")
    tile, rank, mask = k.reg(), rank_of(k), k.reg("rs")
    k.op("mov.u32", tile, "tile")
    everyone = (1 << cluster) - 1
    k.op("mov.u16", mask, k.vary("mask", everyone, [("multicast leaves out the last block", everyone >> 1)]))
    prepare(k, ring.barriers())
    done = k.new_label("done")
    unrolled = k.chance(0.5)

    def fill(slot, item):
        expected = k.vary("bytes", total, [(f"expects {total + d} bytes of {total}", total + d) for d in (16, -16)])
        full = ring.full.at(slot)
        k.times("arrival", "arrival at full", lambda: k.op("mbarrier.arrive.expect_tx.shared::cta.b64", "_", full, expected))
        target = k.reg()
        if isinstance(slot, int):
            k.op("add.u32", target, tile, slot * stride)
        else:
            k.op("mad.lo.u32", target, slot, stride, tile)
        if not leader:
            k.op("mad.lo.u32", target, rank, share, target)
        barrier = ring.full.at32(slot)
        size = total if leader else share
        copied = k.vary("bytes", size, [(f"copies {size + d} bytes for {size}", size + d) for d in (16, -16) if size + d > 0])
        source = k.reg("rd")
        k.op("add.s64", source, k.out, 1024)

        def write():
            k.op("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster",
                 f"[{target}]", f"[{source}]", copied, barrier, mask)

        if leader:
            only(k, k.compare("eq", rank, 0), lambda: k.times("copy", "multicast", write))
        else:
            k.times("copy", "multicast", write)

    def consumes(agent):
        consume(k, ring, agent, trip, free=lambda slot: agent.arrive(
            k, None, f"every empty by {agent.role.name}", lambda: at_every_block(k, ring.empty.at32(slot), unrolled, "empty")))

    tail = k.chance(0.5)
    dispatch(k, [(roles[0], lambda: produce(k, ring, trip, fill, tail))]
             + [(agent.role, lambda agent=agent: consumes(agent)) for agent in consumers], done)
    part(k, done)


def cluster(k):
    k.pick(halves, arrivals, push, multicast)(k)
