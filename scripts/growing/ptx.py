"""PTX that grows: kernels, labels, tables, scopes, operands, barriers, rings."""
import os
import re

from . import cubins
from .row import Row

HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n"
REGISTERS = ".reg .pred %p<8>;\n.reg .b32 %r<64>;\n.reg .b64 %rd<64>;\n.reg .f32 %f<256>;\n"


def kernel(body, name="k", variables="", threads=128):
    return f"{HEAD}{variables}.visible .entry {name}()\n.reqntid {threads}, 1, 1\n{{\n{REGISTERS}{body}ret;\n}}\n"


def each(size, line):
    return "".join(line(at) for at in range(size))


def rings(size):
    """One barrier of each ring is waited for by those who fill it, the other by those who empty it."""
    body = "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 32;\n" + each(size, lambda at: f"mov.b32 %r2, full{at};\nmbarrier.init.shared.b64 [%r2], 1;\n")
    body += "@%p1 bra PRODUCER;\n"
    body += each(size, lambda at: f"W{at}:\nmbarrier.try_wait.parity.shared.b64 %p2, [full{at}], 0;\n@!%p2 bra W{at};\nmbarrier.arrive.shared.b64 %rd1, [empty{at}];\n")
    body += "ret;\nPRODUCER:\n"
    body += each(size, lambda at: f"V{at}:\nmbarrier.try_wait.parity.shared.b64 %p2, [empty{at}], 1;\n@!%p2 bra V{at};\nmbarrier.arrive.shared.b64 %rd1, [full{at}];\n")
    return kernel(body, variables=each(size, lambda at: f".shared .align 8 .b64 full{at};\n.shared .align 8 .b64 empty{at};\n"))


def ring_loops(size):
    body = each(size, lambda at: f"mov.u32 %r1, 0;\nL{at}:\nmbarrier.arrive.shared.b64 %rd1, [b{at}];\nW{at}:\nmbarrier.try_wait.parity.shared.b64 %p2, [b{at}], %r1;\n@!%p2 bra W{at};\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 9;\n@%p1 bra L{at};\n")
    return kernel(body, variables=each(size, lambda at: f".shared .align 8 .b64 b{at};\n"))


def tables(size):
    targets = ", ".join(f"L{at}" for at in range(size))
    return kernel("mov.u32 %r1, %ctaid.x;\n" + f"ts: .branchtargets {targets};\n" + each(size, lambda at: f"L{at}:\nbrx.idx %r1, ts;\n"))


def own_tables(size):
    return kernel(each(size, lambda at: f"t{at}: .branchtargets L{at}, L0;\nL{at}:\nbrx.idx %r1, t{at};\n"))


def loops(size):
    return kernel(each(size, lambda at: f"A{at}:\n") + each(size, lambda at: f"setp.lt.u32 %p1, %r1, {at};\n@%p1 bra A{at};\n"))


def nest(size):
    return kernel(each(size, lambda at: f"A{at}:\nadd.u32 %r1, %r1, 1;\n") + each(size, lambda at: f"@%p1 bra A{size - 1 - at};\n"))


def across(size):
    return kernel(each(size, lambda at: f"L{at}:\nadd.u32 %r{at % 60}, %r{at * 7 % 60}, %r{at * 3 % 60};\n@%p{at % 7} bra L{at * 7919 % size};\n"))


def diamonds(size):
    return kernel(each(size, lambda at: f"setp.lt.u32 %p1, %r{at % 60}, %r{at * 7 % 60};\n@%p1 bra L{at};\nadd.u32 %r{at * 3 % 60}, %r{at % 60}, 1;\nL{at}:\n"))


def roles(size):
    body = "mov.u32 %r1, %tid.x;\nshr.u32 %r1, %r1, 5;\n" + each(size, lambda at: f"setp.eq.u32 %p1, %r1, {at % 32};\n@!%p1 bra N{at};\nsetmaxnreg.{'inc' if at % 2 else 'dec'}.sync.aligned.u32 {24 + 8 * (at % 20)};\nbar.sync {at % 16}, 64;\nN{at}:\n")
    return kernel(body, threads=1024)


