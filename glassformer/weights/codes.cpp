// Room 5, weights: products of rows with codes of 8 bits. Rows are rounded to 8 bits too, each by its
// largest number; sums are of integers and so exact. Compiled at first use (`native.py`).

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#include <immintrin.h>
#define HAS_VNNI 1
#endif

#define UNROLLED _Pragma("GCC unroll 8")  // so that sums stay in registers
constexpr int64_t COLUMNS = 64;  // outputs that are computed together, in four vectors

struct Product {
    int64_t rows, in, out;  // codes: [out / COLUMNS, in / 4, COLUMNS, 4], filled up with zeros
    const float *x;
    const int8_t *codes;
    const int32_t *sums;  // of every output's codes
    const float *scale, *bias;
    float *y;
};

#if HAS_VNNI
#pragma GCC optimize("no-associative-math")  // what a row gives does not depend on its neighbors

static void round_row(const float *x, int64_t in, uint8_t *bytes, float &size) {
    __m512 high = _mm512_set1_ps(1e-30f);
    for (int64_t i = 0; i < in; i += 16) {
        __mmask16 there = in - i >= 16 ? 0xffff : (1u << (in - i)) - 1;
        high = _mm512_max_ps(high, _mm512_abs_ps(_mm512_maskz_loadu_ps(there, x + i)));
    }
    const float largest = _mm512_reduce_max_ps(high);
    const __m512 by = _mm512_set1_ps(largest), most = _mm512_set1_ps(127.f);
    for (int64_t i = 0; i < in; i += 16) {
        __mmask16 there = in - i >= 16 ? 0xffff : (1u << (in - i)) - 1;
        __m512 part = _mm512_div_ps(_mm512_maskz_loadu_ps(there, x + i), by);
        __m512i code = _mm512_cvtps_epi32(_mm512_mul_ps(part, most));  // to the nearest
        code = _mm512_add_epi32(code, _mm512_set1_epi32(128));
        _mm_mask_storeu_epi8(bytes + i, there, _mm512_cvtepi32_epi8(code));
    }
    size = largest / 127.f;
}

// R rows by COLUMNS outputs: all sums stay in registers while the width goes by.
template <int R>
static void tile(const Product &p, const uint8_t *bytes, int64_t wide, const float *sizes,
                 int64_t row, int64_t block) {
    __m512i sums[R][4] = {};
    const int8_t *codes = p.codes + block * wide * COLUMNS;
    for (int64_t i = 0; i < wide; i += 4, codes += 4 * COLUMNS) {
        __m512i part[4];
        UNROLLED for (int j = 0; j < 4; j++) part[j] = _mm512_loadu_si512(codes + 64 * j);
        UNROLLED for (int r = 0; r < R; r++) {
            int32_t four;
            std::memcpy(&four, bytes + (row + r) * wide + i, 4);
            __m512i values = _mm512_set1_epi32(four);
            UNROLLED for (int j = 0; j < 4; j++)
                sums[r][j] = _mm512_dpbusd_epi32(sums[r][j], values, part[j]);
        }
    }
    UNROLLED for (int j = 0; j < 4; j++) {
        int64_t column = block * COLUMNS + 16 * j, left = std::min<int64_t>(16, p.out - column);
        if (left <= 0) return;
        __mmask16 there = (1u << left) - 1;
        __m512i offset = _mm512_slli_epi32(_mm512_loadu_si512(p.sums + column), 7);  // 128 a code
        __m512 scale = _mm512_maskz_loadu_ps(there, p.scale + column);
        __m512 bias = _mm512_setzero_ps();
        if (p.bias) bias = _mm512_maskz_loadu_ps(there, p.bias + column);
        UNROLLED for (int r = 0; r < R; r++) {
            __m512 y = _mm512_cvtepi32_ps(_mm512_sub_epi32(sums[r][j], offset));
            __m512 by = _mm512_mul_ps(scale, _mm512_set1_ps(sizes[row + r]));
            y = _mm512_fmadd_ps(y, by, bias);
            _mm512_mask_storeu_ps(p.y + (row + r) * p.out + column, there, y);
        }
    }
}
#endif

extern "C" {
int has_instructions() {
#if HAS_VNNI
    return 1;
#else
    return 0;
#endif
}

void multiply(const Product *product, int threads) {
#if HAS_VNNI
    const Product &p = *product;
    const int64_t wide = (p.in + 3) / 4 * 4, blocks = (p.out + COLUMNS - 1) / COLUMNS;
    std::vector<uint8_t> bytes(p.rows * wide);
    std::vector<float> sizes(p.rows);
#pragma omp parallel num_threads(threads)
    {
#pragma omp for
        for (int64_t r = 0; r < p.rows; r++)
            round_row(p.x + r * p.in, p.in, bytes.data() + r * wide, sizes[r]);
#pragma omp for
        for (int64_t block = 0; block < blocks; block++) {
            int64_t r = 0;
            for (; r + 6 <= p.rows; r += 6) tile<6>(p, bytes.data(), wide, sizes.data(), r, block);
            switch (p.rows - r) {
                case 1: tile<1>(p, bytes.data(), wide, sizes.data(), r, block); break;
                case 2: tile<2>(p, bytes.data(), wide, sizes.data(), r, block); break;
                case 3: tile<3>(p, bytes.data(), wide, sizes.data(), r, block); break;
                case 4: tile<4>(p, bytes.data(), wide, sizes.data(), r, block); break;
                case 5: tile<5>(p, bytes.data(), wide, sizes.data(), r, block); break;
            }
        }
    }
#endif
}
}
