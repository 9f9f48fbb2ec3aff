"""Matrix instructions run on a GPU, with their operands where `ptxinspect explain` says that they are.

`forms` lists the instructions, `ptx` writes the kernel of one, `values` encodes elements, `fragments` packs matrices into registers,
`tiles` makes shared-memory descriptors and places matrices by them, `jobs` asks ptxinspect and writes what a run takes, `check` launches
and compares. `scripts/fragments` is the entry.
"""