def calls(size):
    return HEAD + each(size, lambda at: f".func f{at}()\n{{\n{f'call.uni f{at - 1}, ();' if at else ''}\nret;\n}}\n") + f".visible .entry k()\n{{\ncall.uni f{size - 1}, ();\nret;\n}}\n"


def callers(size):
    return HEAD + each(size, lambda at: f".func f{at}()\n{{\nret;\n}}\n") + each(size, lambda at: f".visible .entry k{at}()\n{{\ncall.uni f{at}, ();\nret;\n}}\n")


INPUTS = {
    "kernels": lambda size: HEAD + each(size, lambda at: f".visible .entry k{at}()\n{{\nret;\n}}\n"),
    "kernels of one name": lambda size: HEAD + ".visible .entry k()\n{\nret;\n}\n" * size,
    "declarations": lambda size: HEAD + each(size, lambda at: f".extern .func f{at}(.param .b32 x);\n") + ".visible .entry k()\n{\nret;\n}\n",
    "calls in a chain": calls,
    "kernels that call": callers,
    "labels": lambda size: kernel(each(size, lambda at: f"L{at}:\n")),
    "branches": lambda size: kernel(each(size, lambda at: f"L{at}:\n@%p1 bra L{(at * 7919) % size};\n")),
    "branches across": across,
    "diamonds": diamonds,
    "loops at one end": loops,
    "loops nested": nest,
    "brx.idx with one table": tables,
    "brx.idx with their own": own_tables,
    "scopes nested": lambda size: kernel("{\n" * size + "}\n" * size),
    "scopes with registers": lambda size: kernel(each(size, lambda at: f"{{\n.reg .b32 %x{at};\nmov.u32 %x{at}, %r1;\n") + "}\n" * size),
    "labels of outer scopes": lambda size: kernel(each(size, lambda at: f"{{\nL{at}:\n") + each(size, lambda at: "bra L0;\n}\n")),
    "parentheses": lambda size: kernel("mov.u32 %r1, " + "(" * size + "1" + ")" * size + ";\n"),
    "unary operators": lambda size: kernel("mov.u32 %r1, " + "-" * size + "1;\n"),
    "parentheses of an array": lambda size: HEAD + ".global .b32 a[" + "(" * size + "1" + ")" * size + "];\n" + ".visible .entry k()\n{\nret;\n}\n",
    "conditions in a constant": lambda size: kernel("mov.u32 %r1, " + "1?2:" * size + "3;\n"),
    "braces of an initialiser": lambda size: HEAD + ".global .b32 a[] = " + "{" * size + "1" + "}" * size + ";\n.visible .entry k()\n{\nret;\n}\n",
    "operands": lambda size: kernel("mov.b32 {" + ", ".join(["%r1"] * size) + "}, %r2;\n"),
    "parameters": lambda size: HEAD + ".visible .entry k(" + ",\n".join(f".param .b32 p{at}" for at in range(size)) + ")\n{\nret;\n}\n",
    "parameters that are read": lambda size: HEAD + ".visible .entry k(" + ",\n".join(f".param .b32 p{at}" for at in range(size)) + ")\n{\n.reg .b32 %r<9>;\n" + each(size, lambda at: f"ld.param.b32 %r1, [p{at}];\n") + "ret;\n}\n",
    "variables": lambda size: kernel(each(size, lambda at: f"mov.u32 %r1, v{at};\nst.shared.b32 [%r1], {at};\nld.shared.b32 %r2, [v{at}];\n"), variables=each(size, lambda at: f".shared .b32 v{at};\n")),
    "local variables": lambda size: kernel(each(size, lambda at: f".local .b32 v{at}[4];\n")),
    "registers by name": lambda size: kernel(each(size, lambda at: f".reg .b32 %x{at};\nadd.u32 %x{at}, %x{max(at - 1, 0)}, 1;\n")),
    "registers by range": lambda size: kernel(each(size, lambda at: f".reg .b32 %y{at}<1000000>;\n")),
    "a chain of adds": lambda size: kernel("mov.u32 %r1, %tid.x;\n" + each(size, lambda at: f"add.u32 %r{at % 60 + 2}, %r{(at + 59) % 60 + 2}, %r1;\n")),
    "stores": lambda size: kernel(each(size, lambda at: f"st.shared.b32 [m+{4 * at}], {at};\nld.shared.b32 %r{at % 60}, [m+{4 * at}];\n"), variables=f".shared .align 8 .b8 m[{8 * size + 8}];\n"),
    "barriers": lambda size: kernel(each(size, lambda at: f"bar.sync {at % 16}, 128;\n")),
    "barriers by registers": lambda size: kernel(each(size, lambda at: f"mov.u32 %r1, {at % 16};\nbarrier.sync %r1, %r2;\n")),
    "barriers behind branches": lambda size: kernel("mov.u32 %r1, %tid.x;\n" + each(size, lambda at: f"setp.lt.u32 %p1, %r1, {at % 128};\n@%p1 bra L{at};\nbar.sync {at % 16}, 128;\nL{at}:\n")),
    "barriers in loops": lambda size: kernel(each(size, lambda at: f"L{at}:\nbar.sync {at % 16}, 128;\nbar.arrive {(at + 1) % 16}, 128;\n@%p1 bra L{at};\n")),
    "mbarriers": lambda size: kernel(each(size, lambda at: f"mbarrier.init.shared.b64 [b{at}], 1;\nmbarrier.arrive.shared.b64 %rd1, [b{at}];\n"), variables=each(size, lambda at: f".shared .align 8 .b64 b{at};\n")),
    "mbarriers at one address": lambda size: kernel("mbarrier.init.shared.b64 [b], 1;\n" + each(size, lambda at: f"mbarrier.arrive.shared.b64 %rd1, [b];\nW{at}:\nmbarrier.try_wait.parity.shared.b64 %p1, [b], {at % 2};\n@!%p1 bra W{at};\n"), variables=".shared .align 8 .b64 b;\n"),
    "mbarriers by computed addresses": lambda size: kernel("mov.u32 %r1, b;\n" + each(size, lambda at: f"add.u32 %r{at % 60 + 2}, %r1, {8 * at};\nmbarrier.init.shared.b64 [%r{at % 60 + 2}], 1;\nmbarrier.arrive.shared.b64 %rd1, [%r{at % 60 + 2}];\n"), variables=f".shared .align 8 .b8 b[{8 * size + 8}];\n"),
    "mbarriers expecting bytes": lambda size: kernel(each(size, lambda at: f"mbarrier.arrive.expect_tx.shared.b64 %rd1, [b], {16 * (at % 64 + 1)};\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [m], [%rd2], {16 * (at % 64 + 1)}, [b];\n"), variables=".shared .align 8 .b64 b;\n.shared .align 16 .b8 m[4096];\n"),
    "rings": rings,
    "rings in loops": ring_loops,
    "setmaxnreg": lambda size: kernel(each(size, lambda at: f"setmaxnreg.{'inc' if at % 2 else 'dec'}.sync.aligned.u32 {24 + 8 * (at % 20)};\n")),
    "setmaxnreg by roles": roles,
    "wgmma": lambda size: kernel(each(size, lambda at: f"wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f{at % 250}, %f1, %f2, %f3}}, %rd1, %rd2, 1, 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned {at % 8};\n")),
    "wgmma without waits": lambda size: kernel(each(size, lambda at: f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f{at % 250}, %f1, %f2, %f3}}, %rd1, %rd2, 1, 1, 1, 0, 0;\n@%p1 bra L{at};\nL{at}:\n")),
    "tcgen05": lambda size: kernel(each(size, lambda at: f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [t], 32;\ntcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1;\ntcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [b];\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r3}}, [%r1];\ntcgen05.wait::ld.sync.aligned;\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;\n"), variables=".shared .align 8 .b64 b;\n.shared .b32 t;\n"),
    "cp.async": lambda size: kernel(each(size, lambda at: f"cp.async.ca.shared.global [m], [%rd1], 16;\ncp.async.commit_group;\ncp.async.wait_group {at % 8};\n"), variables=".shared .align 16 .b8 m[4096];\n"),
    "cluster barriers": lambda size: kernel(each(size, lambda at: f"barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n@%p1 bra L{at};\nL{at}:\n")),
    "elections": lambda size: kernel(each(size, lambda at: f"elect.sync %r{at % 60}|%p1, 0xffffffff;\n@%p1 bra L{at};\nbar.sync {at % 16}, 128;\nL{at}:\n")),
    "one long line": lambda size: kernel("add.u32 %r1, %r1, 1; " * size + "\n"),
    "lines": lambda size: kernel("\n" * size),
    "comments": lambda size: kernel("// a comment\n" * size),
    "comments that nest": lambda size: kernel("/*" * size + "*/\n"),
    "a comment without end": lambda size: kernel("ret; /* " * size),
    "strings": lambda size: HEAD + each(size, lambda at: f'.file {at + 1} "f{at}.cu"\n') + ".visible .entry k()\n{\nret;\n}\n",
    "a string without end": lambda size: HEAD + '.file 1 "' + "a" * size + "\n" + ".visible .entry k()\n{\nret;\n}\n",
    ".loc": lambda size: HEAD + '.file 1 "a.cu"\n' + ".visible .entry k()\n{\n.reg .b32 %r<9>;\n" + each(size, lambda at: f".loc 1 {at + 1} 1\nadd.u32 %r1, %r1, 1;\n") + "ret;\n}\n",
    ".loc that is inlined": lambda size: HEAD + '.file 1 "a.cu"\n' + ".visible .entry k()\n{\n.reg .b32 %r<9>;\n" + each(size, lambda at: f".loc 1 {at + 1} 1, function_name info, inlined_at 1 {max(at, 1)} 1\nadd.u32 %r1, %r1, 1;\n") + "ret;\n}\n",
    ".section": lambda size: kernel("") + ".section .debug_info\n{\n" + ".b8 1,2,3,4\n" * size + "}\n",
    "pragmas": lambda size: kernel('.pragma "nounroll";\n' * size),
    "errors": lambda size: kernel("$ ; ) ] ;\n" * size),
    "opened and not closed": lambda size: HEAD + ".visible .entry k(\n" * size,
    "a long name": lambda size: kernel(f"bra {'L' * size};\n{'L' * size}:\n"),
}
ENTRY = re.compile(r"\.entry\s+([\w$]+)")


