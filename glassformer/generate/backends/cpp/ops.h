// The operations of a decoder step. structures.py has the same structures, with the same fields.

#pragma once

#include "../../../native/simd.h"

enum Kind { EMBED, NORM, LINEAR, WRITE, ATTEND };
enum WhichRows { ALL, SELECT, SELECTED };  // all rows; those whose logits are asked for; the same,
                                           // where the source holds only those
enum Form { FLOAT, BFLOAT, INT8, INT4 };

struct Norm {
    const float *scale, *shift;  // without a scale there is no norm
    float eps;
    int32_t centered;
};

struct Op {
    int32_t kind, form, activation, gated, which_rows;
    int32_t heads, key_heads, dim, rotary_dim, pairs;
    int32_t left, dilation, window_block, cross;
    float factor, cap;          // factor of embeddings, of a layer's input, of scores; softcap
    int64_t in, out;            // of a linear layer; otherwise `in` is the width
    const void *weight;         // [out, in], packed groups of int4, or a table of embeddings
    const float *scale;         // of int8 weights: [out]
    const float *bias;
    const void *positions;      // a table that is added to embeddings
    const void *segments;       // a vector that is added to embeddings
    const float *cos, *sin;     // [position, rotary_dim]
    const float *biases;        // of scores, by distance from the last slot on: [head, capacity]
    Norm norm, key_norm;        // of the input; of queries and keys
    const float *source, *add;  // [row, width]
    float *middle, *target;     // middle: [row, out], of a gate and the values that it multiplies
    float *keys, *values;       // [line, key head, capacity, dim]
    int64_t capacity;           // a multiple of LANES
    const int8_t *blocks;       // int8 weights again, in the layout of int8.cpp, for many rows
    const int32_t *block_sums;  // sums of the weights of an output
};

struct Step {
    int32_t rows, num_selected;
    const int32_t *token, *position;  // [row]
    const int32_t *line, *slot;       // [row]: where its keys are stored
    const int32_t *source_line, *source_length;  // [row]: what cross-attention reads
    const int32_t *selected;          // [num_selected]: the rows whose logits are asked for
};

inline int rows_of(const Op &op, const Step &step) {
    return op.which_rows == ALL ? step.rows : step.num_selected;
}

inline int64_t source_row(const Op &op, const Step &step, int row) {
    return op.which_rows == SELECT ? step.selected[row] : row;
}

constexpr int TILE = 64;  // outputs whose weights stay in the cache while rows take turns

// Weights are prefetched: the processor alone does not look past the end of a row.
constexpr int AHEAD = 16384;  // bytes
template <int DISTANCE> inline void ahead(const void *at) {
    __builtin_prefetch((const char *)at + DISTANCE, 0, 2);
}

void normed(const Norm &norm, const float *x, float *y, int64_t width, bool adds = false) {
    double total = 0, squares = 0;
    if (norm.centered)
        for (int64_t i = 0; i < width; i++) total += x[i];
    float mean = float(total / width);
    for (int64_t i = 0; i < width; i++) squares += (x[i] - mean) * (x[i] - mean);
    float size = 1.f / std::sqrt(float(squares / width) + norm.eps);
    for (int64_t i = 0; i < width; i++) {
        float out = (x[i] - mean) * size * norm.scale[i];
        if (norm.shift) out += norm.shift[i];
        y[i] = adds ? y[i] + out : out;
    }
}
