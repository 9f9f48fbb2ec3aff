"""Matrices in shared memory: random descriptors of wgmma, and the byte at which an element lies by what is said of one.

The numbers are built of the fields that the PTX ISA lists; elements are placed by what `ptxinspect explain sdesc` makes of the number
(start, swizzle, leading, stride and base offset) and the canonical layouts of the ISA.
"""
from .values import BITS

# Where shared memory that a kernel asks for starts on sm_90, and how much there is.
BASE, SIZE = 1024, 227 * 1024
CODES = {0: 0, 128: 1, 64: 2, 32: 3}
SWIZZLES = {"none": 0, "32 bytes": 32, "64 bytes": 64, "128 bytes": 128}


def number(start, leading, stride, swizzle, base_offset):
    offsets = (start & 0x3FFFF) >> 4 | (leading & 0x3FFFF) >> 4 << 16 | (stride & 0x3FFFF) >> 4 << 32
    return offsets | base_offset << 49 | CODES[swizzle] << 62


def chunk(tile, transposed, line, k):
    """The address of 16 bytes: of row `line` of A (column of B) from byte `k` on; transposed, from byte `line` on of row `k` of K."""
    start, leading, stride, swizzle = tile["start"], tile["leading_bytes"], tile["stride_bytes"], SWIZZLES[tile["swizzle"]]
    if not transposed:
        if not swizzle:
            return start + line // 8 * stride + line % 8 * 16 + k // 16 * leading
        address = start + line // 8 * stride + line % 8 * swizzle + k
    else:
        if not swizzle:
            return start + line // 16 * stride + k // 8 * leading + k % 8 * 16
        address = start + line // swizzle * leading + line % swizzle + k // 8 * stride + k % 8 * swizzle
    # rows of 128 bytes are counted from address 0 on, less the base offset: the ISA has it where a pattern starts elsewhere
    return address ^ ((address >> 7) - tile["base_offset"] & swizzle // 16 - 1) << 4


def chunks(tile, transposed, lines, k, element):
    """(line, k, address) of every 16 bytes of a matrix of `lines` rows (columns of B), `k` elements each."""
    size = BITS[element]
    if transposed:
        return [(line, at, chunk(tile, True, line, at)) for at in range(k) for line in range(0, lines * size // 8, 16)]
    return [(line, at, chunk(tile, False, line, at)) for line in range(lines) for at in range(0, k * size // 8, 16)]


def place(image, tile, transposed, rows, element):
    """Writes a matrix of bits: rows of A, columns of B."""
    size = BITS[element]
    turned = [list(row) for row in zip(*rows)] if transposed else rows
    lines = [sum(bits << at * size for at, bits in enumerate(row)).to_bytes(len(row) * size // 8, "little") for row in turned]
    for line, k, address in chunks(tile, transposed, len(rows), len(rows[0]), element):
        own, at = (lines[k], line) if transposed else (lines[line], k)
        image[address - BASE:address - BASE + 16] = own[at:at + 16]


def random(source, transposed, lines, k, element, taken):
    """The number of a random one, anywhere in shared memory and with gaps; `taken` grows by its chunks."""
    swizzles = [swizzle for swizzle in (0, 32, 64, 128) if transposed or not swizzle or swizzle * 8 >= k * BITS[element]]
    swizzle = source.choice(swizzles)
    unit = 8 * swizzle or 16
    while True:
        start, base_offset = source.randrange(BASE // unit, (BASE + SIZE) // unit) * unit, 0
        if swizzle and source.random() < 0.5:
            start = source.randrange(BASE // 128, (BASE + SIZE) // 128) * 128
            base_offset = source.choice((start >> 7 & 7, source.randrange(8)))
        if swizzle and not transposed:
            # a step along K, inside the swizzled row
            start += source.randrange(0, swizzle, k * BITS[element] // 8)
        leading, stride = (source.randrange(1, source.choice((4, 16, 64, 256))) * unit for _ in range(2))
        if swizzle and not transposed:
            # no meaning: may be anything
            leading = source.randrange(1 << 14) * 16
        name = next(name for name, size in SWIZZLES.items() if size == swizzle)
        tile = {"start": start, "leading_bytes": leading, "stride_bytes": stride, "swizzle": name, "base_offset": base_offset}
        own = [address for _, _, address in chunks(tile, transposed, lines, k, element)]
        fits = BASE <= min(own) and max(own) + 16 <= BASE + SIZE and max(leading, stride) < 1 << 18
        if fits and len(set(own)) == len(own) and taken.isdisjoint(own):
            taken.update(own)
            return number(start, leading, stride, swizzle, base_offset)
