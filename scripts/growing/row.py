"""A row of the table: an input that grows and the command that reads it."""


class Row:
    def __init__(self, name, make):
        # `make(folder, size)` writes the input and gives the arguments; none where that size makes no sense.
        self.name, self.make = name, make
