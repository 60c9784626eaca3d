// C++ beside Python: arithmetic on vectors that are as wide as the machine's.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#if defined(__AVX512F__)
constexpr int LANES = 16, REGISTERS = 32;
#elif defined(__AVX__)
constexpr int LANES = 8, REGISTERS = 16;
#else
constexpr int LANES = 4, REGISTERS = 32;
#endif

enum Activation { NONE, RELU, RELU2, GELU, GELU_TANH, GELU_SIGMOID, SILU, TANH, SIGMOID };

#define UNROLLED _Pragma("GCC unroll 16")  // so that sums stay in registers

// A template's parameter forgets that a type may lie anywhere, so that is said of memory alone.
typedef float Vector __attribute__((vector_size(LANES * 4)));
typedef float Anywhere __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t Integers __attribute__((vector_size(LANES * 4)));
typedef uint32_t Bits __attribute__((vector_size(LANES * 4)));
typedef uint16_t Halves __attribute__((vector_size(LANES * 2), aligned(2), may_alias));

inline Vector load(const float *at) { return *(const Anywhere *)at; }
inline void store(float *at, Vector x) { *(Anywhere *)at = x; }
inline Vector load(const uint16_t *at) {  // bfloat16 is the upper half of a float
    return (Vector)(__builtin_convertvector(*(const Halves *)at, Bits) << 16);
}
inline float number(float x) { return x; }
inline float number(uint16_t x) {
    uint32_t bits = uint32_t(x) << 16;
    float out;
    std::memcpy(&out, &bits, 4);
    return out;
}

// The sums of N vectors, one a lane: in every round two become one, and neighbors are added.
template <size_t W, class V, size_t... I> inline V folded(V a, V b, std::index_sequence<I...>) {
    constexpr size_t COUNT = sizeof...(I);
    return __builtin_shufflevector(a, b, (I & W ? COUNT + (I ^ W) : I)...) +
           __builtin_shufflevector(a, b, (I & W ? COUNT + I : I ^ W)...);
}
template <size_t W, int N, class V> inline V sum_round(V *x) {
    if constexpr (N == 1) return x[0];
    else {
        V half[N / 2];
        UNROLLED for (int i = 0; i < N / 2; i++)
            half[i] = folded<W>(x[2 * i], x[2 * i + 1], std::make_index_sequence<sizeof(V) / 4>());
        return sum_round<2 * W, N / 2>(half);
    }
}
template <int N, class V> inline void sum_lanes(const V *x, float *out) {
    constexpr int COUNT = sizeof(V) / 4;
    for (int first = 0; first < N; first += COUNT) {
        V some[COUNT] = {};
        for (int i = 0; i < COUNT && first + i < N; i++) some[i] = x[first + i];
        V sums = sum_round<1, COUNT>(some);
        for (int i = 0; i < COUNT && first + i < N; i++) out[first + i] = sums[i];
    }
}

inline float exponential(float x) {  // as in Cephes; loops around it become vectors
    x = std::min(std::max(x, -87.f), 88.f);
    float n = std::floor(x * 1.44269504f + 0.5f);
    x = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * x + 1.3981999507e-3f;
    p = p * x + 8.3334519073e-3f;
    p = p * x + 4.1665795894e-2f;
    p = p * x + 1.6666665459e-1f;
    p = p * x + 5.0000001201e-1f;
    int32_t bits = (int32_t(n) + 127) << 23;
    float power;
    std::memcpy(&power, &bits, 4);
    return (p * x * x + x + 1.f) * power;
}
inline float sigmoid(float x) { return 1.f / (1.f + exponential(-x)); }
inline float hyperbolic(float x) {  // near zero by its series, where the quotient loses digits
    float z = x * x, far = 1.f - 2.f / (1.f + exponential(2.f * x));
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    return z < 0.39f ? p * z * x + x : far;
}
inline float error_function(float x) {  // Abramowitz and Stegun, 7.1.26
    float size = std::fabs(x), t = 1.f / (1.f + 0.3275911f * size);
    float p = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t +
               0.254829592f) * t;
    return std::copysign(1.f - p * exponential(-size * size), x);
}

template <int A> inline float activated(float x) {
    if constexpr (A == RELU) return std::max(x, 0.f);
    if constexpr (A == RELU2) return std::max(x, 0.f) * std::max(x, 0.f);
    if constexpr (A == GELU) return 0.5f * x * (1.f + error_function(x * 0.70710678f));
    if constexpr (A == GELU_TANH)
        return 0.5f * x * (1.f + hyperbolic(0.79788456f * (x + 0.044715f * x * x * x)));
    if constexpr (A == GELU_SIGMOID) return x * sigmoid(1.702f * x);
    if constexpr (A == SILU) return x * sigmoid(x);
    if constexpr (A == TANH) return hyperbolic(x);
    if constexpr (A == SIGMOID) return sigmoid(x);
    return x;
}
