"""Named barriers between groups of warps.

Who arrives without waiting may come to a barrier again only when the round it arrived for is over, and that another barrier must say.
One number serves one set of groups.
"""
from .parts import dispatch, looped, roles_of, Trip
from .rings import finish

POPC = "red.popc.u32"

def site(k, kind, number, count, what):
    """One bar.sync, bar.arrive or bar.red, in one of its spellings. kind: sync, arrive, or the reduction; number: known, or in a register."""
    if isinstance(number, int):
        number = k.vary("id", number, [(f"{what} at barrier {number % 15 + 1} for {number}", number % 15 + 1)])
    count = k.vary("count", count, [(f"{what} counts {count + d} for {count}", count + d) for d in (32, -32) if count + d > 0])
    kind = k.vary("kind", kind, [(f"{what} is {'arrive' if kind == 'sync' else 'sync'}",
                                  {"sync": "arrive", "arrive": "sync"}[kind])] if kind in ("sync", "arrive") else [])
    number, count = k.value(number, 0.2), k.value(count, 0.2)

    def write():
        if kind.startswith("red"):
            predicate = k.compare("gt", k.tid, k.rng.randint(0, 100))
            k.op(f"{k.pick('bar', 'barrier', 'barrier.cta')}.{kind}", k.reg("r" if kind == POPC else "p"), number, count, predicate)
        else:
            k.op(k.pick("bar", "bar", "bar.cta", "barrier", "barrier.cta") + f".{kind}", number, count)

    k.times(kind.split(".")[0], what, write)


def handshake(k):
    """Slots that one group fills and another empties: `full` and `empty` named barriers a slot."""
    roles = roles_of([("producer", k.rng.randint(1, 4)), ("consumer", k.rng.randint(1, 4))])
    slots = k.rng.randint(1, 3)
    trip = Trip(k.rng.randint(1, 12), False) if k.chance(0.6) else Trip(k.n, True)
    first = k.rng.randint(1, 15 - 2 * slots)
    both = roles[0].threads + roles[1].threads
    k.begin(roles[-1].end + k.pick(0, 0, 0, 64))
    k.what = f"{slots} slots handed over by named barriers, {trip.total} items"
    done = k.new_label("done")

    def numbers(item):
        """The numbers of `full` and `empty` for the item."""
        if slots == 1:
            return first, first + 1
        if isinstance(item, int):
            return first + item % slots, first + slots + item % slots
        slot, full, empty = k.reg(), k.reg(), k.reg()
        k.op("rem.u32", slot, item, slots)
        k.op("add.u32", full, slot, first)
        k.op("add.u32", empty, slot, first + slots)
        return full, empty

    def unless_first(item, write):
        """For all but the first `slots` items."""
        if isinstance(item, int):
            if item >= slots:
                write()
            return
        over = k.new_label("first")
        k.op("bra", over, guard=k.compare("lt", item, slots))
        write()
        k.place(over)

    def unless_last(item, write):
        """For all but the last `slots` items."""
        if isinstance(item, int):
            if item + slots < trip.total:
                write()
            return
        over, ahead = k.new_label("last"), k.reg()
        k.op("add.u32", ahead, item, slots)
        k.op("bra", over, guard=k.compare("ge", ahead, k.n_register if trip.by_n else trip.total))
        write()
        k.place(over)

    def produce(item):
        full, empty = numbers(item)
        unless_first(item, lambda: site(k, "sync", empty, both, "wait for empty"))
        site(k, "arrive", full, both, "arrival at full")

    def consume(item):
        full, empty = numbers(item)
        site(k, "sync", full, both, "wait for full")
        unless_last(item, lambda: site(k, "arrive", empty, both, "arrival at empty"))

    dispatch(k, [(roles[0], lambda: looped(k, trip, "producer", produce)),
                 (roles[1], lambda: looped(k, trip, "consumer", consume))], done)
    finish(k, done)


