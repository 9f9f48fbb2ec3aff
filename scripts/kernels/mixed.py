"""Kernels with roles, as GEMMs and attention have them: a producer that copies, consumer warpgroups, an epilogue, register budgets."""
from .bulk import Tiles, filler
from .named import site
from .parts import Trip, block_sync, dispatch, keep, prepare, roles_of, looped, work
from .pools import set_budget
from .rings import Agent, Ring, consume, finish, produce


def budgets(k, groups, takers):
    """What each warpgroup goes to: consumers take, the others give; None where they all stay."""
    registers = 65536 // (groups * 128) // 8 * 8
    low = 8 * k.rng.randint(3, 7)
    high = min(240, (groups * registers - low * (groups - takers)) // takers // 8 * 8)
    return registers, low, high


def mixed(k):
    consumers, epilogue = k.rng.randint(1, 2), k.chance(0.5)
    groups = 1 + consumers + epilogue
    pool = groups > 2 and k.chance(0.6)
    sizes = [("producer", 4 if pool else k.pick(1, 1, 4))] + [(f"consumer{i}", 4 if pool else k.pick(1, 2, 4)) for i in range(consumers)]
    sizes += [("epilogue", 4 if pool else k.rng.randint(1, 4))] if epilogue else []
    in_turns = consumers == 2 and k.chance(0.6)
    if in_turns:
        sizes[2] = (sizes[2][0], sizes[1][1])
    roles = roles_of(sizes)
    if pool:
        k.directives = [f"{k.pick('.reqntid', '.maxntid')} {groups * 128}", ".minnctapersm 1"]
        registers, low, high = budgets(k, groups, consumers)
    k.begin(roles[-1].end)
    stages = k.rng.randint(1, 4)
    agents = [Agent.choose(k, role, solo=False) for role in roles[1:1 + consumers]]
    ring = Ring(k, "", stages, Agent(roles[0], True, "thread"), agents)
    tiles = Tiles(k, "tile", stages)
    trip = Trip(k.n, True) if k.chance(0.4) else Trip(k.rng.randint(1, 16), False)
    turn_ids = [k.named_id(), k.named_id()]
    handed, taken, last = k.named_id(), k.named_id(), k.named_id()
    math = sum(agent.role.threads for agent in agents)
    k.what = (f"a producer, {consumers} consumer groups{' in turns' if in_turns else ''}{', an epilogue' if epilogue else ''}"
              f"{f', budgets {low} and {high} of {registers}' if pool else ''}, a ring of {stages}, {trip.total} items")
    tiles.begin()
    prepare(k, ring.barriers())
    total = k.reg()
    k.op("mov.u32", total, 0)
    fill = filler(k, ring, tiles)
    tail, early, reads, meet = k.chance(0.5), k.chance(0.5), k.chance(0.5), k.chance(0.5)
    done = k.new_label("done")
    per_item = epilogue and k.chance(0.6)

    def budget(role, new):
        if pool:
            set_budget(k, role.name, registers, new)

    def except_at(item, which, write):
        """For all items but the first, or but the last."""
        if isinstance(item, int):
            if item != (0 if which == "first" else trip.total - 1):
                write()
            return
        over = k.new_label(which)
        if which == "first":
            k.op("bra", over, guard=k.compare("eq", item, 0))
        else:
            ahead = k.reg()
            k.op("add.u32", ahead, item, 1)
            k.op("bra", over, guard=k.compare("ge", ahead, k.n_register if trip.by_n else trip.total))
        write()
        k.place(over)

    def producer():
        budget(roles[0], low if pool else 0)
        produce(k, ring, trip, fill, tail)
        if early:
            k.leave()

    def consumer(index):
        agent = agents[index]
        budget(agent.role, high if pool else 0)
        both = 2 * agent.role.threads
        if in_turns and index == 1:
            k.note("the first turn is consumer0's")
            site(k, "arrive", turn_ids[0], both, "arrival before the first turn")

        def after(item):
            if in_turns:
                site(k, "sync", turn_ids[index], both, f"turn of consumer{index}")

                def pass_on():
                    site(k, "arrive", turn_ids[1 - index], both, f"end of consumer{index}'s turn")

                if index == 1:
                    except_at(item, "last", pass_on)
                else:
                    pass_on()
            if per_item:
                except_at(item, "first", lambda: site(k, "sync", taken, math + roles[-1].threads, f"consumer{index} waits for the epilogue"))
                site(k, "arrive", handed, math + roles[-1].threads, f"consumer{index} hands over")

        consume(k, ring, agent, trip, read=(lambda slot: work(k, total, tiles.at(slot))) if reads else None,
                after=after if in_turns or per_item else None)
        if epilogue and not per_item:
            site(k, "arrive", handed, math + roles[-1].threads, f"consumer{index} hands over")
        if reads:
            keep(k, total)
        if meet:
            site(k, "sync", last, math, f"consumer{index} at the end")

    def epilogues():
        role = roles[-1]
        budget(role, low if pool else 0)
        if not per_item:
            site(k, "sync", handed, math + role.threads, "epilogue waits")
            return

        def body(item):
            site(k, "sync", handed, math + role.threads, "epilogue waits")
            except_at(item, "last", lambda: site(k, "arrive", taken, math + role.threads, "epilogue frees"))

        looped(k, trip, "epilogue", body)

    bodies = [(roles[0], producer)] + [(agents[i].role, lambda i=i: consumer(i)) for i in range(consumers)]
    dispatch(k, bodies + ([(roles[-1], epilogues)] if epilogue else []), done)
    if not early and k.chance(0.3):
        k.place(done)
        k.times("sync", "last barrier", lambda: block_sync(k))
        k.count_self()
        k.op("ret")
        return
    finish(k, done)
