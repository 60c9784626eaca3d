// Generate room, the step on a CPU: linear layers, which are most of it. Their weights are read once,
// in the order in which they lie.

#pragma once

#include "numbers.h"

struct Input {  // the rows that a layer reads, as its kernel wants them
    const float *rows;
    std::vector<float> own;     // where they had to be changed
    std::vector<uint8_t> bytes; // codes of 8 bits, [row, width]
    std::vector<float> scale;   // of those: [row], or four times that of each group
    std::vector<float> sums;    // of a group, [row, group]
    int64_t width;              // of `bytes`, with zeros at its end
};

inline int code(float x) { return int(std::nearbyint(x)); }

void round_rows(Input &x, int rows, int64_t in) {  // 128 + x * 127 / the largest
    x.width = (in + 63) / 64 * 64;
    x.bytes.assign(rows * x.width, 128);
    x.scale.resize(rows);
    for (int r = 0; r < rows; r++) {
        const float *row = x.rows + r * in;
        uint8_t *out = x.bytes.data() + r * x.width;
        float largest = 1e-30f;
        for (int64_t i = 0; i < in; i++) largest = std::max(largest, std::fabs(row[i]));
        for (int64_t i = 0; i < in; i++) out[i] = uint8_t(128 + code(row[i] / largest * 127.f));
        x.scale[r] = largest / 127.f;
    }
}

// Every group is rounded for itself, to signed codes. Two weights share a byte, so each block has
// its even places before its odd ones.
void round_groups(Input &x, int rows, int64_t in) {
    x.width = (in + BLOCK - 1) / BLOCK * BLOCK;
    const int64_t groups = x.width / GROUP;
    x.bytes.assign(rows * x.width, 0);
    x.scale.assign(rows * groups * 4, 0);
    x.sums.assign(rows * groups, 0);
    for (int r = 0; r < rows; r++)
        for (int64_t g = 0; g < in / GROUP; g++) {
            const float *row = x.rows + r * in + g * GROUP;
            float largest = 1e-30f;
            for (int i = 0; i < GROUP; i++) largest = std::max(largest, std::fabs(row[i]));
            int codes[GROUP], sum = 0;
            for (int i = 0; i < GROUP; i++) codes[i] = code(row[i] / largest * 127.f);
            for (int i = 0; i < GROUP; i++) sum += codes[i];
            int8_t *out = (int8_t *)x.bytes.data() + r * x.width + g / 4 * BLOCK + g % 4 * GROUP / 2;
            for (int i = 0; i < GROUP / 2; i++) {
                out[i] = codes[2 * i];
                out[i + BLOCK / 2] = codes[2 * i + 1];
            }
            for (int i = 0; i < 4; i++) x.scale[(r * groups + g) * 4 + i] = largest / 127.f;
            x.sums[r * groups + g] = sum * largest / 127.f;
        }
}

// A kernel computes O outputs of R rows at once: out[r * step + o] for the weights from row `o` on.

template <class Weight> struct Floats {
    static constexpr int SUMS = REGISTERS / 2;
    static void prepare(Input &, int, int64_t) {}
    template <int R, int O>
    static void compute(const Op &op, const Input &x, int r, int64_t o, float *out, int64_t step) {
        const float *rows = x.rows + r * op.in;
        const Weight *weight = (const Weight *)op.weight + o * op.in;
        Vector sums[O * R] = {};
        int64_t i = 0;
        for (; i + LANES <= op.in; i += LANES) {
            Vector part[R];
            UNROLLED for (int b = 0; b < R; b++) part[b] = load(rows + b * op.in + i);
            UNROLLED for (int a = 0; a < O; a++) {
                Vector one = load(weight + a * op.in + i);
                ahead(weight + a * op.in + i);
                UNROLLED for (int b = 0; b < R; b++) sums[a * R + b] += one * part[b];
            }
        }
        float totals[O * R];
        sum_lanes<O * R>(sums, totals);
        for (int a = 0; a < O; a++)
            for (int b = 0; b < R; b++) {
                float total = totals[a * R + b];
                for (int64_t j = i; j < op.in; j++)
                    total += number(weight[a * op.in + j]) * rows[b * op.in + j];
                out[b * step + a] = total;
            }
    }
};

