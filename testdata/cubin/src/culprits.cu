// Kernels whose registers have a known holder: the line marked "holds" with the kernel's name.

extern "C" __global__ void kept_across_loop(const float* __restrict__ a, const float4* __restrict__ k, float* o, int n)
{
    float4 kept = k[threadIdx.x];  // holds kept_across_loop
    float s[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int i = 0; i < n; i++) {
        const float* p = a + i * 8;
        for (int j = 0; j < 8; j++)
            s[j] = fmaf(p[j], s[(j + 1) % 8], s[j]);
    }
    o[threadIdx.x] = s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7] + kept.x * kept.y + kept.z * kept.w;
}

extern "C" __global__ void one_kept_across_loop(const float* __restrict__ a, const float* __restrict__ k, float* o, int n)
{
    float kept = k[threadIdx.x];  // holds one_kept_across_loop
    float s = 0, t = 1;
    for (int i = 0; i < n; i++) {
        s = fmaf(a[i], t, s);
        t = fmaf(s, a[i + n], t);
    }
    o[0] = s * t + kept;
}

extern "C" __global__ void array_in_registers(const float* __restrict__ a, const float* __restrict__ b, float* o, int n)
{
    float sums[32] = {};
    for (int i = 0; i < n; i++) {
        float x = a[i * blockDim.x + threadIdx.x];
#pragma unroll
        for (int j = 0; j < 32; j++)
            sums[j] = fmaf(x, b[i * 32 + j], sums[j]);  // holds array_in_registers
    }
#pragma unroll
    for (int j = 0; j < 32; j++)
        o[j * blockDim.x + threadIdx.x] = sums[j];
}

extern "C" __global__ void recomputable_address(const float* __restrict__ a, float* o, float* q, int n, int row, int w)
{
    float* to = q + ((long)blockIdx.x * row + threadIdx.x) * w;  // holds recomputable_address
    to[2] = 0;
    float s = 0, t = 0;
    for (int i = 0; i < n; i++) {
        s += a[i] * t;
        t = fmaf(s, a[i + n], t);
    }
    o[0] = s;
    to[0] = t;
    to[1] = s;
}

extern "C" __global__ void loaded_too_early(const float* __restrict__ a, const float* __restrict__ k, float* o, int n)
{
    float early[24];
#pragma unroll
    for (int j = 0; j < 24; j++)
        early[j] = k[threadIdx.x + j * blockDim.x];  // holds loaded_too_early
    float s = 0, t = 1;
    for (int i = 0; i < n; i++) {
        s = fmaf(a[i], t, s);
        t = fmaf(s, a[i + n], t);
    }
#pragma unroll
    for (int j = 0; j < 24; j++)
        s += early[j] * t;
    o[threadIdx.x] = s;
}

extern "C" __global__ void table_of_factors(const double* __restrict__ a, double* o, int n, double x)
{
    double power[12];
    power[0] = x;
#pragma unroll
    for (int j = 1; j < 12; j++)
        power[j] = power[j - 1] * x;  // holds table_of_factors
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        double sum = 0;
#pragma unroll
        for (int j = 0; j < 12; j++)
            sum = fma(a[i * 12 + j], power[j], sum);
        o[i] = sum;
    }
}
