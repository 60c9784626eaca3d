// Linear layers, which take most of a step. Their weights are read once, in their order in memory.

#pragma once

#include "../../../weights/int4.h"
#include "ops.h"

struct Input {  // the rows that a layer reads, as its kernel wants them
    const float *rows;
    std::vector<float> own;     // where they had to be changed
    std::vector<uint8_t> bytes; // codes of 8 bits with bytes.h's offset, [row, width]
    std::vector<float> scale;   // of those, [row]
    int64_t width;              // of `bytes`, with codes of zero at its end
    std::vector<nibbles::Rounded> groups;  // [row, group]
};

void round_rows(Input &x, int rows, int64_t in) {
    x.width = (in + 63) / 64 * 64;
    x.bytes.assign(rows * x.width, bytes::OFFSET);
    x.scale.resize(rows);
    for (int r = 0; r < rows; r++) {
        uint8_t *codes = x.bytes.data() + r * x.width;
        x.scale[r] = bytes::rounded<bytes::OFFSET>(x.rows + r * in, in, codes);
    }
}

// A kernel computes O outputs of R rows at once: out[r * step + o] for the weights from row `o` on.

template <class Weight> struct Floats {
    static constexpr int SUMS = REGISTERS / 2;
    static void prepare(Input &, int, int64_t) {}
    template <int R, int O>
    static void compute(const Op &op, const Input &x, int r, int64_t o, float *out, int64_t step) {
        dots<R, O, AHEAD>((const Weight *)op.weight + o * op.in, x.rows + r * op.in, op.in, out, step);
    }
    template <int R, int O, int DISTANCE>
    static void dots(const Weight *weight, const float *rows, int64_t in, float *out, int64_t step) {
        Vector sums[O * R] = {};
        int64_t i = 0;
        for (; i + LANES <= in; i += LANES) {
            Vector part[R];
            UNROLLED for (int b = 0; b < R; b++) part[b] = load(rows + b * in + i);
            UNROLLED for (int a = 0; a < O; a++) {
                Vector one = load(weight + a * in + i);
                ahead<DISTANCE>(weight + a * in + i);
                UNROLLED for (int b = 0; b < R; b++) sums[a * R + b] += one * part[b];
            }
        }
        float totals[O * R];
        sum_lanes<O * R>(sums, totals);
        for (int a = 0; a < O; a++)
            for (int b = 0; b < R; b++) {
                float total = totals[a * R + b];
                for (int64_t j = i; j < in; j++)
                    total += number(weight[a * in + j]) * rows[b * in + j];
                out[b * step + a] = total;
            }
    }
};

#pragma GCC push_options
#pragma GCC optimize("no-associative-math")  // the same order for any number of rows

template <int R>
void scaled(const float *sums, const float *rows, const float *outputs, int64_t count, float *out,
            int64_t step) {
    for (int b = 0; b < R; b++)
        for (int64_t a = 0; a < count; a++)
            out[b * step + a] = sums[a * R + b] * (rows[b] * outputs[a]);
}

#pragma GCC pop_options

struct Bytes {  // sum of (OFFSET + x) w, less OFFSET times the sum of w
    static constexpr int SUMS = REGISTERS / 2;
    static void prepare(Input &x, int rows, int64_t in) { round_rows(x, rows, in); }
    template <int R, int O>
    static void compute(const Op &op, const Input &x, int r, int64_t o, float *out, int64_t step) {
        using namespace bytes;
        const uint8_t *rows = x.bytes.data() + r * x.width;
        const int8_t *weight = (const int8_t *)op.weight + o * op.in;
        bytes::Integers vectors[O * R] = {}, offsets[O] = {};
        const Signed ones = Signed{} + 1;
        for (int64_t i = 0; i < op.in; i += SIZE) {
            UNROLLED for (int a = 0; a < O; a++) {
                const Signed one = bytes::load(weight + a * op.in + i, op.in - i);
                ahead<AHEAD>(weight + a * op.in + i);
                if (OFFSET) offsets[a] = add_products(offsets[a], ones, one);
                UNROLLED for (int b = 0; b < R; b++) {
                    const Signed part = bytes::load(rows + b * x.width + i);
                    vectors[a * R + b] = add_products(vectors[a * R + b], part, one);
                }
            }
        }
        UNROLLED for (int a = 0; a < O; a++)
            UNROLLED for (int b = 0; b < R; b++) vectors[a * R + b] -= offsets[a] * OFFSET;
        float sums[O * R];
        sum_lanes<O * R>(vectors, sums);
        scaled<R>(sums, x.scale.data() + r, op.scale + o, O, out, step);
    }
};

template <class Kernel, int R>
void tile(const Op &op, const Input &x, int r, int64_t begin, int64_t end, float *out) {
    constexpr int FIT = Kernel::SUMS / R, O = FIT < 1 ? 1 : FIT > 4 ? 4 : FIT;
    int64_t o = begin;
    for (; o + O <= end; o += O)
        Kernel::template compute<R, O>(op, x, r, o, out + r * op.out + o, op.out);
    for (; o < end; o++)
        Kernel::template compute<R, 1>(op, x, r, o, out + r * op.out + o, op.out);
}