def stand_in(folder, text, accepts):
    """A ptxas that has an answer at once."""
    tool = folder / "ptxas"
    if accepts:
        names = list(dict.fromkeys(ENTRY.findall(text)))[:60000]
        (folder / "answer").write_bytes(cubins.cubin([(name, cubins.words([cubins.EXIT])) for name in names], sm=100))
        answer = f"cp '{folder}/answer' output.cubin"
    else:
        answer = "echo \"ptxas input.ptx, line 5; error   : Unknown symbol 'x'\" >&2; exit 255"
    tool.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo "Cuda compilation tools, release 13.4, V13.4.92"; exit 0; fi\n{answer}\n')
    tool.chmod(0o755)
    os.utime(tool)
    return ["--ptxas", str(tool)]


def rows():
    found = []
    for name, make in INPUTS.items():
        for accepts in (False, True):
            def write(folder, size, make=make, accepts=accepts):
                text = make(size)
                (folder / "k.ptx").write_text(text)
                return ["k.ptx", *stand_in(folder, text, accepts), "--format", "json"]
            found.append(Row(f"ptx, {name}: {'accepted' if accepts else 'rejected'}", write))
    for command in (["annotate"], ["annotate", "--format", "html"], ["list"], ["disasm"], ["--format", "text"]):
        for name in ("kernels", "rings", "branches", ".loc", "labels", "one long line"):
            def write(folder, size, command=command, make=INPUTS[name]):
                text = make(size)
                (folder / "k.ptx").write_text(text)
                tool = [] if command[0] == "list" else stand_in(folder, text, True)
                return [command[0], "k.ptx", *command[1:], *tool] if not command[0].startswith("-") else ["k.ptx", *command, *tool]
            found.append(Row(f"ptx, {name}: {' '.join(command)}", write))
    return found