struct Bytes {  // sum of (128 + x) w, less 128 times the sum of w
    static constexpr int SUMS = REGISTERS / 2;
    static void prepare(Input &x, int rows, int64_t in) { round_rows(x, rows, in); }
    template <int R, int O>
    static void compute(const Op &op, const Input &x, int r, int64_t o, float *out, int64_t step) {
        const uint8_t *rows = x.bytes.data() + r * x.width;
        const int8_t *weight = (const int8_t *)op.weight + o * op.in;
        float sums[O * R] = {};
#if HAS_VNNI
        Integers vectors[O * R] = {};
        __m512i weights[O] = {};
        const __m512i ones = _mm512_set1_epi8(1);
        for (int64_t i = 0; i < op.in; i += 64) {
            __mmask64 there = op.in - i >= 64 ? ~0ull : (1ull << (op.in - i)) - 1;
            UNROLLED for (int a = 0; a < O; a++) {
                __m512i one = _mm512_maskz_loadu_epi8(there, weight + a * op.in + i);
                ahead(weight + a * op.in + i);
                weights[a] = _mm512_dpbusd_epi32(weights[a], ones, one);
                UNROLLED for (int b = 0; b < R; b++) {
                    __m512i part = _mm512_loadu_si512(rows + b * x.width + i);
                    __m512i &sum = (__m512i &)vectors[a * R + b];
                    sum = _mm512_dpbusd_epi32(sum, part, one);
                }
            }
        }
        UNROLLED for (int a = 0; a < O; a++)
            UNROLLED for (int b = 0; b < R; b++) vectors[a * R + b] -= (Integers)weights[a] << 7;
        sum_lanes<O * R>(vectors, sums);
#else
        for (int a = 0; a < O; a++)
            for (int b = 0; b < R; b++) {
                int sum = 0;
                for (int64_t i = 0; i < op.in; i++)
                    sum += weight[a * op.in + i] * (rows[b * x.width + i] - 128);
                sums[a * R + b] = sum;
            }
#endif
        for (int a = 0; a < O; a++)
            for (int b = 0; b < R; b++)
                out[b * step + a] = sums[a * R + b] * x.scale[r + b] * op.scale[o + a];
    }
};

