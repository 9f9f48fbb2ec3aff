"""Rings of mbarriers: `full` and `empty` of some stages between threads. Other families fill such rings otherwise.

Right in every schedule means above all that nobody can be overtaken: who waits for a phase must be counted by the next one. So a lane
that arrives for its warp does so after a `bar.warp.sync` that follows the warp's wait, and a thread that arrives for its group after a
barrier of the group.
"""
from dataclasses import dataclass

from .parts import Barriers, Cursor, Role, Trip, block_sync, dispatch, lane_elected, looped, only, prepare, roles_of, thread_elected, wait, warp_sync


@dataclass
class Agent:
    """A role's way to take part: all of it or one thread (`solo`), and how it arrives."""
    role: Role
    solo: bool
    kind: str  # all | lane | thread
    weight: int = 1
    barrier: int = 0  # the named barrier of the group, where one thread arrives for several warps

    @staticmethod
    def choose(k, role, solo=None):
        solo = k.chance(0.4) if solo is None else solo
        kind = "thread" if solo else k.pick("all", "lane", "lane", "thread")
        weight = k.pick(1, 1, 2, role.threads) if kind == "thread" else 1
        barrier = k.named_id() if kind == "thread" and not solo and role.warps > 1 else 0
        return Agent(role, solo, kind, weight, barrier)

    def count(self):
        """What one round of arrivals adds up to."""
        return {"all": self.role.threads, "lane": self.role.warps, "thread": self.weight}[self.kind]

    def settle(self, k):
        """Between the waits of the group and an arrival in its name."""
        if self.solo or self.kind == "all":
            return
        if self.barrier:
            block_sync(k, self.role, self.barrier)
        else:
            warp_sync(k)

    def arrive(self, k, where, what, instruction=None):
        """The arrival, by whom it is due. instruction: another way to write it than mbarrier.arrive."""
        def write():
            if instruction:
                return instruction()
            sem = k.pick("", "", ".release.cta") if k.space == ".shared::cta" else ""
            weight = k.number("weight", f"arrivals at {what}:", self.weight, (1, -1), 1) if self.weight > 1 else 1
            sink = k.reg("rd") if k.chance(0.3) else "_"
            if self.weight > 1 or k.chance(0.1):
                k.op(f"mbarrier.arrive{sem}{k.space}.b64", sink, where, k.value(weight))
            else:
                k.op(f"mbarrier.arrive{sem}{k.space}.b64", sink, where)

        def once():
            k.times("arrival", f"arrival at {what}", write)

        if self.solo or self.kind == "all":
            once()
        else:
            only(k, lane_elected(k) if self.kind == "lane" else thread_elected(k, self.role), once)

    def run(self, k, write):
        """The role's code: for all of it, or for one thread of it."""
        if not self.solo:
            return write()
        predicate, over = thread_elected(k, self.role), k.new_label("idle")
        k.skip_unless(predicate, over)
        write()
        k.place(over)


class Ring:
    """`full` and `empty` between one producer and some consumers."""

    def __init__(self, k, name, stages, producer, consumers, together=True):
        self.k, self.name, self.stages = k, name, stages
        self.full, self.empty = Barriers(k, f"full{name}", stages), Barriers(k, f"empty{name}", stages)
        self.producer, self.consumers = producer, consumers
        # where consumers take turns, one of them frees a slot, where they all read it, all of them do
        self.free = sum(c.count() for c in consumers) if together else consumers[0].count()
        self.filled = producer.count()

    def barriers(self):
        return [(self.full, self.filled), (self.empty, self.free)]


def parity(k, phase):
    """A phase as an operand: mostly as it is, sometimes with what is above its bit cut off once more."""
    if isinstance(phase, int) or k.chance(0.85):
        return phase
    register = k.reg()
    k.op("and.b32", register, phase, 1)
    return register


def stage_of(k, ring, slot, what):
    """The slot, where it is named once more; a change takes the first one always."""
    return k.vary("stage", slot, [(f"{what} is always at stage 0", 0)]) if ring.stages > 1 and slot != 0 else slot


