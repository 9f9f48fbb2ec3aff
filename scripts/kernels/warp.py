"""Lanes: bar.warp.sync, votes, shuffles and elections under masks, and barriers after them."""
from .parts import Barriers, Trip, block_sync, looped, only, prepare, wait, warp_sync
from .rings import finish

ALL = 0xFFFFFFFF


def masked(k, mask, lanes, what):
    """A warp-wide instruction for exactly the lanes that come here."""
    others = [(f"mask of {what} has a lane more", mask | (ALL ^ mask) & -(ALL ^ mask))] if mask != ALL else []
    others += [(f"mask of {what} is everybody's", ALL)] if mask != ALL else []
    others += [(f"mask of {what} has a lane fewer", mask & (mask - 1))] if lanes > 1 else []
    lowest = (mask & -mask).bit_length() - 1
    # whom a lane reads must be one of those that come
    source = k.pick(("idx", lowest), ("bfly", 0)) if mask != ALL else k.pick(("idx", 5), ("bfly", 1), ("down", 1))
    mask = k.vary("mask", mask, others)
    mask = k.pick(f"0x{mask:08x}", str(mask))
    kind = k.pick("sync", "sync", "shfl", "vote", "elect")

    def write():
        if kind == "sync":
            k.op("bar.warp.sync", mask)
        elif kind == "shfl":
            k.op(f"shfl.sync.{source[0]}.b32", k.reg(), k.tid, source[1], 31, mask)
        elif kind == "vote":
            if k.chance(0.5):
                k.op(f"vote.sync.{k.pick('any', 'all')}.pred", k.reg("p"), k.compare("gt", k.tid, 3), mask)
            else:
                k.op("vote.sync.ballot.b32", k.reg(), k.compare("gt", k.tid, 3), mask)
        else:
            k.op("elect.sync", f"{k.reg()}|{k.reg('p')}", mask)

    k.times("warp", what, write)


def lane_of(k):
    lane = k.reg()
    if k.chance(0.5):
        k.op("mov.u32", lane, "%laneid")
    else:
        k.op("and.b32", lane, k.tid, 31)
    return lane


def rejoin(k):
    k.times("rejoin", "bar.warp.sync where lanes rejoin", lambda: warp_sync(k))


def parted(k, lane, low):
    """Two parts of each warp, each under its own mask, that come together again."""
    other, over = k.new_label("high"), k.new_label("joined")
    mask = (1 << low) - 1
    bound = k.vary("part", low, [("one lane more in the low part", low + 1), ("one lane fewer in the low part", low - 1)])
    k.op("bra", other, guard=k.compare("ge", lane, bound))
    for index in range(k.rng.randint(1, 2)):
        masked(k, mask, low, f"low part {index}")
    k.op("bra", over)
    k.place(other)
    for index in range(k.rng.randint(0, 2)):
        masked(k, ALL ^ mask, 32 - low, f"high part {index}")
    k.place(over)
    rejoin(k)


def uneven(k, lane):
    """A loop that each lane takes another number of times, then the warp together."""
    limit, i, again, total = k.reg(), k.reg(), k.new_label("own"), k.reg()
    k.op("and.b32", limit, lane, k.pick(1, 3, 7))
    k.op("mov.u32", i, 0)
    k.op("mov.u32", total, 0)
    k.place(again)
    k.op("atom.shared.add.u32", total, "[scratch]", 1)
    k.op("add.u32", i, i, 1)
    k.op("bra", again, guard=k.compare("le", i, limit))
    rejoin(k)
    masked(k, ALL, 32, "whole warp")


def until_all(k, lane):
    """A loop that the warp leaves together, by a vote."""
    i, again, more = k.reg(), k.new_label("vote"), k.reg("p")
    k.op("mov.u32", i, 0)
    k.place(again)
    k.op("add.u32", i, i, 1)
    wants = k.compare("lt", i, lane)
    k.op("vote.sync.any.pred", more, wants, k.pick("-1", "0xffffffff"))
    leaves = k.vary("vote", more, [("each lane leaves the voting loop by itself", wants)])
    k.op("bra", again, guard=leaves)


def led(k, lane):
    """One lane writes, the warp reads."""
    leader, own, base = k.reg("p"), k.reg(), k.reg()
    k.op("mov.u32", base, "scratch")
    k.op("shr.u32", own, k.tid, 5)
    k.op("mad.lo.u32", own, own, 4, base)
    k.op("elect.sync", f"_|{leader}", "-1")
    only(k, leader, lambda: k.op("st.shared.u32", f"[{own}+4]", lane))
    rejoin(k)
    k.op("ld.shared.u32", k.reg(), f"[{own}+4]")
    warp_sync(k)


def together(k):
    """Whole warps throughout; a barrier of the block after each piece."""
    k.begin(32 * k.rng.randint(1, 6))
    k.array("scratch", 32, 16)
    lane = lane_of(k)
    low = k.rng.randint(2, 30)
    trip = Trip(k.n, True) if k.chance(0.3) else Trip(k.rng.randint(1, 5), False)
    pieces = [k.pick("parted", "parted", "uneven", "until_all", "led") for _ in range(k.rng.randint(1, 3))]
    k.what = f"{', '.join(pieces)}, the first {low} lanes apart, {trip.total} times"

    def body(_):
        for piece in pieces:
            if piece == "parted":
                parted(k, lane, low)
            else:
                {"uneven": uneven, "until_all": until_all, "led": led}[piece](k, lane)
            if k.chance(0.6):
                k.times("sync", "barrier of the block", lambda: block_sync(k))

    looped(k, trip, None, body)
    done = k.new_label("done")
    if k.vary("exit", False, [("the high lanes leave before the last barrier", True)]):
        k.op("bra", done, guard=k.compare("ge", lane, low))
    block_sync(k)
    finish(k, done)


def thinned(k):
    """Some lanes leave; the others go on under their mask and meet at an mbarrier that counts them."""
    k.begin(32 * k.rng.randint(1, 4))
    lane = lane_of(k)
    low = k.rng.randint(2, 30)
    mask = (1 << low) - 1
    barrier = Barriers(k, "rest", 1)
    by_lane = k.chance(0.4)
    warps = k.threads // 32
    k.what = f"all but the first {low} lanes of each warp leave, the others meet at an mbarrier"
    prepare(k, [(barrier, warps if by_lane else warps * low)], False)
    stay = k.new_label("stay")
    k.op("bra", stay, guard=k.compare("lt", lane, low))
    k.leave()
    k.place(stay)
    trip = Trip(k.rng.randint(1, 6), False)
    phase = k.reg()
    k.op("mov.u32", phase, 0)

    def body(_):
        masked(k, mask, low, "who stays")
        if by_lane:
            leader = k.reg("p")
            k.op("elect.sync", f"_|{leader}", mask)
            only(k, leader, lambda: k.times("arrival", "arrival", lambda: k.op(f"mbarrier.arrive{k.space}.b64", "_", barrier.at(0))))
        else:
            k.times("arrival", "arrival", lambda: k.op(f"mbarrier.arrive{k.space}.b64", "_", barrier.at(0)))
        wait(k, barrier.at(0), phase, "the rest")
        k.op("bar.warp.sync", mask)
        k.op("xor.b32", phase, phase, 1)

    looped(k, trip, None, body)
    finish(k, k.new_label("done"))


def warp(k):
    k.pick(together, together, together, thinned)(k)
