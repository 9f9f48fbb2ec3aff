"""PTX whose barriers take long to execute: many warps, many turns, lanes that part, copies that never come. A size is a count of statements."""
from .ptx import HEAD, REGISTERS, each, stand_in
from .row import Row

INIT = "mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 mbarrier.init.shared.b64 [b], 1;\nbar.sync 0;\n"
CLUSTER = ".reqnctapercluster 16, 1, 1\n"
LOOP = "add.u32 %r9, %r9, 1;\nsetp.lt.u32 %p2, %r9, %r8;\n@%p2 bra {label};\n"


def kernels(size, statements, body, cluster=""):
    """As many kernels of 1,024 threads as make up the size, each with shared memory, a parameter and one body."""
    head = f"{HEAD}.shared .align 8 .b64 b;\n.shared .align 128 .b8 m[65536];\n"
    entry = ".visible .entry k{at}(.param .u32 n)\n{cluster}.reqntid 1024, 1, 1\n{{\n{registers}ld.param.u32 %r8, [n];\nmov.u32 %r9, 0;\n{body}ret;\n}}\n"
    return head + each(max(size // statements, 1), lambda at: entry.format(at=at, cluster=cluster, registers=REGISTERS, body=body))


def loops(_):
    return INIT + "L: bar.sync 0;\n" + each(12, lambda at: f"mad.lo.u32 %r{at + 10}, %r1, {at}, %r9;\nst.shared.b32 [m], %r{at + 10};\n") + LOOP.format(label="L")


def hang(_):
    return INIT + "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nL: mapa.shared::cluster.u32 %r3, b, 1;\nmbarrier.arrive.shared::cluster.b64 _, [%r3];\n" + LOOP.format(label="L") + "W: mbarrier.try_wait.parity.shared.b64 %p3, [b], 1;\n@!%p3 bra W;\nV: mbarrier.try_wait.parity.shared.b64 %p3, [b], 0;\n@!%p3 bra V;\n"


def parted(_):
    return INIT + "and.b32 %r2, %r1, 31;\nL: add.u32 %r9, %r9, 1;\nadd.u32 %r3, %r2, %r9;\nrem.u32 %r4, %r3, 7;\nsetp.eq.u32 %p2, %r4, 3;\n@%p2 bra M;\nshl.b32 %r5, %r2, 3;\nadd.u32 %r5, %r5, 1024;\natom.shared.add.u32 %r6, [%r5], 1;\nM: setp.lt.u32 %p2, %r9, 4000;\n@%p2 bra L;\nbar.sync 0;\n"


def budgets(size):
    return INIT + each(size, lambda at: f"setmaxnreg.{'dec' if at % 2 else 'inc'}.sync.aligned.u32 {24 if at % 2 else 232};\n")


def copies(size):
    return INIT + "@!%p1 bra E;\nL:\n" + each(min(size, 200), lambda at: "mbarrier.arrive.expect_tx.shared.b64 _, [b], 128;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [m], [%rd1], 64, [b], 65535;\n") + LOOP.format(label="L") + "E: bar.sync 0;\n"


def own_addresses(size):
    return INIT + "L:\n" + each(min(size, 200), lambda at: f"mad.lo.u32 %r3, %r1, 8, {8 * at};\nand.b32 %r3, %r3, 32760;\nadd.u32 %r3, %r3, 2048;\nmbarrier.init.shared.b64 [%r3], 1;\nmbarrier.arrive.shared.b64 %rd1, [%r3];\n") + LOOP.format(label="L")


def together(size):
    return INIT + "L:\n" + each(min(size, 200), lambda at: f"shfl.sync.idx.b32 %r3, %r9, {at % 32}, 31, -1;\nvote.sync.ballot.b32 %r4, %p1, -1;\nmatch.any.sync.b32 %r5, %r1, -1;\nadd.u32 %r9, %r3, %r4;\n@%p1 bar.sync %r5, 32;\n") + LOOP.format(label="L")


def spins(_):
    return INIT + "L: ld.shared.u32 %r3, [m];\nsetp.ne.u32 %p2, %r3, %r1;\n@%p2 bra L;\nadd.u32 %r3, %r3, 1;\nst.shared.u32 [m], %r3;\nbar.sync 0;\n"


INPUTS = {
    "loops of many warps": lambda size: kernels(size, 45, loops(size)),
    "loops of many blocks": lambda size: kernels(size, 45, loops(size), CLUSTER),
    "hangs of many blocks": lambda size: kernels(size, 35, hang(size), CLUSTER),
    "lanes that part": lambda size: kernels(size, 30, parted(size)),
    "changes of budgets": lambda size: kernels(size, size, budgets(size)),
    "copies that do not come": lambda size: kernels(size, 420, copies(size), CLUSTER),
    "addresses of their own": lambda size: kernels(size, 1010, own_addresses(size)),
    "lanes that meet": lambda size: kernels(size, 1010, together(size)),
    "threads that take turns": lambda size: kernels(size, 25, spins(size)),
}


def rows():
    found = []
    for name, make in INPUTS.items():
        for command in (["--format", "json"], ["timeline", "--format", "svg"], ["annotate", "--format", "html"]):
            def write(folder, size, command=command, make=make):
                text = make(size)
                (folder / "k.ptx").write_text(text)
                if command[0] == "timeline":
                    return ["timeline", "k.ptx", *command[1:]]
                tool = stand_in(folder, text, True)
                return ["k.ptx", *command, *tool] if command[0].startswith("-") else [command[0], "k.ptx", *command[1:], *tool]
            found.append(Row(f"executed, {name}: {' '.join(command)}", write))
    return found