struct Nibbles {  // by groups: scale * sum of code x + (zero - 8 scale) * sum of x
    static constexpr int SUMS = REGISTERS / 2;
    static void prepare(Input &x, int rows, int64_t in) { round_groups(x, rows, in); }
    template <int R, int O>
    static void compute(const Op &op, const Input &x, int r, int64_t o, float *out, int64_t step) {
        const int64_t groups = op.in / GROUP, wide = x.width / GROUP, bytes = op.in / 2;
        const uint8_t *weight = (const uint8_t *)op.weight + o * bytes;
        const float *scale = op.scale + o * groups, *zero = op.zero + o * groups;
        const int8_t *rows = (const int8_t *)x.bytes.data() + r * x.width;
        const float *sizes = x.scale.data() + r * wide * 4, *sums = x.sums.data() + r * wide;
        float totals[O * R] = {};
#if HAS_VNNI
        Vector lanes[O * R] = {};
        const __m512i low = _mm512_set1_epi8(15), none = _mm512_setzero_si512();
        const __m512i spread = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
        for (int64_t i = 0; i < op.in; i += BLOCK) {  // 16 sums of eight, four of them a group
            const int64_t left = (op.in - i) / 2;
            const __mmask64 there = left >= 64 ? ~0ull : (1ull << left) - 1;
            const __mmask16 whole = left >= 64 ? 15 : (1 << left / 16) - 1;
            UNROLLED for (int a = 0; a < O; a++) {
                __m512i both = _mm512_maskz_loadu_epi8(there, weight + a * bytes + i / 2);
                ahead(weight + a * bytes + i / 2);
                ahead(scale + a * groups + i / GROUP);
                ahead(zero + a * groups + i / GROUP);
                __m512i even = _mm512_and_si512(both, low);
                __m512i odd = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
                __m512 four = _mm512_maskz_loadu_ps(whole, scale + a * groups + i / GROUP);
                Vector by = _mm512_permutexvar_ps(spread, four);
                __m512 from = _mm512_maskz_loadu_ps(whole, zero + a * groups + i / GROUP);
                Vector rest = from - 8.f * four;
                UNROLLED for (int b = 0; b < R; b++) {
                    const int8_t *part = rows + b * x.width + i;
                    __m512i sum = _mm512_dpbusd_epi32(none, even, _mm512_loadu_si512(part));
                    sum = _mm512_dpbusd_epi32(sum, odd, _mm512_loadu_si512(part + BLOCK / 2));
                    Vector size = load(sizes + b * wide * 4 + i / 8);
                    Vector some = _mm512_maskz_loadu_ps(15, sums + b * wide + i / GROUP);
                    lanes[a * R + b] += by * (_mm512_cvtepi32_ps(sum) * size) + rest * some;
                }
            }
        }
        sum_lanes<O * R>(lanes, totals);
#else
        for (int a = 0; a < O; a++)
            for (int b = 0; b < R; b++)
                for (int64_t g = 0; g < groups; g++) {
                    const uint8_t *pairs = weight + a * bytes + g * GROUP / 2;
                    const int8_t *even = rows + b * x.width + g / 4 * BLOCK + g % 4 * GROUP / 2;
                    int sum = 0;
                    for (int i = 0; i < GROUP / 2; i++)
                        sum += (pairs[i] & 15) * even[i] + (pairs[i] >> 4) * even[i + BLOCK / 2];
                    const float by = scale[a * groups + g], from = zero[a * groups + g];
                    totals[a * R + b] += by * sum * sizes[(b * wide + g) * 4];
                    totals[a * R + b] += (from - 8 * by) * sums[b * wide + g];
                }
#endif
        for (int a = 0; a < O; a++)
            for (int b = 0; b < R; b++) out[b * step + a] = totals[a * R + b];
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

template <class Kernel>
void product(const Op &op, const Input &x, int rows, int64_t begin, int64_t end, float *out) {
    for (int64_t first = begin; first < end; first += TILE) {
        int64_t last = std::min(first + TILE, end);
        for (int r = 0; r < rows; r += 8) switch (std::min(rows - r, 8)) {
            case 1: tile<Kernel, 1>(op, x, r, first, last, out); break;
            case 2: tile<Kernel, 2>(op, x, r, first, last, out); break;
            case 3: tile<Kernel, 3>(op, x, r, first, last, out); break;
            case 4: tile<Kernel, 4>(op, x, r, first, last, out); break;
            case 5: tile<Kernel, 5>(op, x, r, first, last, out); break;
            case 6: tile<Kernel, 6>(op, x, r, first, last, out); break;
            case 7: tile<Kernel, 7>(op, x, r, first, last, out); break;
            case 8: tile<Kernel, 8>(op, x, r, first, last, out); break;
        }
    }
}

// What follows the product: target = add + activation(sum + bias), times the values that it gates.
template <int A> void finish(const Op &op, int rows, int64_t begin, int64_t end) {
    int64_t width = op.gated ? op.out / 2 : op.out;
    for (int r = 0; r < rows; r++) {
        const float *sums = op.middle + r * op.out, *add = op.add ? op.add + r * width : nullptr;
        float *target = op.target + r * width;
        for (int64_t i = begin; i < end; i++) {
            float y = activated<A>(op.bias ? sums[i] + op.bias[i] : sums[i]);
            if (op.gated) y *= op.bias ? sums[i + width] + op.bias[i + width] : sums[i + width];
            if (op.cap) y = op.cap * hyperbolic(y / op.cap);
            target[i] = add ? add[i] + y : y;
        }
    }
}
