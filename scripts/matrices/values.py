"""Elements of matrices: how many bits, which small integers, and how those are written."""
import struct

BITS = {"f64": 64, "f32": 32, "tf32": 32, "s32": 32, "f16": 16, "bf16": 16, "b16": 16, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "s4": 4,
        "u4": 4, "b1": 1}

# Factors and what is added are so small that every sum is exact, in f16 (up to 2048) as well.
FACTORS = {"f64": (-99, 99), "tf32": (-4, 4), "f16": (-4, 4), "bf16": (-4, 4), "s8": (-128, 127), "u8": (0, 255), "e4m3": (-4, 4),
           "e5m2": (-4, 4), "s4": (-8, 7), "u4": (0, 15), "b1": (0, 1)}
ADDED = {"f64": (-9999, 9999), "f32": (-999, 999), "f16": (-99, 99), "s32": (-999999, 999999)}


def eight_bits(code, exponent_bits, bias):
    """The value of a code of e4m3 or e5m2."""
    mantissa_bits = 7 - exponent_bits
    exponent, mantissa = code >> mantissa_bits & (1 << exponent_bits) - 1, code & (1 << mantissa_bits) - 1
    scale = 2.0 ** (max(exponent, 1) - bias - mantissa_bits)
    value = (mantissa + ((1 << mantissa_bits) if exponent else 0)) * scale
    return -value if code >> 7 else value


# Of the two zeros the first is taken.
EIGHT_BITS = {"e4m3": {eight_bits(code, 4, 7): code for code in reversed(range(256)) if code & 0x7F != 0x7F},
              "e5m2": {eight_bits(code, 5, 15): code for code in reversed(range(256)) if code & 0x7F < 0x7C}}


def encode(element, value):
    """The bits of a value."""
    if element in EIGHT_BITS:
        return EIGHT_BITS[element][value]
    if element == "f16":
        return int.from_bytes(struct.pack("<e", value), "little")
    if element == "bf16":
        return int.from_bytes(struct.pack("<f", value), "little") >> 16
    if element in ("f32", "tf32"):
        return int.from_bytes(struct.pack("<f", value), "little")
    if element == "f64":
        return int.from_bytes(struct.pack("<d", value), "little")
    return value & (1 << BITS[element]) - 1


def decode(element, bits):
    """The value of some bits of D."""
    formats = {"f16": "<e", "f32": "<f", "f64": "<d"}
    if element in formats:
        return struct.unpack(formats[element], bits.to_bytes(BITS[element] // 8, "little"))[0]
    if element == "s32":
        return bits - (1 << 32) if bits >> 31 else bits
    return bits


def matrix(source, rows, columns, bounds):
    """A random one."""
    return [[source.randint(*bounds) for _ in range(columns)] for _ in range(rows)]


def product(a, b, c, op=None):
    """A·B + C; of single bits the count of those that `op` leaves."""
    columns = list(zip(*b))
    if op:
        whole = [int("".join(map(str, row)), 2) for row in a], [int("".join(map(str, column)), 2) for column in columns]
        return [[(row & column if op == "and" else row ^ column).bit_count() + c[i][j] for j, column in enumerate(whole[1])]
                for i, row in enumerate(whole[0])]
    return [[sum(x * y for x, y in zip(row, column)) + c[i][j] for j, column in enumerate(columns)] for i, row in enumerate(a)]


# Which of four are stored: the first index lies in the lower bits.
NIBBLES = {"two of four": [0x4, 0x8, 0xC, 0x9, 0xD, 0xE], "one of two": [0x4, 0xE]}


def sparsity(element):
    return "one of two" if element == "tf32" else "two of four"


def expand(stored, element, nibble):
    """A sparse matrix whole: every group of a row has its elements where the same four bits of metadata say."""
    first, second = nibble & 3, nibble >> 2
    if element == "tf32":
        columns = [2 * at + (nibble == 0xE) for at in range(len(stored[0]))]
    elif BITS[element] == 4:
        # pairs of neighbours, two of four pairs
        columns = [8 * (at // 4) + 2 * (second if at % 4 > 1 else first) + at % 2 for at in range(len(stored[0]))]
    else:
        columns = [4 * (at // 2) + (second if at % 2 else first) for at in range(len(stored[0]))]
    whole = []
    for row in stored:
        whole.append([0] * (2 * len(row)))
        for column, value in zip(columns, row):
            whole[-1][column] = value
    return whole