constexpr int MANY = 9;  // rows, for which a vector holds outputs instead of a part of one

template <int R>
void tile_of_blocks(const Op &op, const Input &x, int r, int64_t begin, int64_t end, float *out) {
    using namespace bytes;
    constexpr int COLUMNS = 64, V = bytes::LANES / 4, UNIT = V * bytes::LANES;
    const int64_t wide = (op.in + 3) / 4 * 4;
    for (int64_t first = begin / UNIT * UNIT; first < end; first += UNIT) {
        bytes::Integers sums[R][V] = {};
        const int8_t *codes = op.blocks + first / COLUMNS * COLUMNS * wide + first % COLUMNS * 4;
        const uint8_t *rows = x.bytes.data() + r * x.width;
        for (int64_t i = 0; i < wide; i += 4, codes += 4 * COLUMNS) {
            Signed weights[V];
            UNROLLED for (int v = 0; v < V; v++) weights[v] = bytes::load(codes + SIZE * v);
            UNROLLED for (int b = 0; b < R; b++) {
                const Signed values = four(rows + b * x.width + i);
                UNROLLED for (int v = 0; v < V; v++)
                    sums[b][v] = add_products(sums[b][v], values, weights[v]);
            }
        }
        float totals[UNIT * R];
        UNROLLED for (int b = 0; b < R; b++) {
            int32_t whole[UNIT];
            UNROLLED for (int v = 0; v < V; v++)
                std::memcpy(whole + v * bytes::LANES, &sums[b][v], SIZE);
            for (int o = 0; o < UNIT; o++)
                totals[o * R + b] = whole[o] - OFFSET * op.block_sums[first + o];
        }
        const int64_t from = std::max(begin, first), to = std::min(end, first + UNIT);
        scaled<R>(totals + (from - first) * R, x.scale.data() + r, op.scale + from, to - from,
                  out + r * op.out + from, op.out);
    }
}

struct Nibbles {  // whose weights lie otherwise
    static void prepare(Input &x, int rows, int64_t in) {
        const int64_t groups = in / nibbles::GROUP;
        x.groups.resize(rows * groups);
        for (int r = 0; r < rows; r++)
            nibbles::round_row(x.rows + r * in, groups, x.groups.data() + r * groups);
    }
};
template <int R>
void tile_of_nibbles(const Op &op, const Input &x, int r, int64_t begin, int64_t end, float *out) {
    const int64_t groups = op.in / nibbles::GROUP;
    const auto *weight = (const nibbles::Portion *)op.weight;
    const auto *rows = x.groups.data() + r * groups;
    nibbles::tile<R>(weight, rows, groups, begin, end, out + r * op.out, op.out);
}

template <class Kernel>
void product(const Op &op, const Input &x, int rows, int64_t begin, int64_t end, float *out) {
    for (int64_t first = begin; first < end; first += TILE) {
        int64_t last = std::min(first + TILE, end);
        if (std::is_same_v<Kernel, Bytes> && op.blocks && rows >= MANY) {
            for (int r = 0; r < rows; r += 6) switch (std::min(rows - r, 6)) {
                case 1: tile_of_blocks<1>(op, x, r, first, last, out); break;
                case 2: tile_of_blocks<2>(op, x, r, first, last, out); break;
                case 3: tile_of_blocks<3>(op, x, r, first, last, out); break;
                case 4: tile_of_blocks<4>(op, x, r, first, last, out); break;
                case 5: tile_of_blocks<5>(op, x, r, first, last, out); break;
                case 6: tile_of_blocks<6>(op, x, r, first, last, out); break;
            }
            continue;
        }
        nibbles::some_rows(rows, [&](auto count, int r) {
            if constexpr (std::is_same_v<Kernel, Nibbles>)
                tile_of_nibbles<count>(op, x, r, first, last, out);
            else tile<Kernel, count>(op, x, r, first, last, out);
        });
    }
}

// What follows the product: target = add + activation(sum + bias), times the values that it gates. A
// loop does one thing, so that it becomes vectors.
template <int A> void finish(const Op &op, int rows, int64_t begin, int64_t end) {
    const int64_t width = op.gated ? op.out / 2 : op.out, count = end - begin;
    for (int r = 0; r < rows; r++) {
        float *y = op.middle + r * op.out + begin, *gated = y + width;
        const float *bias = op.bias + begin, *add = op.add + r * width + begin;
        float *target = op.target + r * width + begin;
        const float cap = op.cap;
        if (op.bias)
            for (int64_t i = 0; i < count; i++) y[i] += bias[i];
        if (op.bias && op.gated)
            for (int64_t i = 0; i < count; i++) gated[i] += bias[i + width];
        if (A != NONE)
            for (int64_t i = 0; i < count; i++) y[i] = activated<A>(y[i]);
        if (op.gated)
            for (int64_t i = 0; i < count; i++) y[i] *= gated[i];
        if (cap)
            for (int64_t i = 0; i < count; i++) y[i] = cap * hyperbolic(y[i] / cap);
        if (op.add)
            for (int64_t i = 0; i < count; i++) target[i] = add[i] + y[i];
        else if (target != y) std::copy(y, y + count, target);
    }
}
