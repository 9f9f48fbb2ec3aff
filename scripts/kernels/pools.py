"""setmaxnreg: warpgroups that give registers and others that take them.

What a block has is its registers at entry times its warpgroups. In each phase everybody goes to a new budget without waiting for anybody
else first, all budgets of a phase fit together, and a barrier of the block parts the phases.
"""
from .parts import Trip, block_sync, dispatch, looped, roles_of
from .rings import finish


def entry(k, groups):
    """Sets the directives that fix the registers at entry; returns them in the hardware's multiple of 8."""
    threads = groups * 128
    shape = k.pick(".maxntid", ".reqntid")
    most = min(65536 // threads // 8 * 8, 248)
    if groups > 2 and k.chance(0.5):
        k.directives = [f"{shape} {threads}", ".minnctapersm 1"]
        return most
    registers = k.rng.randint(56, most)
    if k.chance(0.7):
        registers = registers // 8 * 8
    k.directives = [f"{shape} {threads}", f".maxnreg {registers}"]
    return (registers + 7) // 8 * 8


def split(k, groups, registers, givers=None):
    """Budgets that fit: some give, the others share what is left."""
    givers = givers if givers is not None else set(k.rng.sample(range(groups), k.rng.randint(1, groups - 1)))
    takers = groups - len(givers)
    low = 8 * k.rng.randint(3, registers // 8 - 1)
    high = min(256, (groups * registers - low * len(givers)) // takers // 8 * 8)
    if k.chance(0.3):
        high = max(registers, high - 8 * k.rng.randint(1, 3))
    return [low if g in givers else high for g in range(groups)]


def set_budget(k, name, now, new):
    """One setmaxnreg, or none where nothing changes."""
    if new == now:
        return
    kind = "dec" if new < now else "inc"
    amount = k.vary("budget", new, [(f"{name} {kind} to {new + d} for {new}", new + d) for d in (8, 16, -8)
                                    if 24 <= new + d <= 256 and (new + d <= now if kind == "dec" else new + d >= now)])
    k.times("setmaxnreg", f"{kind} of {name}", lambda: k.op(f"setmaxnreg.{kind}.sync.aligned.u32", amount))


def straight(k, roles, registers, done):
    """Some phases, one after the other."""
    groups = len(roles)
    phases = [split(k, groups, registers) for _ in range(k.pick(1, 1, 2, 3))]
    ends = k.chance(0.4)  # a barrier after the last phase too
    late = [k.vary("order", None, [(f"{role.name} gives after the barrier", phase) for phase in range(len(phases))
                                   if phase + 1 < len(phases) or ends]) for role in roles]
    k.what = f"{registers} at entry, budgets " + ", then ".join("+".join(map(str, phase)) for phase in phases)

    def group(g):
        now = registers
        for index, phase in enumerate(phases):
            meets = index + 1 < len(phases) or ends
            if late[g] == index:
                block_sync(k)
                meets = False
            set_budget(k, roles[g].name, now, phase[g])
            now = phase[g]
            if meets:
                k.times("sync", f"barrier after phase {index} of {roles[g].name}", lambda: block_sync(k))

    dispatch(k, [(role, lambda g=g: group(g)) for g, role in enumerate(roles)], done)


def back_and_forth(k, roles, registers, done):
    """Two halves that swap their budgets again and again."""
    groups = len(roles)
    first = set(k.rng.sample(range(groups), k.rng.randint(1, groups - 1)))
    a = split(k, groups, registers, first)
    b = split(k, groups, registers, set(range(groups)) - first)
    trip = Trip(k.n, True) if k.chance(0.4) else Trip(k.rng.randint(1, 6), False)
    k.what = f"{registers} at entry, budgets {'+'.join(map(str, a))} and {'+'.join(map(str, b))} in turns, {trip.total} times"

    def group(g):
        def body(_):
            # at entry as from the other budget, the way is the same
            set_budget(k, roles[g].name, b[g], a[g])
            k.times("sync", f"first barrier of {roles[g].name}", lambda: block_sync(k))
            set_budget(k, roles[g].name, a[g], b[g])
            k.times("sync", f"second barrier of {roles[g].name}", lambda: block_sync(k))

        looped(k, trip, roles[g].name, body)

    dispatch(k, [(role, lambda g=g: group(g)) for g, role in enumerate(roles)], done)


def pools(k):
    groups = k.rng.randint(2, 4)
    roles = roles_of([(f"warpgroup{i}", 4) for i in range(groups)])
    registers = entry(k, groups)
    k.begin(roles[-1].end)
    done = k.new_label("done")
    k.pick(straight, straight, back_and_forth)(k, roles, registers, done)
    finish(k, done)
