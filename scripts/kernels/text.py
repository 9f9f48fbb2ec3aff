"""A kernel's text while it is written, and the one place in it that is changed.

A family writes its kernel as it should be and says on the way what could be done otherwise (`vary`, `times`). A first pass only counts
these; a second pass over the same seed takes one of them. What is random about the text must not depend on the change: code that may be
left out is written all the same and then dropped.
"""
import random

TAIL = 524288  # bytes of `out` below this are sources of copies, those above it take results


class Kernel:
    """One entry `k(out, n)` under construction."""

    def __init__(self, seed, wanted=None):
        self.rng = random.Random(seed)
        self.wanted = wanted
        self.points = []  # (kind, what), in the order in which they come
        self.change = "none"
        self.lines = []
        self.shared = []
        self.directives = []
        self.counts = {"p": 0, "rs": 0, "r": 0, "rd": 0}
        self.labels = 0
        self.named_ids = 1  # barrier 0 is everybody's
        self.gives_count = None  # whether barriers of the whole block say how many it has; decided by the first
        self.n = self.rng.choice([1, 2, 3, 5, 8, 13])
        self.threads = None
        self.cluster = 1
        self.what = ""
        self.label_style = self.rng.choice(["$L_{name}_{n}", "$L__BB0_{n}", "{name}_{n}", "BB0_{n}", "$__{name}${n}"])
        self.space = self.rng.choice([".shared::cta", ".shared::cta", ".shared", ""])
        self.dashes = self.rng.random() < 0.5  # comments inside of the body
        self.out = self.n_register = self.tid = None

    # what is changed

    def point(self, kind, what):
        """One way to go wrong here: is it the one to take?"""
        self.points.append((kind, what))
        if len(self.points) - 1 == self.wanted:
            self.change = what
            return True
        return False

    def vary(self, kind, right, others):
        """`right`, or one of [(what, value)]."""
        taken = [value for what, value in others if self.point(kind, what)]
        return taken[0] if taken else right

    def times(self, kind, what, write):
        """Writes a piece once; a change leaves it out or writes it twice."""
        count = self.vary(kind, 1, [(f"{what} dropped", 0), (f"{what} doubled", 2)])
        start = len(self.lines)
        write()
        if count == 0:
            del self.lines[start:]
        elif count == 2:
            self.lines += renamed(self.lines[start:])

    def number(self, kind, what, right, by=(1, -1), least=0):
        """A number, or one a little off."""
        return self.vary(kind, right, [(f"{what} {right + d} for {right}", right + d) for d in by if right + d >= least])

    # choices of style

    def pick(self, *choices):
        return self.rng.choice(choices)

    def chance(self, share):
        return self.rng.random() < share

    def value(self, number, share=0.25):
        """An immediate, or sometimes a register that holds it."""
        if not isinstance(number, int) or not self.chance(share):
            return str(number)
        register = self.reg()
        self.op("mov.u32", register, number)
        return register

    # text

    def reg(self, kind="r"):
        self.counts[kind] += 1
        return f"%{kind}{self.counts[kind]}"

    def op(self, opcode, *operands, guard=None):
        guard = f"@{guard} " if guard else ""
        self.lines.append(f"\t{guard}{opcode} \t{', '.join(str(o) for o in operands)};" if operands else f"\t{guard}{opcode};")

    def new_label(self, name):
        self.labels += 1
        return self.label_style.format(name=name, n=self.labels)

    def place(self, label):
        self.lines.append(f"{label}:")

    def note(self, text):
        if self.dashes:
            self.lines.append(f"\t// {text}")

    def jump(self, label):
        self.op(self.pick("bra", "bra.uni"), label)

    def skip_unless(self, predicate, label):
        """Goes to `label` where the predicate does not hold."""
        self.op("bra", label, guard=f"!{predicate}")

    def named_id(self):
        self.named_ids += 1
        assert self.named_ids <= 16
        return self.named_ids - 1

    def array(self, name, size, align=128):
        self.shared.append(f"\t.shared .align {align} .b8 {name}[{size}];")
        return name

    def compare(self, relation, a, b):
        predicate = self.reg("p")
        self.op(f"setp.{relation}.u32", predicate, a, b)
        return predicate

    # beginning and end

    def begin(self, threads, cluster=1):
        self.threads, self.cluster = threads, cluster
        base = self.reg("rd")
        self.out = self.reg("rd")
        self.op("ld.param.u64", base, "[out]")
        self.op("cvta.to.global.u64", self.out, base)
        self.n_register = self.reg()
        self.op("ld.param.u32", self.n_register, "[n]")
        self.tid = self.reg()
        self.op("mov.u32", self.tid, "%tid.x")

    def count_self(self):
        """What every thread does at its end."""
        if self.chance(0.5):
            self.op("atom.global.add.u32", self.reg(), f"[{self.out}]", 1)
        else:
            self.op("red.global.add.u32", f"[{self.out}]", 1)

    def leave(self):
        """An end of its own, for a role that does not go to the common one."""
        self.count_self()
        self.op(self.pick("ret", "exit"))

    def text(self):
        shape = [f"{self.pick('.reqntid', '.reqntid', '.maxntid')} {self.threads}"] if not self.directives else []
        if self.cluster > 1:
            shape += [".explicitcluster", f".reqnctapercluster {self.cluster}, 1, 1"]
        head = [f".version {self.pick('8.5', '8.6', '8.7', '8.8')}", ".target sm_90a", ".address_size 64", "",
                ".visible .entry k(.param .u64 out, .param .u32 n)"]
        body = [f"\t.reg .{kind} \t%{name}<{self.counts[name] + 1}>;"
                for name, kind in (("p", "pred"), ("rs", "b16"), ("r", "b32"), ("rd", "b64")) if self.counts[name]]
        return "\n".join(head + self.directives + shape + ["{"] + body + self.shared + self.lines + ["}"]) + "\n"


def renamed(lines):
    """The same lines with labels of their own."""
    labels = [line[:-1] for line in lines if not line.startswith("\t") and line.endswith(":")]
    out = []
    for line in lines:
        for label in labels:
            if line == label + ":":
                line = label + "_again:"
            elif line.endswith(f" \t{label};"):
                line = line[:-1] + "_again;"
        out.append(line)
    return out
