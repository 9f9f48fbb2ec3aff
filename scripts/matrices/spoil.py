"""Layouts and descriptors with one thing wrong: a comparison that finds them equal could not have failed."""
from . import fragments, ptx, tiles
from .forms import parts


def swapped(items, first, second):
    items = list(items)
    items[first], items[second] = items[second], items[first]
    return items


def of_layouts(job):
    """(what is wrong, index of the layout, what changes) for every operand that the kernel has in registers."""
    used = [layout["operand"] for layouts in ptx.operands(job) for layout in layouts]
    for index, layout in enumerate(job["layouts"]):
        if layout["operand"] not in used:
            continue
        bits, registers = layout["thread_bits"], layout["registers"]
        ways = [("bits of the thread", {"thread_bits": swapped(bits, first, first + 1)}) for first in range(4)]
        ways += [("registers", {"registers": swapped(registers, first, first + 1)}) for first in range(len(registers) - 1)]
        if len(registers[0]) > 1:
            ways.append(("elements of a register", {"registers": [own[::-1] for own in registers]}))
        yield from ((f"{what} of {layout['operand']}", index, change) for what, change in ways)


def layout_with(job, index, change):
    """The job with a changed layout; None where the change is none, or leads out of the matrix."""
    layout = job["layouts"][index]
    wrong = {**layout, **change}
    cells = list(fragments.cells(wrong))
    inside = all(row < layout["rows"] and column < layout["columns"] for *_, row, column in cells)
    if not inside or cells == list(fragments.cells(layout)):
        return None
    return {**job, "layouts": [wrong if at == index else own for at, own in enumerate(job["layouts"])]}


def of_descriptors(one):
    """(what is wrong, side, what changes) for every descriptor."""
    for side in (side for side in "ab" if side in one):
        tile = one[side]["tile"]
        unit = 8 * tiles.SWIZZLES[tile["swizzle"]] or 16
        ways = [("start", {"start": tile["start"] + way}) for way in (16, -16, unit)]
        ways += [(name, {name: tile[name] + way}) for name in ("leading_bytes", "stride_bytes") for way in (unit, -unit)]
        ways += [("swizzle", {"swizzle": name}) for name in tiles.SWIZZLES if name != tile["swizzle"]]
        ways += [("base_offset", {"base_offset": value}) for value in range(8)]
        yield from ((f"{what} of {side.upper()}", side, change) for what, change in ways)


def launch_with(job, one, side, change):
    """The launch with a changed descriptor; None where nothing lies elsewhere, or some of it outside."""
    (m, n, k), types, is_sparse = parts(job["opcode"])
    sizes = {"a": (job["transposed"][0], m, k // 2 if is_sparse else k, types[1]), "b": (job["transposed"][1], n, k, types[2])}
    tile = one[side]["tile"]
    wrong = {**tile, **change}
    own = [address for *_, address in tiles.chunks(wrong, *sizes[side])]
    inside = min(own) >= tiles.BASE and max(own) + 16 <= tiles.BASE + tiles.SIZE
    if not inside or own == [address for *_, address in tiles.chunks(tile, *sizes[side])]:
        return None
    return {**one, side: {**one[side], "tile": wrong}}


def spoilt(job, one, source):
    """(what is wrong, job, launch): one of all ways, each kind as likely; None where there is none."""
    ways = [*of_layouts(job), *of_descriptors(one)]
    source.shuffle(ways)
    kinds = sorted({what for what, *_ in ways})
    source.shuffle(kinds)
    for what, where, change in sorted(ways, key=lambda way: kinds.index(way[0])):
        if where in ("a", "b"):
            wrong = launch_with(job, one, where, change)
            if wrong:
                return what, job, wrong
        else:
            wrong = layout_with(job, where, change)
            if wrong:
                return what, wrong, one
    return None
