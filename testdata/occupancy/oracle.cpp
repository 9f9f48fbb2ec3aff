// Prints what NVIDIA's cuda_occupancy.h says about pseudo-random launches, one a line:
//
//   oracle SM COUNT SEED [narrow]
//
//   sm mode carveout registers threads static dynamic barriers | status active factors
//     regs smem warps blocks barriers | allocated_registers allocated_smem
//
// Device properties come from CCCL's cuda::arch_traits, NVIDIA's own table, and not from this repository. "narrow" draws only
// registers, threads and shared memory, uniformly: what a script that sweeps launches asks.
// status is cudaOccError; -1 stands for INT_MAX ("no limit") and for a carveout that was not set.
// scripts/check-occupancy builds this against the headers of the nvidia-cuda-runtime and nvidia-cuda-cccl packages.

#include <cuda/devices>
#include <cuda_occupancy.h>

#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// splitmix64: the same seed gives the same launches with every compiler and library.
static uint64_t state;
static uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}
static uint64_t below(uint64_t n) { return next() % n; }
static bool one_in(uint64_t n) { return below(n) == 0; }

static bool traits_of(int sm, cuda::arch_traits_t &t) {
    using id = cuda::arch_id;
    switch (sm) {
    case 75: t = cuda::arch_traits<id::sm_75>(); break;
    case 80: t = cuda::arch_traits<id::sm_80>(); break;
    case 86: t = cuda::arch_traits<id::sm_86>(); break;
    case 87: t = cuda::arch_traits<id::sm_87>(); break;
    case 88: t = cuda::arch_traits<id::sm_88>(); break;
    case 89: t = cuda::arch_traits<id::sm_89>(); break;
    case 90: t = cuda::arch_traits<id::sm_90>(); break;
    case 100: t = cuda::arch_traits<id::sm_100>(); break;
    // CUDA 13 gave sm_101 the name sm_110; cuda_occupancy.h still has a row for 10.1.
    case 101: t = cuda::arch_traits<id::sm_110>(); break;
    case 103: t = cuda::arch_traits<id::sm_103>(); break;
    case 107: t = cuda::arch_traits<id::sm_107>(); break;
    case 110: t = cuda::arch_traits<id::sm_110>(); break;
    case 120: t = cuda::arch_traits<id::sm_120>(); break;
    case 121: t = cuda::arch_traits<id::sm_121>(); break;
    default: return false;
    }
    return true;
}

static int shown(int limit) { return limit == INT_MAX ? -1 : limit; }

