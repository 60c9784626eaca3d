// Room 5, weights: products of signed bytes. No step of a sum overflows, so sums are exact on every
// machine; without VNNI, bytes are multiplied in such a way that pairs of products fit 16 bits.

#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#include <immintrin.h>
#define HAS_VNNI 1
#elif defined(__AVX2__)
#include <immintrin.h>
#endif

namespace bytes {

#if HAS_VNNI
constexpr int LANES = 16;
constexpr int OFFSET = 128;  // of the inputs' codes: the instruction multiplies unsigned by signed
#elif defined(__AVX2__)
constexpr int LANES = 8;
constexpr int OFFSET = 0;
#else
constexpr int LANES = 4;
constexpr int OFFSET = 0;
#endif
constexpr int SIZE = 4 * LANES;  // bytes of a vector

typedef int32_t Integers __attribute__((vector_size(SIZE)));
typedef int8_t Signed __attribute__((vector_size(SIZE)));

inline Signed load(const void *at) {
    Signed out;
    std::memcpy(&out, at, SIZE);
    return out;
}
inline Signed load(const int8_t *at, int64_t count) {  // after `count` bytes there are zeros
    if (count >= SIZE) return load(at);
#if HAS_VNNI
    return (Signed)_mm512_maskz_loadu_epi8((1ull << count) - 1, at);
#else
    Signed out{};
    std::memcpy(&out, at, count);
    return out;
#endif
}
inline Signed four(const uint8_t *at) {  // the same four bytes for every lane
    int32_t all;
    std::memcpy(&all, at, 4);
    return (Signed)(all - Integers{});
}

// Adds to each lane the products of its four inputs, which have the offset, with its four weights.
inline Integers add_products(Integers sums, Signed inputs, Signed weights) {
#if HAS_VNNI
    return (Integers)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)inputs, (__m512i)weights);
#elif defined(__AVX2__)  // |w| times x with the sign of w: two products are at most 2 * 128 * 127
    const __m256i x = (__m256i)inputs, w = (__m256i)weights;
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return sums + (Integers)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#else
    typedef int16_t Wide __attribute__((vector_size(2 * SIZE)));
    typedef int32_t Pairs __attribute__((vector_size(2 * SIZE)));
    const Wide all = __builtin_convertvector(inputs, Wide) * __builtin_convertvector(weights, Wide);
    const Pairs pairs = ((Pairs)all << 16 >> 16) + ((Pairs)all >> 16);
    return sums + __builtin_shufflevector(pairs, pairs, 0, 2, 4, 6) +
           __builtin_shufflevector(pairs, pairs, 1, 3, 5, 7);
#endif
}

#pragma GCC push_options
#pragma GCC optimize("no-associative-math")  // a row has the same codes on every machine

// To codes from -127 to 127, which stand for multiples of the result. A row that holds NaN or infinity
// has such a result as well. (std::nearbyint is not inlined between pragmas.)
template <int ADDED> inline float rounded(const float *x, int64_t count, uint8_t *codes) {
    int32_t most = 0;  // numbers without their sign are ordered as their bits are
    for (int64_t i = 0; i < count; i++) {
        int32_t bits;
        std::memcpy(&bits, x + i, 4);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    float largest;
    std::memcpy(&largest, &most, 4);
    largest = largest < 1e-30f ? 1e-30f : largest;
    for (int64_t i = 0; i < count; i++)
        codes[i] = uint8_t(ADDED + int(__builtin_nearbyintf(x[i] / largest * 127.f)));
    return largest / 127.f;
}

#pragma GCC pop_options

}  // namespace bytes
