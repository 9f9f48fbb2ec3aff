#pragma once
template <typename T> __device__ __forceinline__ T square(T x) {
  T y = x * x;
  return y + T(1);
}
struct Accumulator {
  float sum;
  __device__ inline void add(float x) {
    sum += square(x);
    if (sum > 100.f)
      sum = square(sum) - x;
  }
};