int main(int argc, char **argv) {
    if (argc < 4) {
        std::fprintf(stderr, "usage: oracle SM COUNT SEED [narrow]\n");
        return 2;
    }
    const int sm = std::atoi(argv[1]);
    const long count = std::atol(argv[2]);
    state = std::strtoull(argv[3], nullptr, 10) * 1000 + sm;
    const bool narrow = argc > 4 && std::strcmp(argv[4], "narrow") == 0;
    cuda::arch_traits_t traits{};
    if (!traits_of(sm, traits)) {
        std::fprintf(stderr, "oracle: no traits for sm_%d\n", sm);
        return 2;
    }
    const bool has_oversized = sm == 107;

    for (long i = 0; i < count; i++) {
        cudaOccDeviceProp prop;
        prop.computeMajor = sm / 10;
        prop.computeMinor = sm % 10;
        prop.maxThreadsPerBlock = traits.max_threads_per_block;
        prop.maxThreadsPerMultiprocessor = traits.max_threads_per_multiprocessor;
        prop.regsPerBlock = traits.max_registers_per_block;
        prop.regsPerMultiprocessor = traits.max_registers_per_multiprocessor;
        prop.warpSize = traits.warp_size;
        prop.sharedMemPerBlock = traits.max_shared_memory_per_block;
        prop.sharedMemPerMultiprocessor = traits.max_shared_memory_per_multiprocessor;
        prop.numSms = 1;
        prop.sharedMemPerBlockOptin = traits.max_shared_memory_per_block_optin;
        prop.reservedSharedMemPerBlock = traits.reserved_shared_memory_per_block;

        int registers, threads, barriers = 0, carveout = -1;
        size_t fixed, dynamic = 0;
        const char *mode = "non_portable";
        if (narrow) {
            registers = static_cast<int>(below(257));
            threads = static_cast<int>(1 + below(1024));
            fixed = below(prop.sharedMemPerMultiprocessor + 4096);
        } else {
            switch (below(50)) {
            case 0: registers = static_cast<int>(below(70000)); break;
            // Low counts more often than not: a block of more than 256 threads has no room for high ones.
            default: registers = static_cast<int>(one_in(2) ? below(270) : below(1 + below(130))); break;
            }
            switch (below(4)) {
            case 0: threads = static_cast<int>(32 * (1 + below(32))); break;
            case 1: threads = one_in(20) ? static_cast<int>(below(5000)) : static_cast<int>(below(130)); break;
            default: threads = static_cast<int>(below(1100)); break;
            }
            const size_t most = prop.sharedMemPerMultiprocessor + 8192;
            switch (below(5)) {
            case 0: fixed = 0; break;
            case 1: fixed = below(1u << (1 + below(18))); break;
            // Around the allocation steps, where an off-by-one shows.
            case 2: fixed = 128 * below(most / 128) + below(3) - (one_in(2) ? 1 : 0); break;
            case 3: fixed = one_in(20) ? below(INT_MAX / 2) : below(49152); break;
            default: fixed = below(most); break;
            }
            if (static_cast<int64_t>(fixed) < 0) fixed = 0;
            if (one_in(2)) dynamic = one_in(3) ? below(most) : below(32768);
            if (one_in(2)) barriers = one_in(10) ? static_cast<int>(below(80)) : static_cast<int>(below(17));
            if (one_in(3)) carveout = static_cast<int>(below(101));
            if (one_in(5)) mode = "portable";
            if (has_oversized && one_in(4)) mode = "oversized";
        }
        if (std::strcmp(mode, "oversized") == 0) {
            // CU_DEVICE_ATTRIBUTE_MAX_OVERSIZED_SHARED_MEMORY_PER_BLOCK; the header's largest configuration for 10.7 is 328 KB.
            prop.sharedMemPerMultiprocessor = 328 * 1024;
            prop.sharedMemPerBlockOptin = 327 * 1024;
        }

        cudaOccFuncAttributes attr;
        attr.maxThreadsPerBlock = INT_MAX;
        attr.numRegs = registers;
        attr.sharedSizeBytes = fixed;
        attr.numBlockBarriers = barriers;
        if (std::strcmp(mode, "portable") != 0) {
            attr.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
            attr.maxDynamicSharedSizeBytes = dynamic;
        }
        cudaOccDeviceState device;
        device.carveoutConfig = carveout;

        cudaOccResult r;
        std::memset(&r, 0, sizeof r);
        const int status = cudaOccMaxActiveBlocksPerMultiprocessor(&r, &prop, &attr, &device, threads, dynamic);
        std::printf("%d %s %d %d %d %zu %zu %d | %d ", sm, mode, carveout, registers, threads, fixed, dynamic, barriers, status);
        if (status == CUDA_OCC_SUCCESS) {
            std::printf("%d %u %d %d %d %d %d | %d %zu\n", r.activeBlocksPerMultiprocessor, r.limitingFactors,
                        shown(r.blockLimitRegs), shown(r.blockLimitSharedMem), shown(r.blockLimitWarps),
                        shown(r.blockLimitBlocks), shown(r.blockLimitBarriers), r.allocatedRegistersPerBlock,
                        r.allocatedSharedMemPerBlock);
        } else {
            std::printf("\n");
        }
    }
    return 0;
}
