"""Triton kernels that hold more values than a thread has registers, and the sizes at which they spill."""

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :], mask=(k + rk)[None, :] < K, other=0.0)
        y = tl.load(b + (k + rk)[:, None] * N + rn[None, :], mask=(k + rk)[:, None] < K, other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(tl.float16), mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def dequantised(a, q, s, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :])
        w = tl.load(q + ((k + rk) // 8)[:, None] * N + rn[None, :])
        w = (w >> ((rk % 8) * 4)[:, None]) & 15
        sc = tl.load(s + ((k + rk) // 64)[:, None] * N + rn[None, :])
        y = (w - 8).to(tl.float16) * sc
        acc = tl.dot(x, y, acc)
    tl.store(c + rm[:, None] * N + rn[None, :], acc)


@triton.jit
def attention_gradient(q, k, v, do, L, Dl, dk, dv, scale, T, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    pn = tl.program_id(0)
    h = tl.program_id(1)
    rn = pn * BN + tl.arange(0, BN)
    rd = tl.arange(0, D)
    q += h * T * D
    k += h * T * D
    v += h * T * D
    do += h * T * D
    dk += h * T * D
    dv += h * T * D
    L += h * T
    Dl += h * T
    kk = tl.load(k + rn[:, None] * D + rd[None, :])
    vv = tl.load(v + rn[:, None] * D + rd[None, :])
    gk = tl.zeros((BN, D), tl.float32)
    gv = tl.zeros((BN, D), tl.float32)
    for m in range(0, T, BM):
        rm = m + tl.arange(0, BM)
        qt = tl.load(q + rm[None, :] * D + rd[:, None])
        lse = tl.load(L + rm)
        pT = tl.exp2(tl.dot(kk, qt) * scale - lse[None, :])
        g = tl.load(do + rm[:, None] * D + rd[None, :])
        gv = tl.dot(pT.to(tl.float16), g, gv)
        di = tl.load(Dl + rm)
        dp = tl.dot(vv, tl.trans(g))
        ds = pT * (dp - di[None, :])
        gk = tl.dot(ds.to(tl.float16), tl.trans(qt), gk)
    tl.store(dv + rn[:, None] * D + rd[None, :], gv.to(tl.float16))
    tl.store(dk + rn[:, None] * D + rd[None, :], (gk * scale).to(tl.float16))


@triton.jit
def norm_gradient(dx, dy, x, w, mean, rstd, dw, db, N, R, B: tl.constexpr):
    p = tl.program_id(0)
    c = tl.arange(0, B)
    mk = c < N
    ww = tl.load(w + c, mask=mk, other=0.0)
    aw = tl.zeros((B,), tl.float32)
    ab = tl.zeros((B,), tl.float32)
    for i in range(0, R):
        r = p * R + i
        xx = tl.load(x + r * N + c, mask=mk, other=0.0).to(tl.float32)
        g = tl.load(dy + r * N + c, mask=mk, other=0.0).to(tl.float32)
        mu = tl.load(mean + r)
        rs = tl.load(rstd + r)
        xh = (xx - mu) * rs
        wg = ww * g
        c1 = tl.sum(xh * wg, 0) / N
        c2 = tl.sum(wg, 0) / N
        tl.store(dx + r * N + c, ((wg - (xh * c1 + c2)) * rs).to(tl.float16), mask=mk)
        aw += g * xh
        ab += g
    tl.store(dw + p * N + c, aw, mask=mk)
    tl.store(db + p * N + c, ab, mask=mk)


@triton.jit
def softmax(x, y, N, R, B: tl.constexpr):
    c = tl.arange(0, B)
    for r in range(tl.program_id(0), R, tl.num_programs(0)):
        v = tl.load(x + r * N + c, mask=c < N, other=-float("inf"))
        v = tl.exp(v - tl.max(v, 0))
        tl.store(y + r * N + c, v / tl.sum(v, 0), mask=c < N)


@triton.jit
def cross_entropy(x, t, loss, dx, N, R, B: tl.constexpr):
    c = tl.arange(0, B)
    for r in range(tl.program_id(0), R, tl.num_programs(0)):
        v = tl.load(x + r * N + c, mask=c < N, other=-float("inf")).to(tl.float32)
        tt = tl.load(t + r)
        m = tl.max(v, 0)
        e = tl.exp(v - m)
        s = tl.sum(e, 0)
        tl.store(loss + r, tl.log(s) + m - tl.load(x + r * N + tt).to(tl.float32))
        tl.store(dx + r * N + c, (e / s - tl.where(c == tt, 1.0, 0.0)).to(tl.float16), mask=c < N)


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def scan(x, y, N, T, BT: tl.constexpr, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    r = tl.arange(0, BT)
    car = tl.zeros((B,), tl.float32)
    for t in range(0, T, BT):
        v = tl.load(x + (t + r)[:, None] * N + c[None, :])
        s = tl.associative_scan(v, 0, add) + car[None, :]
        tl.store(y + (t + r)[:, None] * N + c[None, :], s)
        car += tl.sum(v, 0)


@triton.jit
def weighted(x, w, y, K, N, BM: tl.constexpr, BK: tl.constexpr, BN: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        ww = tl.load(w + rm[:, None] * K + (k + rk)[None, :])
        xx = tl.load(x + (k + rk)[:, None] * N + rn[None, :])
        acc += tl.sum(ww[:, :, None] * xx[None, :, :], 1)
    tl.store(y + rm[:, None] * N + rn[None, :], acc)


F16, F32, I32 = "*fp16", "*fp32", "*i32"
NORM = dict(dx=F16, dy=F16, x=F16, w=F32, mean=F32, rstd=F32, dw=F32, db=F32)
GRADIENT = dict(q=F16, k=F16, v=F16, do=F16, L=F32, Dl=F32, dk=F16, dv=F16)
# The kernel, the types of its pointers, then constants and warps of each size.
SPILLING = [
    (
        matmul,
        dict(a=F16, b=F16, c=F16),
        [
            (dict(BM=128, BN=256, BK=32), 4),
            (dict(BM=256, BN=128, BK=32), 4),
            (dict(BM=128, BN=256, BK=64), 4),
            (dict(BM=256, BN=256, BK=32), 8),
        ],
    ),
    (dequantised, dict(a=F16, q=I32, s=F16, c=F32), [(dict(BM=128, BN=128, BK=64), 4), (dict(BM=128, BN=256, BK=32), 4)]),
    (attention_gradient, GRADIENT, [(dict(BM=64, BN=128, D=64), 4), (dict(BM=32, BN=128, D=128), 4)]),
    (norm_gradient, NORM, [(dict(B=4096), 2), (dict(B=8192), 4), (dict(B=16384), 8), (dict(B=16384), 16)]),
    (softmax, dict(x=F32, y=F32), [(dict(B=16384), 2), (dict(B=32768), 4), (dict(B=65536), 16)]),
    (cross_entropy, dict(x=F16, t=I32, loss=F32, dx=F16), [(dict(B=65536), 16)]),
    (scan, dict(x=F32, y=F32), [(dict(BT=64, B=128), 1)]),
    (weighted, dict(x=F32, w=F32, y=F32), [(dict(BM=32, BK=16, BN=64), 4)]),
]
