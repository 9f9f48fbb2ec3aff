#include "inline.cuh"
__device__ float outside(float x, int n) {
  float s = 0;
  for (int i = 0; i < n; i++) s += square(x * i);
  return s;
}
extern "C" __global__ void own(float *p, int n) { p[0] = outside(square(p[1]), n); }
