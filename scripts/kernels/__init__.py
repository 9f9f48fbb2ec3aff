"""Random PTX kernels about barriers and register pools, right by the ISA or with one change, and what a GPU does with them.

`text` writes PTX and offers places for a change, `parts` has the pieces that every family is made of (roles, elections, mbarriers,
loops), one module a family makes kernels of them, `generate` makes a set, `launch` runs one. `scripts/hardware fuzz` is the entry.
"""
