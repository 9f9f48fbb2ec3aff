// Templates, a lambda, a member function, calls that stay calls, recursion with spills, a jump table, a local array.
#include "inline.cuh"
__constant__ float factors[64];
__device__ float sums[128];

__device__ __noinline__ float weighted(float x, int n) {
  float s = 0;
  for (int i = 0; i < n; i++)
    s += square(x) * factors[i & 63];
  return s;
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? 1 : fibonacci(n - 1) + fibonacci(n - 2); }

template <int N> __global__ void __launch_bounds__(128, 2) accumulate(float *p, int n) {
  __shared__ float tile[N];
  Accumulator a{0};
  int t = threadIdx.x;
  tile[t % N] = p[t];
  __syncthreads();
  for (int i = 0; i < n; i++) a.add(tile[(i + t) % N]);
  auto f = [&](float z) { return square(z) + a.sum; };
  p[t] = f(weighted(a.sum, n));
}
template __global__ void accumulate<32>(float *, int);
template __global__ void accumulate<64>(float *, int);

extern "C" __global__ void recurse(int *p, int n) {
  extern __shared__ int dynamic[];
  p[threadIdx.x] = fibonacci(n);
  dynamic[threadIdx.x] = n;
  __syncthreads();
  p[1] = dynamic[threadIdx.x ^ 1];
}

extern "C" __global__ void choose(float *p, int n, int m) {
  float local[32];
  for (int i = 0; i < 32; i++) local[i] = p[i];
  p[0] = local[n] + sums[m];
  switch (m) {
    case 0: p[1] = sinf(p[2]); break;
    case 1: p[2] = 3.f / p[1]; break;
    case 2: p[3] = factors[n]; break;
    case 3: p[4] = weighted(p[1], 4); break;
    case 4: p[5] = 6; break;
    case 5: p[6] = 7; break;
  }
}

extern "C" __global__ void __launch_bounds__(1024) spill(float *p, int n) {
  float v[80];
#pragma unroll
  for (int i = 0; i < 80; i++) v[i] = p[i * n];
#pragma unroll
  for (int i = 0; i < 80; i++) v[i] = v[i] * v[(i + 7) % 80] + v[(i * 3) % 80];
#pragma unroll
  for (int i = 0; i < 80; i++) p[i * n] = v[i];
}
