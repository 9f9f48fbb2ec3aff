"""A pointer followed through memory by one thread: how long each cache, and what lies behind them, takes to answer."""
import ctypes

PTX = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry init(.param .u64 base, .param .u32 mask, .param .u32 shift)
{
  .reg .b32 %r<8>; .reg .b64 %a<6>; .reg .pred %p<2>;
  ld.param.u64 %a0, [base]; ld.param.u32 %r4, [mask]; ld.param.u32 %r5, [shift];
  cvta.to.global.u64 %a0, %a0;
  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;
  mad.lo.s32 %r0, %r0, %r1, %r2;
  setp.gt.u32 %p0, %r0, %r4;
  @%p0 bra DONE;
  mad.lo.s32 %r3, %r0, 1664525, 1013904223;
  and.b32 %r3, %r3, %r4;
  cvt.u64.u32 %a1, %r0; shl.b64 %a1, %a1, %r5; add.s64 %a1, %a0, %a1;
  cvt.u64.u32 %a2, %r3; shl.b64 %a2, %a2, %r5; add.s64 %a2, %a0, %a2;
  st.global.u64 [%a1], %a2;
DONE:
  ret;
}
"""

# A step of the chain, by what asks for it: which of them the first cache answers, is measured.
STEPS = {
    "weak": "ld.global.u64 %a0, [%a0];",
    "relaxed_cta": "ld.relaxed.cta.global.u64 %a0, [%a0];",
    "cg": "ld.global.cg.u64 %a0, [%a0];",
    "relaxed_gpu": "ld.relaxed.gpu.global.u64 %a0, [%a0];",
    "relaxed_sys": "ld.relaxed.sys.global.u64 %a0, [%a0];",
    "volatile": "ld.volatile.global.u64 %a0, [%a0];",
    "acquire_cta": "ld.acquire.cta.global.u64 %a0, [%a0];",
    "acquire_gpu": "ld.acquire.gpu.global.u64 %a0, [%a0];",
    "acquire_sys": "ld.acquire.sys.global.u64 %a0, [%a0];",
    "mmio": "ld.mmio.relaxed.sys.global.u64 %a0, [%a0];",
    "generic_volatile": "ld.volatile.u64 %a0, [%a0];",
    "atom_cta": "atom.relaxed.cta.global.or.b64 %a0, [%a0], 0;",
    "atom_or": "atom.global.or.b64 %a0, [%a0], 0;",
    "atom_add": "atom.global.add.u64 %a0, [%a0], 0;",
    "atom_cas": "atom.global.cas.b64 %a0, [%a0], 1, 2;",
    "atom_acquire": "atom.acquire.gpu.global.or.b64 %a0, [%a0], 0;",
    "atom_generic": "atom.or.b64 %a0, [%a0], 0;",
}

CHASE = """.visible .entry chase_NAME(.param .u64 base, .param .u32 turns, .param .u64 out)
{
  .reg .b32 %r<4>; .reg .b64 %a<8>; .reg .pred %p<2>;
  ld.param.u64 %a0, [base]; ld.param.u32 %r0, [turns]; ld.param.u64 %a5, [out];
  cvta.to.global.u64 %a0, %a0; cvta.to.global.u64 %a5, %a5;
  mov.u64 %a1, %clock64;
LOOP:
  .pragma "nounroll";
  STEP
  add.s32 %r0, %r0, -1;
  setp.ne.s32 %p0, %r0, 0;
  @%p0 bra LOOP;
  add.s64 %a3, %a0, 0;
  mov.u64 %a2, %clock64;
  sub.s64 %a2, %a2, %a1;
  st.global.u64 [%a5], %a2;
  st.global.u64 [%a5+8], %a3;
  ret;
}
"""

PTX += "".join(CHASE.replace("NAME", name).replace("STEP", step) for name, step in STEPS.items())

# Nodes, the distance between two as a power of two, and whether caches are filled with something else before.
PLACES = {"second cache": (1 << 14, 9, False), "DRAM": (1 << 16, 12, True)}
OTHERS = 1 << 28
# A ring that the first cache has room for.
NEAR = (1 << 6, 9)


def chase(driver, cubin):
    """Prints cycles of a step by place, with loads that pass the first cache by, and by what asks, in a ring that fits the first cache."""
    with open(cubin, "rb") as file:
        image = file.read()
    module, init, follow = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    driver.call("cuModuleLoadData", ctypes.byref(module), image)
    driver.call("cuModuleGetFunction", ctypes.byref(init), module, b"init")
    driver.call("cuModuleGetFunction", ctypes.byref(follow), module, b"chase_cg")

    def allocate(size):
        pointer = ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def launch(function, blocks, threads, words):
        pointers = (ctypes.c_void_p * len(words))(*[ctypes.cast(ctypes.byref(word), ctypes.c_void_p) for word in words])
        driver.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, pointers, None)
        driver.call("cuCtxSynchronize")

    out, others = allocate(64), allocate(OTHERS)
    for name, (nodes, shift, cold) in PLACES.items():
        base = allocate(nodes << shift)
        launch(init, nodes // 256, 256, [base, ctypes.c_uint32(nodes - 1), ctypes.c_uint32(shift)])
        if cold:
            driver.call("cuMemsetD32_v2", others, ctypes.c_uint32(1), ctypes.c_size_t(OTHERS // 4))
            driver.call("cuCtxSynchronize")
        else:
            launch(follow, 1, 1, [base, ctypes.c_uint32(nodes), out])
        launch(follow, 1, 1, [base, ctypes.c_uint32(nodes), out])
        seen = (ctypes.c_uint64 * 2)()
        driver.call("cuMemcpyDtoH_v2", seen, out, ctypes.c_size_t(16))
        print(f"{name}: {seen[0] / nodes:.1f} cycles", flush=True)
        driver.call("cuMemFree_v2", base)
    nodes, shift = NEAR
    base = allocate(nodes << shift)
    launch(init, 1, nodes, [base, ctypes.c_uint32(nodes - 1), ctypes.c_uint32(shift)])
    for name in STEPS:
        step = ctypes.c_void_p()
        driver.call("cuModuleGetFunction", ctypes.byref(step), module, f"chase_{name}".encode())
        turns = nodes * 64
        launch(step, 1, 1, [base, ctypes.c_uint32(turns), out])
        seen = (ctypes.c_uint64 * 2)()
        driver.call("cuMemcpyDtoH_v2", seen, out, ctypes.c_size_t(16))
        print(f"{name}: {seen[0] / turns:.1f} cycles", flush=True)
    driver.call("cuMemFree_v2", base)
