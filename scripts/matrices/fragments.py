"""Matrices in registers, where a layout of `ptxinspect explain` says that their elements are."""
from .values import BITS


def threads(layout):
    return 32 * layout["warps"]


def register_bits(layout):
    return max(32, BITS[layout["element"]])


def copies(layout):
    """How many matrices the threads hold: bits of the thread's number that add nothing tell which."""
    return 1 << sum(bits == [0, 0] for bits in layout["thread_bits"])


def cells(layout):
    """(thread, register, lowest bit, copy, row, column) of every element."""
    size = BITS[layout["element"]]
    for thread in range(threads(layout)):
        warp, lane = divmod(thread, 32)
        row, column = (warp * by for by in layout["warp"])
        copy, copied = 0, 0
        for bit, (down, right) in enumerate(layout["thread_bits"]):
            if (down, right) == (0, 0):
                copy |= (lane >> bit & 1) << copied
                copied += 1
            elif lane >> bit & 1:
                row, column = row + down, column + right
        for register, elements in enumerate(layout["registers"]):
            for place, (down, right) in enumerate(elements):
                yield thread, register, place * size, copy, row + down, column + right


def pack(layout, encoded):
    """The registers of each thread, of matrices of bits: one for each copy."""
    held = [[0] * len(layout["registers"]) for _ in range(threads(layout))]
    for thread, register, low, copy, row, column in cells(layout):
        held[thread][register] |= encoded[copy][row][column] << low
    return held


def unpack(layout, held):
    """The matrices of bits that registers hold."""
    mask = (1 << BITS[layout["element"]]) - 1
    found = [[[None] * layout["columns"] for _ in range(layout["rows"])] for _ in range(copies(layout))]
    for thread, register, low, copy, row, column in cells(layout):
        found[copy][row][column] = held[thread][register] >> low & mask
    return found
