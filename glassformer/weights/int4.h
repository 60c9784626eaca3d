// Room 5, weights: products with codes of 4 bits. What is multiplied is rounded to 8 bits, every group
// by its largest number; a group's sums are of integers and so exact.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "bytes.h"

namespace nibbles {

constexpr int GROUP = 32;    // numbers of a row that share a scale and a zero
constexpr int ABREAST = 16;  // outputs that are computed together, one a lane
constexpr int AHEAD = 8192;  // bytes: weights are asked for before their turn

struct Portion {  // a group of the inputs for outputs abreast: all that is read, in one stream
    uint8_t codes[4][ABREAST][4];  // of input 4 a + c in [a][o][c], of 16 + 4 a + c above it
    uint32_t factors[ABREAST];     // scale and zero, each half of a float
};

struct Rounded {  // a group of a row
    int8_t codes[GROUP];
    float size, sum;  // a code's, and that of all numbers
    int32_t offset;   // -8 times the sum of all codes: weights are (code - 8) * scale + zero
    int32_t unused;
};

#pragma GCC push_options
#pragma GCC optimize("no-associative-math")  // what a row gives does not depend on its neighbors

inline float upper(uint32_t bits) {
    bits &= 0xffff0000;
    float out;
    std::memcpy(&out, &bits, 4);
    return out;
}

inline void round_row(const float *x, int64_t groups, Rounded *out) {
    for (int64_t g = 0; g < groups; g++, x += GROUP, out++) {
        out->size = bytes::rounded<0>(x, GROUP, (uint8_t *)out->codes);
        int sum = 0;
        for (int i = 0; i < GROUP; i++) sum += out->codes[i];
        out->sum = sum * out->size;
        out->offset = -8 * sum;
    }
}

#if HAS_VNNI || defined(__AVX2__)
#if HAS_VNNI
constexpr int LANES = 16;
#else
constexpr int LANES = 8;
#endif
typedef float Numbers __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef uint32_t Bits __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t Integers __attribute__((vector_size(LANES * 4)));
typedef uint8_t Bytes __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

// Adds to each lane the products of its four codes with these four.
inline Integers add_products(Integers sums, Bytes codes, const int8_t *with) {
    int32_t four;
    std::memcpy(&four, with, 4);
#if HAS_VNNI
    return (Integers)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)codes, _mm512_set1_epi32(four));
#else
    const __m256i pairs = _mm256_maddubs_epi16((__m256i)codes, _mm256_set1_epi32(four));
    return sums + (Integers)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#endif
}
#else
#define LANE_BY_LANE 1
#endif

// R rows, which lie `groups` apart, times the weights of outputs abreast.
template <int R>
inline void multiply(const Portion *weight, const Rounded *x, int64_t groups,
                     float (*out)[ABREAST]) {
#if LANE_BY_LANE
    std::fill(out[0], out[0] + R * ABREAST, 0.f);
    for (int64_t g = 0; g < groups; g++, weight++, x++)
        for (int r = 0; r < R; r++)
            for (int o = 0; o < ABREAST; o++) {
                const int8_t *codes = x[r * groups].codes;
                int sum = x[r * groups].offset;
                for (int a = 0; a < 4; a++)
                    for (int c = 0; c < 4; c++) {
                        const uint8_t both = weight->codes[a][o][c];
                        sum += (both & 15) * codes[4 * a + c] + (both >> 4) * codes[16 + 4 * a + c];
                    }
                const uint32_t factors = weight->factors[o];
                out[r][o] += sum * (upper(factors) * x[r * groups].size);
                out[r][o] += upper(factors << 16) * x[r * groups].sum;
            }
#else
#define EACH_ROW _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)
    constexpr int PARTS = ABREAST / LANES;
    Numbers totals[PARTS][R] = {};
    for (int64_t g = 0; g < groups; g++, weight++, x++) {
        for (size_t line = 0; line < sizeof(Portion); line += 64)
            __builtin_prefetch((const char *)weight + AHEAD + line, 0, 2);
        _Pragma("GCC unroll 2") for (int part = 0; part < PARTS; part++) {
            Integers sums[R];
            EACH_ROW sums[r] = x[r * groups].offset - Integers{};
            _Pragma("GCC unroll 4") for (int a = 0; a < 4; a++) {
                const Bytes both = *(const Bytes *)weight->codes[a][part * LANES];
                EACH_ROW {
                    const int8_t *codes = x[r * groups].codes + 4 * a;
                    sums[r] = add_products(sums[r], both & 15, codes);
                    sums[r] = add_products(sums[r], both >> 4, codes + 16);
                }
            }
            const Bits factors = *(const Bits *)(weight->factors + part * LANES);
            const Numbers scale = (Numbers)(factors & 0xffff0000), zero = (Numbers)(factors << 16);
            EACH_ROW {
                const Numbers sum = __builtin_convertvector(sums[r], Numbers);
                totals[part][r] += sum * (scale * x[r * groups].size);
                totals[part][r] += zero * x[r * groups].sum;
            }
        }
    }
    for (int part = 0; part < PARTS; part++)
        EACH_ROW *(Numbers *)(out[r] + part * LANES) = totals[part][r];
#undef EACH_ROW
#endif
}

#pragma GCC pop_options

// out[r * step + o] for outputs from `begin` to `end`.
template <int R>
inline void tile(const Portion *weight, const Rounded *x, int64_t groups, int64_t begin, int64_t end,
                 float *out, int64_t step) {
    float totals[R][ABREAST];
    for (int64_t first = begin / ABREAST * ABREAST; first < end; first += ABREAST) {
        multiply<R>(weight + first / ABREAST * groups, x, groups, totals);
        const int64_t from = std::max(begin, first), to = std::min(end, first + ABREAST);
        for (int r = 0; r < R; r++)
            std::copy(totals[r] + (from - first), totals[r] + (to - first), out + r * step + from);
    }
}

// Calls work(how many, from which on) for up to eight rows at a time; their number is a constant.
template <class Work> inline void some_rows(int64_t rows, Work work) {
    for (int64_t r = 0; r < rows; r += 8) switch (std::min<int64_t>(rows - r, 8)) {
        case 1: work(std::integral_constant<int, 1>(), r); break;
        case 2: work(std::integral_constant<int, 2>(), r); break;
        case 3: work(std::integral_constant<int, 3>(), r); break;
        case 4: work(std::integral_constant<int, 4>(), r); break;
        case 5: work(std::integral_constant<int, 5>(), r); break;
        case 6: work(std::integral_constant<int, 6>(), r); break;
        case 7: work(std::integral_constant<int, 7>(), r); break;
        case 8: work(std::integral_constant<int, 8>(), r); break;
    }
}

}  // namespace nibbles