def walk(k, cursor, trip, what, one, exact=False):
    """The loop of one side over its items: one(item) at each, with the cursor set. exact: `item` must be the item's number."""
    def body(item):
        cursor.look(item)
        one(item)
        cursor.advance(item)

    def a_round(item):
        for cursor.slot in range(cursor.stages):
            one(item)
        if cursor.toggles:
            k.op("xor.b32", cursor.phase, cursor.phase, 1)

    simple = trip.tiles == 1 and not trip.by_n and not trip.tiles_by_n and not exact
    if simple and cursor.stages > 1 and trip.count % cursor.stages == 0 and k.chance(0.5):
        k.note(f"rounds of {cursor.stages} items")
        cursor.style, cursor.slot = "unrolled", 0
        cursor.begin()
        return looped(k, Trip(trip.count // cursor.stages, False), f"{what} (rounds of {cursor.stages})", a_round, unrolled=False)
    cursor.begin()
    return looped(k, trip, what, body)


def drain(k, ring, cursor, items):
    """Until every slot is free again; items: how many there were, in a register or known."""
    k.note("until every slot is free again")
    start = len(k.lines)
    drained = k.vary("tail", True, [(f"tail of producer{ring.name} dropped", False)])
    for stage in range(ring.stages):
        item = items
        if cursor.style == "unrolled":
            cursor.slot = stage
        elif isinstance(items, int):
            item = items + stage
        elif stage:
            item = k.reg()
            k.op("add.u32", item, items, stage)
        cursor.look(item)
        wait(k, ring.empty.at(cursor.slot), parity(k, cursor.phase), f"empty{ring.name} in the tail")
        cursor.advance(item)
    if not drained:
        del k.lines[start:]


def produce(k, ring, trip, fill=None, tail=True):
    """The producer's loop. fill(slot, item): another way to fill the slot and arrive at `full`."""
    agent = ring.producer
    cursor = Cursor(k, ring.stages, 1, f"producer{ring.name}")

    def one(item):
        wait(k, ring.empty.at(stage_of(k, ring, cursor.slot, f"wait for empty{ring.name}")), parity(k, cursor.phase), f"empty{ring.name}")
        if fill:
            fill(cursor.slot, item)
        else:
            agent.settle(k)
            agent.arrive(k, ring.full.at(stage_of(k, ring, cursor.slot, f"arrival at full{ring.name}")), f"full{ring.name}")

    def all_of_it():
        items = walk(k, cursor, trip, f"producer{ring.name}", one)
        if tail:
            drain(k, ring, cursor, items)

    agent.run(k, all_of_it)


def consume(k, ring, agent, trip, turn=None, read=None, after=None, before=None, free=None):
    """A consumer's loop. turn: (which, of how many) where groups take turns; before(slot), read(slot), after(item): what is done before
    the wait and after it; free(slot): another way to arrive at `empty`."""
    name = f"{agent.role.name} of ring{ring.name}" if ring.name else agent.role.name
    cursor = Cursor(k, ring.stages, 0, name, computed=turn is not None)

    def one(item):
        if before:
            before(cursor.slot)
        wait(k, ring.full.at(stage_of(k, ring, cursor.slot, f"wait for full{ring.name} by {name}")), parity(k, cursor.phase),
             f"full{ring.name} by {agent.role.name}")
        if read:
            read(cursor.slot)
        if after:
            after(item)
        agent.settle(k)
        if free:
            free(cursor.slot)
        else:
            agent.arrive(k, ring.empty.at(stage_of(k, ring, cursor.slot, f"arrival at empty{ring.name} by {name}")),
                         f"empty{ring.name} by {agent.role.name}")

    def in_turn(item):
        which, groups = turn
        place = item * groups + which if isinstance(item, int) else k.reg()
        if not isinstance(item, int):
            k.op("mad.lo.u32", place, item, groups, which)
        cursor.look(place)
        one(item)

    def all_of_it():
        if turn:
            looped(k, trip, agent.role.name, in_turn)
        else:
            walk(k, cursor, trip, agent.role.name, one, exact=after is not None)

    if k.cluster == 1 and k.vary("exit", False, [(f"the last warp of {agent.role.name} leaves before its loop", True)]):
        over = k.new_label("stays")
        k.op("bra", over, guard=k.compare("lt", k.tid, agent.role.end - 32))
        k.leave()
        k.place(over)
    agent.run(k, all_of_it)


def finish(k, done):
    k.place(done)
    k.count_self()
    k.op("ret")


def plain(k):
    """One ring between threads."""
    groups = k.rng.randint(1, 3)
    sizes = [("producer", k.rng.randint(1, 2))] + [(f"consumer{i}", k.rng.randint(1, 3)) for i in range(groups)]
    turns = groups > 1 and k.chance(0.3)
    if turns:
        sizes = sizes[:1] + [(name, sizes[1][1]) for name, _ in sizes[1:]]
    roles = roles_of(sizes)
    # in turns, a slot is always the same group's: another one could take the phase before its own for it
    stages = k.pick(groups, 4 if groups == 2 else 3) if turns else k.rng.randint(1, 4)
    k.begin(roles[-1].end + k.pick(0, 0, 32))
    producer = Agent.choose(k, roles[0])
    consumers = [Agent.choose(k, role) for role in roles[1:]]
    if turns:
        first = consumers[0]
        consumers = [Agent(role, first.solo, first.kind, first.weight, k.named_id() if first.barrier else 0) for role in roles[1:]]
    ring = Ring(k, "", stages, producer, consumers, not turns)
    trip = Trip.choose(k)
    if turns:
        each = Trip(k.rng.randint(1, 6), False)
        trip = Trip(each.count * groups, False)
    k.what = f"a ring of {stages}, {groups} consumer groups{' in turns' if turns else ''}, {trip.total} items"
    prepare(k, ring.barriers(), k.chance(0.7))
    done = k.new_label("done")
    tail = k.chance(0.5)
    bodies = [(roles[0], lambda: produce(k, ring, trip, tail=tail))]
    for i, agent in enumerate(consumers):
        bodies.append((agent.role, lambda i=i, agent=agent: consume(k, ring, agent, each if turns else trip, (i, groups) if turns else None)))
    dispatch(k, bodies, done)
    finish(k, done)


def series(k):
    """Two rings one after the other: load, transform, compute."""
    roles = roles_of([("load", 1), ("transform", k.rng.randint(1, 2)), ("compute", k.rng.randint(1, 4))])
    k.begin(roles[-1].end)
    load, transform, compute = (Agent.choose(k, role) for role in roles)
    second = Agent(transform.role, transform.solo, *((transform.kind, transform.weight, transform.barrier)
                                                     if transform.solo or k.chance(0.5) else ("all",)))
    a = Ring(k, "A", k.rng.randint(1, 4), load, [transform])
    b = Ring(k, "B", k.rng.randint(1, 4), second, [compute])
    trip = Trip.choose(k)
    k.what = f"rings of {a.stages} and {b.stages} in series, {trip.total} items"
    prepare(k, a.barriers() + b.barriers(), k.chance(0.7))
    done = k.new_label("done")

    def middle():
        came, goes = Cursor(k, a.stages, 0, "transform's input"), Cursor(k, b.stages, 1, "transform's output")

        def body(item):
            came.look(item)
            goes.look(item)
            waits = [lambda: wait(k, a.full.at(came.slot), came.phase, "fullA"), lambda: wait(k, b.empty.at(goes.slot), goes.phase, "emptyB")]
            k.rng.shuffle(waits)
            for one in waits:
                one()
            transform.settle(k)
            second.arrive(k, b.full.at(goes.slot), "fullB")
            transform.arrive(k, a.empty.at(came.slot), "emptyA")
            came.advance(item)
            goes.advance(item)

        def all_of_it():
            came.begin()
            goes.begin()
            looped(k, trip, "transform", body)

        transform.run(k, all_of_it)

    tail = k.chance(0.5)
    dispatch(k, [(roles[0], lambda: produce(k, a, trip, tail=tail)), (roles[1], middle), (roles[2], lambda: consume(k, b, compute, trip))], done)
    finish(k, done)


def rounds(k):
    """Threads that arrive and wait together, round by round; a group may drop out of the count on the way."""
    leaves = k.chance(0.5)
    roles = roles_of([("stays", k.rng.randint(1, 4))] + ([("leaves", k.rng.randint(1, 2))] if leaves else []))
    k.begin(roles[-1].end)
    barrier = Barriers(k, "round", 1)
    lanes, token = k.chance(0.4), k.chance(0.4)
    count = sum(r.warps if lanes else r.threads for r in roles)
    total = k.rng.randint(2, 20)
    trip = Trip(k.n, True) if not leaves and k.chance(0.3) else Trip(total, False)
    early = k.rng.randint(1, trip.total) if leaves else 0
    token = token and not lanes
    k.what = f"{trip.total} rounds at one mbarrier" + (f", {roles[1].threads} threads leave the count after {early - 1}" if leaves else "")
    prepare(k, [(barrier, count)], k.chance(0.5))
    done = k.new_label("done")

    def meet(cursor, item):
        state = k.reg("rd")
        cursor.look(item)

        def arrive():
            k.op(f"mbarrier.arrive{k.space}.b64", state if token else "_", barrier.at(0))

        if lanes:
            only(k, lane_elected(k), lambda: k.times("arrival", "arrival of a round", arrive))
        else:
            k.times("arrival", "arrival of a round", arrive)
        wait(k, barrier.at(0), state if token else cursor.phase, "a round", token)
        if lanes:
            warp_sync(k)
        cursor.advance(item)

    def stays():
        cursor = Cursor(k, 1, 0, "stays")
        cursor.begin()
        looped(k, trip, "stays", lambda item: meet(cursor, item))

    def quits():
        cursor = Cursor(k, 1, 0, "leaves")
        cursor.begin()
        if early > 1:
            looped(k, Trip(early - 1, False), "leaves", lambda item: meet(cursor, item))
        drop = k.vary("drop", "_drop", [("leaves by arrive instead of arrive_drop", "")])

        def last():
            k.times("arrival", "arrive_drop", lambda: k.op(f"mbarrier.arrive{drop}{k.space}.b64", "_", barrier.at(0)))

        if lanes:
            only(k, lane_elected(k), last)
        else:
            last()

    dispatch(k, [(roles[0], stays)] + ([(roles[1], quits)] if leaves else []), done)
    finish(k, done)


def rings(k):
    k.pick(plain, plain, plain, series, rounds)(k)
