// Generate room, the step on a CPU: one token a row through a decoder, as a list of operations.
//
// At a token a row, reading the weights is all the work, so what counts is that they are read once,
// in the order in which they lie, and that nothing waits in between. `tape.py` writes the list;
// `play` walks through it with all threads, which meet after every operation. A norm, and the
// rounding of what a layer of codes reads, every thread computes for itself: that takes less time
// than meeting once more. Compiled at first use (`build.py`), so vectors are as wide as the
// machine's.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include <omp.h>

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#include <immintrin.h>
#define HAS_VNNI 1
#endif

inline void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

#if defined(__AVX512F__)
constexpr int LANES = 16, REGISTERS = 32;
#elif defined(__AVX__)
constexpr int LANES = 8, REGISTERS = 16;
#else
constexpr int LANES = 4, REGISTERS = 32;
#endif

// --- what tape.py writes: its classes of the same names have the same fields -------------------

enum Kind { EMBED, NORM, LINEAR, TURN, ATTEND };
enum Form { FLOAT, BFLOAT, INT8, INT4 };
enum Activation { NONE, RELU, RELU2, GELU, GELU_TANH, GELU_SIGMOID, SILU, TANH, SIGMOID };

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
    const void *weight;         // [out, in], or a table of embeddings
    const float *scale, *zero;  // of codes: [out] or [out, in / GROUP]
    const float *bias;
    const void *positions;      // a table, added to embeddings
    const float *cos, *sin;     // [position, turned]
    const float *slopes;        // of ALiBi, a head
    Norm norm, key_norm;        // of what is read; of queries and keys
    const float *source, *add;  // [row, width]
    float *middle, *target;     // middle: [row, out], where a gate and its values meet
    float *keys, *values;       // [line, key head, capacity, dim]
    int64_t capacity;
};

struct Step {
    int32_t rows, asked;
    const int32_t *token, *line, *slot;  // [row]: where its key goes; it sees those before it
    const int32_t *which;                // [asked]: the rows that logits are asked of
};

constexpr int GROUP = 32;   // codes of 4 bits that share a scale
constexpr int BLOCK = 128;  // of them that are read at once
constexpr int TILE = 64;    // outputs whose weights stay near while rows take turns

#define UNROLLED _Pragma("GCC unroll 16")  // so that sums stay in registers

// Weights are asked for before their turn; the processor alone does not look past a row's end.
constexpr int AHEAD = 16384;  // bytes
inline void ahead(const void *at) { __builtin_prefetch((const char *)at + AHEAD, 0, 2); }

// --- numbers -----------------------------------------------------------------------------------

typedef float Vector __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t Integers __attribute__((vector_size(LANES * 4)));
typedef uint32_t Bits __attribute__((vector_size(LANES * 4)));
typedef uint16_t Halves __attribute__((vector_size(LANES * 2), aligned(2), may_alias));

