// Room 5, weights: products of rows with codes of 8 bits. Rows are rounded to 8 bits too, each by its
// largest number; sums are of integers and so exact. Compiled at first use (`native`).

#include <algorithm>
#include <cmath>
#include <vector>

#include "bytes.h"

using namespace bytes;

#define UNROLLED _Pragma("GCC unroll 8")  // so that sums stay in registers
constexpr int64_t COLUMNS = 64;               // outputs whose codes lie together
constexpr int ROWS = 6;                       // that are computed together
constexpr int SUMS = LANES == 16 ? 24 : 12;  // of the registers

struct Product {
    int64_t rows, in, out;  // codes: [out / COLUMNS, in / 4, COLUMNS, 4], filled up with zeros
    const float *x;
    const int8_t *codes;
    const int32_t *sums;  // of every output's codes
    const float *scale, *bias;
    float *y;
};

struct Rounded {  // the rows
    int64_t wide;  // `in`, filled up to a multiple of four
    std::vector<uint8_t> codes;
    std::vector<float> sizes;
};

constexpr int vectors(int rows) {  // of outputs: a power of two, so that they divide COLUMNS
    int count = 1;
    while (2 * count * rows <= SUMS && 2 * count * LANES <= COLUMNS) count *= 2;
    return count;
}

// R rows by some outputs: all sums stay in registers while the width goes by.
template <int R> static void tile(const Product &p, const Rounded &x, int64_t row, int64_t column) {
    constexpr int V = vectors(R);
    Integers sums[R][V] = {};
    const int8_t *codes = p.codes + column / COLUMNS * COLUMNS * x.wide + column % COLUMNS * 4;
    const uint8_t *inputs = x.codes.data() + row * x.wide;
    for (int64_t i = 0; i < x.wide; i += 4, codes += 4 * COLUMNS) {
        Signed weights[V];
        UNROLLED for (int v = 0; v < V; v++) weights[v] = load(codes + SIZE * v);
        UNROLLED for (int r = 0; r < R; r++) {
            const Signed values = four(inputs + r * x.wide + i);
            UNROLLED for (int v = 0; v < V; v++)
                sums[r][v] = add_products(sums[r][v], values, weights[v]);
        }
    }
    static const float zeros[COLUMNS] = {};
    const int64_t count = std::min<int64_t>(V * LANES, p.out - column);
    const int32_t *offsets = p.sums + column;
    const float *scale = p.scale + column, *bias = p.bias ? p.bias + column : zeros;
    UNROLLED for (int r = 0; r < R; r++) {
        int32_t totals[V * LANES];
        UNROLLED for (int v = 0; v < V; v++) std::memcpy(totals + v * LANES, &sums[r][v], SIZE);
        float *__restrict y = p.y + (row + r) * p.out + column;
        const float size = x.sizes[row + r];
        for (int64_t o = 0; o < count; o++)
            y[o] = std::fma(float(totals[o] - OFFSET * offsets[o]), scale[o] * size, bias[o]);
    }
}

template <int R> static void block(const Product &p, const Rounded &x, int64_t row, int64_t begin) {
    const int64_t end = std::min(begin + COLUMNS, p.out);
    for (int64_t o = begin; o < end; o += vectors(R) * LANES) tile<R>(p, x, row, o);
}

extern "C" void multiply(const Product *product, int threads) {
    const Product &p = *product;
    Rounded x{(p.in + 3) / 4 * 4, {}, {}};
    x.codes.resize(p.rows * x.wide);
    x.sizes.resize(p.rows);
#pragma omp parallel num_threads(threads)
    {
#pragma omp for
        for (int64_t r = 0; r < p.rows; r++)
            x.sizes[r] = rounded<OFFSET>(p.x + r * p.in, p.in, x.codes.data() + r * x.wide);
#pragma omp for
        for (int64_t begin = 0; begin < p.out; begin += COLUMNS) {
            int64_t r = 0;
            for (; r + ROWS <= p.rows; r += ROWS) block<ROWS>(p, x, r, begin);
            switch (p.rows - r) {
                case 1: block<1>(p, x, r, begin); break;
                case 2: block<2>(p, x, r, begin); break;
                case 3: block<3>(p, x, r, begin); break;
                case 4: block<4>(p, x, r, begin); break;
                case 5: block<5>(p, x, r, begin); break;
            }
        }
    }
}
