// C++ beside Python: a small product of matrices, of which larger things are made.

#pragma once

#include "simd.h"

constexpr int ROWS = REGISTERS / 4;  // of a tile; its sums fill half of the registers
constexpr int PANEL = 2 * LANES;     // columns of a tile

struct Matrix {  // of any layout
    const float *at;
    int64_t row, column;  // how far it is to the next one
    Matrix from(int64_t r, int64_t c) const { return {at + r * row + c * column, row, column}; }
    Matrix turned() const { return {at, column, row}; }
};

struct Rows {  // whose numbers lie side by side
    float *at;
    int64_t row;
    Rows from(int64_t r, int64_t c) const { return {at + r * row + c, row}; }
};

// [rows, columns] to [columns, rows], in squares of LANES: neighbors change places, then pairs, and
// so on. Rows that are not there are zeros; columns are a multiple of LANES.
template <size_t W, size_t... I> inline void cross(Vector &a, Vector &b, std::index_sequence<I...>) {
    Vector upper = __builtin_shufflevector(a, b, (I & W ? LANES + (I ^ W) : I)...);
    b = __builtin_shufflevector(a, b, (I & W ? LANES + I : I ^ W)...);
    a = upper;
}
template <size_t W> inline void turn_square(Vector *x) {
    if constexpr (W < LANES) {
        UNROLLED for (int i = 0; i < LANES; i++)
            if (!(i & W)) cross<W>(x[i], x[i + W], std::make_index_sequence<LANES>());
        turn_square<2 * W>(x);
    }
}
inline void turn(Rows x, int64_t rows, int64_t columns, Rows out) {
    for (int64_t i = 0; i < rows; i += LANES)
        for (int64_t j = 0; j < columns; j += LANES) {
            Vector square[LANES];
            for (int r = 0; r < LANES; r++)
                square[r] = i + r < rows ? load(x.at + (i + r) * x.row + j) : Vector{};
            turn_square<1>(square);
            for (int c = 0; c < LANES; c++) store(out.at + (j + c) * out.row + i, square[c]);
        }
}

// c = a b, or c += a b, for R rows and V vectors of columns: sums stay in registers.
template <int R, int V> inline void tile(Matrix a, Rows b, int64_t depth, Rows c, bool adds) {
    Vector sums[R][V] = {};
    for (int64_t k = 0; k < depth; k++) {
        Vector near[V];
        UNROLLED for (int v = 0; v < V; v++) near[v] = load(b.at + k * b.row + v * LANES);
        UNROLLED for (int r = 0; r < R; r++) {
            float one = a.at[r * a.row + k * a.column];
            UNROLLED for (int v = 0; v < V; v++) sums[r][v] += one * near[v];
        }
    }
    UNROLLED for (int r = 0; r < R; r++)
        UNROLLED for (int v = 0; v < V; v++) {
            float *target = c.at + r * c.row + v * LANES;
            store(target, adds ? load(target) + sums[r][v] : sums[r][v]);
        }
}

template <int R, int V>
inline void few_rows(int rows, Matrix a, Rows b, int64_t depth, Rows c, bool adds) {
    if (rows == R) tile<R, V>(a, b, depth, c, adds);
    else if constexpr (R > 1) few_rows<R - 1, V>(rows, a, b, depth, c, adds);
}

// Of [rows, depth] and [depth, columns]; columns are a multiple of LANES.
inline void product(int64_t rows, int64_t columns, int64_t depth, Matrix a, Rows b, Rows c,
                    bool adds = false) {
    for (int64_t j = 0; j < columns; j += PANEL)
        for (int64_t i = 0; i < rows; i += ROWS) {
            int some = int(std::min<int64_t>(ROWS, rows - i));
            Matrix left = a.from(i, 0);
            Rows right = b.from(0, j), out = c.from(i, j);
            if (j + PANEL <= columns) few_rows<ROWS, 2>(some, left, right, depth, out, adds);
            else few_rows<ROWS, 1>(some, left, right, depth, out, adds);
        }
}