inline Vector load(const float *at) { return *(const Vector *)at; }
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
    return __builtin_shufflevector(a, b, (I & W ? LANES + (I ^ W) : I)...) +
           __builtin_shufflevector(a, b, (I & W ? LANES + I : I ^ W)...);
}
template <size_t W, int N, class V> inline V sum_round(V *x) {
    if constexpr (N == 1) return x[0];
    else {
        V half[N / 2];
        UNROLLED for (int i = 0; i < N / 2; i++)
            half[i] = folded<W>(x[2 * i], x[2 * i + 1], std::make_index_sequence<LANES>());
        return sum_round<2 * W, N / 2>(half);
    }
}
template <int N, class V> inline void sum_lanes(const V *x, float *out) {
    for (int first = 0; first < N; first += LANES) {
        V some[LANES] = {};
        for (int i = 0; i < LANES && first + i < N; i++) some[i] = x[first + i];
        V sums = sum_round<1, LANES>(some);
        for (int i = 0; i < LANES && first + i < N; i++) out[first + i] = sums[i];
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

// --- linear layers -----------------------------------------------------------------------------

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
                    __m512i part = _mm512_loadu_si512(rows + b * x.width + i), &sum = (__m512i &)vectors[a * R + b];
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
                UNROLLED for (int b = 0; b < R; b++) {
                    const int8_t *part = rows + b * x.width + i;
                    __m512i sum = _mm512_dpbusd_epi32(none, even, _mm512_loadu_si512(part));
                    sum = _mm512_dpbusd_epi32(sum, odd, _mm512_loadu_si512(part + BLOCK / 2));
                    Vector size = load(sizes + b * wide * 4 + i / 8);
                    lanes[a * R + b] += by * (_mm512_cvtepi32_ps(sum) * size);
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
                    totals[a * R + b] += scale[a * groups + g] * sum * sizes[(b * wide + g) * 4];
                }
#endif
        for (int a = 0; a < O; a++)
            for (int b = 0; b < R; b++) {
                float rest = 0;
                for (int64_t g = 0; g < groups; g++)
                    rest += (zero[a * groups + g] - 8 * scale[a * groups + g]) * sums[b * wide + g];
                out[b * step + a] = totals[a * R + b] + rest;
            }
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

template <class Kernel> struct Layer {
    static void read(const Op &op, const Step &step, Input &x) {
        int rows = op.last ? step.asked : step.rows;
        x.rows = op.source;
        if (op.norm.scale || op.last) {
            x.own.resize(rows * op.in);
            for (int r = 0; r < rows; r++) {
                const float *row = op.source + (op.last ? step.which[r] : r) * op.in;
                if (op.norm.scale) normed(op.norm, row, x.own.data() + r * op.in, op.in);
                else std::copy(row, row + op.in, x.own.data() + r * op.in);
            }
            x.rows = x.own.data();
        }
        Kernel::prepare(x, rows, op.in);
    }
    static void compute(const Op &op, const Step &step, const Input &x, int64_t begin, int64_t end) {
        int rows = op.last ? step.asked : step.rows;
        product<Kernel>(op, x, rows, begin, end, op.middle);
        if (op.gated) {
            int64_t width = op.out / 2;
            product<Kernel>(op, x, rows, begin + width, end + width, op.middle);
        }
        switch (op.activation) {
            case NONE: return finish<NONE>(op, rows, begin, end);
            case RELU: return finish<RELU>(op, rows, begin, end);
            case RELU2: return finish<RELU2>(op, rows, begin, end);
            case GELU: return finish<GELU>(op, rows, begin, end);
            case GELU_TANH: return finish<GELU_TANH>(op, rows, begin, end);
            case GELU_SIGMOID: return finish<GELU_SIGMOID>(op, rows, begin, end);
            case SILU: return finish<SILU>(op, rows, begin, end);
            case TANH: return finish<TANH>(op, rows, begin, end);
            case SIGMOID: return finish<SIGMOID>(op, rows, begin, end);
        }
    }
};

// --- the other operations, of one row or one head of a row ---------------------------------------

template <class Weight> void embed(const Op &op, const Step &step, int row) {
    const Weight *token = (const Weight *)op.weight + step.token[row] * op.in;
    const Weight *place = (const Weight *)op.positions + step.slot[row] * op.in;
    for (int64_t i = 0; i < op.in; i++) {
        float x = number(token[i]) * op.factor;
        op.target[row * op.in + i] = op.positions ? x + number(place[i]) : x;
    }
}

// Queries and keys are normed and turned by their position; keys and values go to their line.
void turn(const Op &op, const Step &step, int row) {
    const int dim = op.dim, half = op.turned / 2;
    const float *cos = op.cos + int64_t(step.slot[row]) * op.turned;
    const float *sin = op.sin + int64_t(step.slot[row]) * op.turned;
    for (int head = 0; head < op.heads + op.key_heads; head++) {
        float *x = (float *)op.source + row * op.in + head * dim;
        if (op.norm.scale) normed(head < op.heads ? op.norm : op.key_norm, x, x, dim);
        for (int i = 0; i < half; i++) {
            int a = op.paired ? 2 * i : i, b = op.paired ? a + 1 : i + half;
            float first = x[a], second = x[b];
            x[a] = first * cos[a] - second * sin[a];
            x[b] = second * cos[b] + first * sin[b];
        }
    }
    for (int head = 0; head < op.key_heads; head++) {
        const float *key = op.source + row * op.in + (op.heads + head) * dim;
        const float *value = key + op.key_heads * dim;
        int64_t at = (int64_t(step.line[row]) * op.key_heads + head) * op.capacity + step.slot[row];
        std::copy(key, key + dim, op.keys + at * dim);
        std::copy(value, value + dim, op.values + at * dim);
    }
}

void attend(const Op &op, const Step &step, int row, int head) {
    static thread_local std::vector<float> scores;
    const int dim = op.dim, slot = step.slot[row], first = std::max(0, slot - op.left);
    const int key_head = head / (op.heads / op.key_heads), count = slot - first + 1;
    const int64_t line = int64_t(step.line[row]) * op.key_heads + key_head;
    const float *keys = op.keys + (line * op.capacity + first) * dim;
    const float *values = op.values + (line * op.capacity + first) * dim;
    const float *query = op.source + row * op.in + head * dim;
    float *out = op.target + (int64_t(row) * op.heads + head) * dim;
    scores.resize(count);
    float top = -INFINITY, total = 0;
    for (int i = 0; i < count; i++) {
        float score = 0;
        for (int d = 0; d < dim; d++) score += query[d] * keys[int64_t(i) * dim + d];
        score *= op.factor;
        if (op.cap) score = op.cap * hyperbolic(score / op.cap);
        if (op.slopes) score -= op.slopes[head] * (count - 1 - i);
        scores[i] = score;
        top = std::max(top, score);
    }
    for (int i = 0; i < count; i++) total += scores[i] = exponential(scores[i] - top);
    std::fill(out, out + dim, 0.f);
    for (int i = 0; i < count; i++)
        for (int d = 0; d < dim; d++) out[d] += scores[i] / total * values[int64_t(i) * dim + d];
}

// --- playing -----------------------------------------------------------------------------------

// Every thread has a share of an operation's pieces; who is done with it takes pieces of the others'
// shares, and goes on when all are done. So nobody waits for a thread that the system has put aside,
// unless it holds a piece.
struct alignas(64) Counter {
    std::atomic<int> count{0};
};

struct Player {
    const Op *ops;
    int count, threads;
    const Step &step;
    std::vector<Counter> taken, done;  // [operation, thread], [operation]

    template <class Work> void share(int i, int pieces, int thread, Work work) {
        for (int other = 0; other < threads; other++) {
            int owner = (thread + other) % threads, end = pieces * (owner + 1) / threads;
            int begin = pieces * owner / threads, finished = 0;
            std::atomic<int> &next = taken[i * threads + owner].count;
            while (begin + next < end) {
                int piece = begin + next++;
                if (piece >= end) break;
                work(piece);
                finished++;
            }
            if (finished) done[i].count += finished;
        }
        fetch(i + 1, thread);
        for (int spins = 0; done[i].count < pieces; spins++)
            if (spins > 10000) std::this_thread::yield();
            else pause();
    }

    static int64_t width(const Op &op) { return op.gated ? op.out / 2 : op.out; }
    int64_t size(const Op &op) const {  // of a piece, in outputs
        return std::min<int64_t>(std::max<int64_t>(width(op) / (threads * 8) / 16 * 16, 16), 512);
    }
    int pieces(const Op &op) const { return (width(op) + size(op) - 1) / size(op); }

    // Where the next layer begins to read, for the time of waiting.
    void fetch(int i, int thread) const {
        while (i < count && ops[i].kind != LINEAR) i++;
        if (i == count) return;
        const Op &op = ops[i];
        const int64_t bits[] = {32, 16, 8, 4}, row = op.in * bits[op.form] / 8;
        const char *at = (const char *)op.weight + pieces(op) * thread / threads * size(op) * row;
        for (int64_t line = 0; line < AHEAD; line += 64) __builtin_prefetch(at + line, 0, 2);
    }

    template <class Kernel> void linear(int i, int thread) {
        static thread_local Input x;
        const Op &op = ops[i];
        bool ready = false;
        share(i, pieces(op), thread, [&](int piece) {
            if (!ready) Layer<Kernel>::read(op, step, x);
            ready = true;
            int64_t begin = piece * size(op);
            Layer<Kernel>::compute(op, step, x, begin, std::min(begin + size(op), width(op)));
        });
    }

    void play(int thread) {
        for (int i = 0; i < count; i++) {
            const Op &op = ops[i];
            if (op.kind == LINEAR && op.form == FLOAT) linear<Floats<float>>(i, thread);
            if (op.kind == LINEAR && op.form == BFLOAT) linear<Floats<uint16_t>>(i, thread);
            if (op.kind == LINEAR && op.form == INT8) linear<Bytes>(i, thread);
            if (op.kind == LINEAR && op.form == INT4) linear<Nibbles>(i, thread);
            if (op.kind == LINEAR) continue;
            share(i, step.rows * (op.kind == ATTEND ? op.heads : 1), thread, [&](int piece) {
                if (op.kind == EMBED && op.form == FLOAT) embed<float>(op, step, piece);
                if (op.kind == EMBED && op.form == BFLOAT) embed<uint16_t>(op, step, piece);
                if (op.kind == NORM) {
                    float *target = op.target + piece * op.in;
                    normed(op.norm, op.source + piece * op.in, target, op.in, op.add);
                }
                if (op.kind == TURN) turn(op, step, piece);
                if (op.kind == ATTEND) attend(op, step, piece / op.heads, piece % op.heads);
            });
        }
    }
};

extern "C" {
int64_t sizes() { return sizeof(Op) * 1000 + sizeof(Step); }  // tape.py's must be the same

void play(const Op *ops, int count, const Step *step, int threads) {
    std::vector<Counter> taken(count * threads), done(count);
    Player player{ops, count, threads, *step, std::move(taken), std::move(done)};
#pragma omp parallel num_threads(threads)
    player.play(omp_get_thread_num());
}
}