def turns(k):
    """Groups that take turns, each let on by the one before it, as FlashAttention-3 orders its warpgroups."""
    groups, warps = k.rng.randint(2, 4), k.rng.randint(1, 3)
    roles = roles_of([(f"group{i}", warps) for i in range(groups)])
    trip = Trip(k.rng.randint(1, 10), False) if k.chance(0.6) else Trip(k.n, True)
    first = k.rng.randint(1, 16 - groups)
    both = 2 * warps * 32
    k.begin(roles[-1].end)
    k.what = f"{groups} groups of {warps} warps take turns, {trip.total} times"
    done = k.new_label("done")

    def group(g):
        if g == groups - 1:
            k.note("the first of the first group is free")
            if trip.by_n:
                k.op("bra", done, guard=k.compare("eq", k.n_register, 0))
            site(k, "arrive", first, both, "arrival before the first turn")

        def body(item):
            site(k, "sync", first + g, both, f"wait of group{g}")

            def write():
                site(k, "arrive", first + (g + 1) % groups, both, f"arrival of group{g}")

            if g < groups - 1:
                return write()
            # nobody waits after the last turn
            if isinstance(item, int):
                if item + 1 < trip.total:
                    write()
                return
            over, ahead = k.new_label("last"), k.reg()
            k.op("add.u32", ahead, item, 1)
            k.op("bra", over, guard=k.compare("eq", ahead, k.n_register if trip.by_n else trip.total))
            write()
            k.place(over)

        looped(k, trip, f"group{g}", body)

    dispatch(k, [(role, lambda g=g: group(g)) for g, role in enumerate(roles)], done)
    finish(k, done)


def meetings(k):
    """Groups that meet in a fixed order of sets, each set at its own barrier, in a loop; some warps may have left before."""
    groups = k.rng.randint(2, 4)
    roles = roles_of([(f"group{i}", k.rng.randint(1, 3)) for i in range(groups)])
    away = k.pick(0, 0, 1, 2)
    k.begin(roles[-1].end + 32 * away)
    trip = Trip(k.rng.randint(1, 8), False) if k.chance(0.5) else Trip(k.n, True)
    sets = []
    for _ in range(k.rng.randint(1, 4)):
        one = tuple(sorted(k.rng.sample(range(groups), k.rng.randint(1, groups))))
        sets.append(one)
    ids = k.rng.sample(range(1, 16), 10)
    number = {one: ids[i] for i, one in enumerate(dict.fromkeys(sets))}
    # reductions must not meet anything else at one barrier
    kinds = {one: k.pick("sync", "sync", "sync", POPC, "red.and.pred", "red.or.pred") for one in number}
    # one arrival without a wait a round, at a number of its own; the round ends where both sides meet
    hand = tuple(k.rng.sample(range(groups), 2)) if k.chance(0.5) else None
    hand_id, end_id = ids[-1], ids[-2]
    ends = k.pick("bar.sync", "barrier.sync", "barrier.cta.sync")
    early = k.chance(0.5)  # those who are not in a group leave, or wait at the last barrier
    k.what = f"{groups} groups meet in sets {' '.join('+'.join(map(str, s)) for s in sets)}, {trip.total} times, {away} warps away"
    done = k.new_label("done")

    def members(one):
        return sum(roles[g].threads for g in one)

    def group(g):
        def body(_):
            for one in sets:
                if g in one:
                    site(k, kinds[one], number[one], members(one), f"group{g} at {'+'.join(map(str, one))}")
            if hand and g in hand:
                site(k, "arrive" if g == hand[0] else "sync", hand_id, members(hand), f"group{g} at the hand-over")
                site(k, "sync", end_id, members(hand), f"group{g} after the hand-over")

        looped(k, trip, f"group{g}", body)
        if k.vary("exit", False, [(f"group{g} leaves before the last barrier", True)]):
            k.leave()

    bodies = [(role, lambda g=g: group(g)) for g, role in enumerate(roles)]
    meet = k.new_label("meet")
    if away and early:
        k.note("warps without a group leave")
        stay = k.new_label("stay")
        k.op("bra", stay, guard=k.compare("lt", k.tid, k.vary("range", roles[-1].end, [
            ("a warp more leaves at first", roles[-1].end - 32), ("a warp fewer leaves at first", roles[-1].end + 32)])))
        k.leave()
        k.place(stay)
    dispatch(k, bodies, meet)
    k.place(meet)
    if k.chance(0.7):
        number = k.vary("id", 0, [("the last barrier has another number", 15)])
        count = k.vary("count", roles[-1].end, [(f"the last barrier counts {roles[-1].end + d}", roles[-1].end + d) for d in (32, -32)])
        whole = not away or not early

        def write():
            if (whole or k.chance(0.5)) and count == roles[-1].end:
                # without a count, exited threads are not waited for
                k.op(ends, number)
            else:
                k.op(ends, number, k.value(count if early or not away else k.threads))

        k.times("sync", "last barrier", write)
    finish(k, done)


def named(k):
    k.pick(handshake, turns, meetings, meetings)(k)
