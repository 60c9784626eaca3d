// Generate room, the step on a CPU: what an operation is. tape.py's classes of the same names have the
// same fields.

#pragma once

#include "../native/simd.h"

enum Kind { EMBED, NORM, LINEAR, TURN, ATTEND };
enum Form { FLOAT, BFLOAT, INT8, INT4 };

struct Norm {
    const float *scale, *shift;  // without a scale there is no norm
    float eps;
    int32_t centered;
};

struct Op {
    int32_t kind, form, activation, gated, last;  // last: only the rows that are asked for
    int32_t heads, key_heads, dim, turned, paired, left;
    float factor, cap;          // on embeddings and on scores; what tanh limits results to
    int64_t in, out;            // of a linear layer; otherwise `in` is the width
    const void *weight;         // [out, in], portions of nibbles, or a table of embeddings
    const float *scale;         // of codes of 8 bits: [out]
    const float *bias;
    const void *positions;      // a table, added to embeddings
    const float *cos, *sin;     // [position, turned]
    const float *slopes;        // of ALiBi, a head
    Norm norm, key_norm;        // of what is read; of queries and keys
    const float *source, *add;  // [row, width]
    float *middle, *target;     // middle: [row, out], where a gate and its values meet
    float *keys, *values;       // [line, key head, capacity, dim]
    int64_t capacity;           // a multiple of LANES
    const int8_t *blocks;       // codes of 8 bits once more, as int8.cpp reads them, for many rows
    const int32_t *block_sums;  // of the codes of an output
};

struct Step {
    int32_t rows, asked;
    const int32_t *token, *line, *slot;  // [row]: where its key goes; it sees those before it
    const int32_t *which;                // [asked]: the rows that logits are asked of
};

constexpr int TILE = 64;  // outputs whose weights stay near while rows take turns

// Weights are asked for before their turn; the processor alone does not look past a row's end.
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
