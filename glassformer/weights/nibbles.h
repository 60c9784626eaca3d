// Room 5, weights: products with codes of 4 bits. What is multiplied is rounded to 8 bits, every group
// by its largest number; a group's sums are of integers and so exact.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#include <immintrin.h>
#define HAS_VNNI 1
#endif

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

inline float upper(uint32_t bits) {
    bits &= 0xffff0000;
    float out;
    std::memcpy(&out, &bits, 4);
    return out;
}

inline void round_row(const float *x, int64_t groups, Rounded *out) {
    for (int64_t g = 0; g < groups; g++, x += GROUP) {
        int sum = 0;
#if HAS_VNNI
        const __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + 16);
        const __m512 high = _mm512_max_ps(_mm512_abs_ps(a), _mm512_abs_ps(b));
        const float largest = std::max(_mm512_reduce_max_ps(high), 1e-30f);
        const __m512 by = _mm512_set1_ps(largest), most = _mm512_set1_ps(127.f);
        const __m512i c = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_div_ps(a, by), most));
        const __m512i d = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_div_ps(b, by), most));
        _mm_storeu_si128((__m128i *)out[g].codes, _mm512_cvtepi32_epi8(c));
        _mm_storeu_si128((__m128i *)(out[g].codes + 16), _mm512_cvtepi32_epi8(d));
        sum = _mm512_reduce_add_epi32(_mm512_add_epi32(c, d));
#else
        float largest = 1e-30f;
        for (int i = 0; i < GROUP; i++) largest = std::max(largest, std::fabs(x[i]));
        for (int i = 0; i < GROUP; i++) {
            int code = int(std::nearbyint(x[i] / largest * 127.f));
            out[g].codes[i] = int8_t(code);
            sum += code;
        }
#endif
        out[g].size = largest / 127.f;
        out[g].sum = sum * out[g].size;
        out[g].offset = -8 * sum;
    }
}

// R rows, which lie `groups` apart, times the weights of outputs abreast.
template <int R>
inline void multiply(const Portion *weight, const Rounded *x, int64_t groups,
                     float (*out)[ABREAST]) {
#if HAS_VNNI
#define EACH_ROW _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)
    const __m512i low = _mm512_set1_epi8(15), high = _mm512_set1_epi32(int(0xffff0000));
    __m512 totals[R] = {};
    for (int64_t g = 0; g < groups; g++, weight++, x++) {
        for (size_t line = 0; line < sizeof(Portion); line += 64)
            __builtin_prefetch((const char *)weight + AHEAD + line, 0, 2);
        __m512i sums[R];
        EACH_ROW sums[r] = _mm512_set1_epi32(x[r * groups].offset);
        _Pragma("GCC unroll 4") for (int a = 0; a < 4; a++) {
            const __m512i both = _mm512_loadu_si512(weight->codes[a]);
            const __m512i first = _mm512_and_si512(both, low);
            const __m512i second = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
            EACH_ROW {
                int32_t four[2];
                std::memcpy(four, x[r * groups].codes + 4 * a, 4);
                std::memcpy(four + 1, x[r * groups].codes + 16 + 4 * a, 4);
                sums[r] = _mm512_dpbusd_epi32(sums[r], first, _mm512_set1_epi32(four[0]));
                sums[r] = _mm512_dpbusd_epi32(sums[r], second, _mm512_set1_epi32(four[1]));
            }
        }
        const __m512i factors = _mm512_loadu_si512(weight->factors);
        const __m512 scale = _mm512_castsi512_ps(_mm512_and_si512(factors, high));
        const __m512 zero = _mm512_castsi512_ps(_mm512_slli_epi32(factors, 16));
        EACH_ROW {
            const __m512 by = _mm512_mul_ps(scale, _mm512_set1_ps(x[r * groups].size));
            totals[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[r]), by, totals[r]);
            totals[r] = _mm512_fmadd_ps(zero, _mm512_set1_ps(x[r * groups].sum), totals[r]);
        }
    }
    EACH_ROW _mm512_storeu_ps(out[r], totals[r]);
#undef EACH_ROW
#else
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
#endif
}

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
