// C++ beside Python: attention and GELU on a CPU, forward and backward.

#include "small_gemm.h"

constexpr int QUERIES = 32;  // of a block, whose scores are held

struct Heads {  // [batch, head, position, dim] in any layout but for the last axis
    float *at;
    int64_t batch, head, position;
    Rows of(int64_t b, int64_t h) const { return {at + b * batch + h * head, position}; }
};

struct Attention {
    Heads q, k, v, z;
    Heads grad_q, grad_k, grad_v, grad_z;
    float *sizes;          // [batch, head, query]: the logarithm of the sum of exponentials
    const uint8_t *shown;  // [batch, key]: which keys are seen; null where all are
    const int32_t *runs;   // where texts begin in one long row, [batch + 1]; null where each has a row
    int64_t batch, heads, groups, queries, keys, dim;  // groups: of heads that share keys
    int32_t causal, threads;
    float scale;
};

inline Vector exponential(Vector x) {  // simd.h's, a lane a number
    x = x < -87.f ? Vector{} - 87.f : x;
    Integers n = __builtin_convertvector(x * 1.44269504f - 0.5f, Integers);  // x is not positive
    Vector whole = __builtin_convertvector(n, Vector);
    x = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    Vector p = x * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * x + 8.3334519073e-3f;
    p = p * x + 4.1665795894e-2f;
    p = p * x + 1.6666665459e-1f;
    p = p * x + 5.0000001201e-1f;
    return (p * x * x + x + 1.f) * (Vector)((n + 127) << 23);
}

template <size_t... I> inline Integers numbered(std::index_sequence<I...>) {
    return Integers{int32_t(I)...};
}

// The first `count` lanes, and `other` in the rest.
inline Vector first_lanes(Vector x, int64_t count, float other) {
    const Integers lane = numbered(std::make_index_sequence<LANES>());
    return lane < int32_t(count) ? x : Vector{} + other;
}

inline float largest(Vector x) {
    float most = x[0];
    for (int i = 1; i < LANES; i++) most = std::max(most, x[i]);
    return most;
}

inline float sum(Vector x) {
    float total = 0;
    for (int i = 0; i < LANES; i++) total += x[i];
    return total;
}

inline Matrix plain(Rows x) { return {x.at, x.row, 1}; }

inline int64_t padded(int64_t count) { return (count + PANEL - 1) / PANEL * PANEL; }

// [position, dim] to [dim, position]
Rows turned(Rows x, int64_t positions, int64_t dim, std::vector<float> &room) {
    room.resize(dim * padded(positions));
    Rows out{room.data(), padded(positions)};
    turn(x, positions, dim, out);
    return out;
}

struct Sight {  // of a text: how many keys there are up to the last that is seen, and 0 or -infinity
    int64_t keys;
    std::vector<float> add;  // to a key's scores; nothing where all are seen
    void read(const Attention &a, int64_t b) {
        keys = a.keys;
        add.clear();
        if (!a.shown) return;
        const uint8_t *shown = a.shown + b * a.keys;
        while (keys > 0 && !shown[keys - 1]) keys--;
        if (std::find(shown, shown + keys, 0) == shown + keys) return;
        add.resize(padded(keys));
        for (int64_t i = 0; i < keys; i++) add[i] = shown[i] ? 0.f : -INFINITY;
    }
    // What scores become: those of keys that are not seen are -infinity.
    Vector of(Vector score, int64_t i, int64_t seen) const {
        if (!add.empty()) score += load(add.data() + i);
        return first_lanes(score, seen - i, -INFINITY);
    }
};

inline Vector weight(Vector score, float top) {
    return score == -INFINITY ? Vector{} : exponential(score - top);
}

// A text of a long row as if it had one to itself.
Attention alone(Attention a, int64_t text) {
    const int64_t begin = a.runs[text];
    for (Heads *x : {&a.q, &a.k, &a.v, &a.z}) x->at += begin * x->position;
    a.sizes += begin * a.heads;
    a.queries = a.keys = a.runs[text + 1] - begin;
    return a;
}

struct Block {  // of queries, and the keys that it sees at most
    int64_t first, rows, keys;
    Block(const Attention &a, const Sight &sight, int64_t begin) : first(begin) {
        rows = std::min<int64_t>(QUERIES, a.queries - first);
        keys = a.causal ? std::min(first + rows, sight.keys) : sight.keys;
    }
    int64_t seen(const Attention &a, int64_t row) const {
        return a.causal ? std::min(first + row + 1, keys) : keys;
    }
};

void forward(const Attention &a, int64_t b, int64_t key_head) {
    static thread_local std::vector<float> turned_keys, scores;
    static thread_local Sight sight;
    sight.read(a, b);
    Rows keys = turned(a.k.of(b, key_head), sight.keys, a.dim, turned_keys);
    Rows values = a.v.of(b, key_head);
    scores.resize(QUERIES * keys.row);
    for (int64_t h = key_head * a.groups; h < (key_head + 1) * a.groups; h++)
        for (int64_t first = 0; first < a.queries; first += QUERIES) {
            Block block(a, sight, first);
            const int64_t wide = padded(block.keys);
            Rows s{scores.data(), wide}, z = a.z.of(b, h).from(first, 0);
            Matrix q = plain(a.q.of(b, h).from(first, 0));
            product(block.rows, wide, a.dim, q, keys, s);
            float shares[QUERIES];
            for (int64_t r = 0; r < block.rows; r++) {
                float *row = s.at + r * s.row;
                const int64_t seen = block.seen(a, r);
                Vector most = Vector{} - INFINITY, all{};
                for (int64_t i = 0; i < wide; i += LANES) {
                    Vector score = sight.of(load(row + i) * a.scale, i, seen);
                    most = score > most ? score : most;
                    store(row + i, score);
                }
                const float top = largest(most);
                for (int64_t i = 0; i < wide; i += LANES) {
                    Vector one = weight(load(row + i), top);
                    all += one;
                    store(row + i, one);
                }
                const float total = sum(all);
                shares[r] = total > 0 ? 1.f / total : 0.f;
                a.sizes[(b * a.heads + h) * a.queries + first + r] = top + std::log(total);
            }
            product(block.rows, a.dim, block.keys, plain(s), values, z);
            for (int64_t r = 0; r < block.rows; r++)
                for (int64_t d = 0; d < a.dim; d++) z.at[r * z.row + d] *= shares[r];
        }
}

void backward(const Attention &a, int64_t b, int64_t key_head) {
    static thread_local std::vector<float> turned_keys, turned_values, weights, changes;
    static thread_local Sight sight;
    sight.read(a, b);
    Rows k = a.k.of(b, key_head), v = a.v.of(b, key_head);
    Rows keys = turned(k, sight.keys, a.dim, turned_keys);
    Rows values = turned(v, sight.keys, a.dim, turned_values);
    Rows grad_k = a.grad_k.of(b, key_head), grad_v = a.grad_v.of(b, key_head);
    for (int64_t i = 0; i < a.keys; i++) {
        std::fill_n(grad_k.at + i * grad_k.row, a.dim, 0.f);
        std::fill_n(grad_v.at + i * grad_v.row, a.dim, 0.f);
    }
    weights.resize(QUERIES * keys.row);
    changes.resize(QUERIES * keys.row);
    for (int64_t h = key_head * a.groups; h < (key_head + 1) * a.groups; h++)
        for (int64_t first = 0; first < a.queries; first += QUERIES) {
            Block block(a, sight, first);
            const int64_t wide = padded(block.keys);
            Rows p{weights.data(), wide}, s{changes.data(), wide};
            Rows q = a.q.of(b, h).from(first, 0), z = a.z.of(b, h).from(first, 0);
            Rows grad_z = a.grad_z.of(b, h).from(first, 0);
            product(block.rows, wide, a.dim, plain(q), keys, p);
            product(block.rows, wide, a.dim, plain(grad_z), values, s);
            for (int64_t r = 0; r < block.rows; r++) {
                float *share = p.at + r * p.row, *change = s.at + r * s.row, mean = 0;
                const float size = a.sizes[(b * a.heads + h) * a.queries + first + r];
                const int64_t seen = block.seen(a, r);
                for (int64_t d = 0; d < a.dim; d++)
                    mean += z.at[r * z.row + d] * grad_z.at[r * grad_z.row + d];
                for (int64_t i = 0; i < wide; i += LANES) {
                    Vector w = weight(sight.of(load(share + i) * a.scale, i, seen), size);
                    store(share + i, w);
                    store(change + i, w * (load(change + i) - mean) * a.scale);
                }
            }
            Rows grad_q = a.grad_q.of(b, h).from(first, 0);
            product(block.rows, a.dim, block.keys, plain(s), k, grad_q);
            product(block.keys, a.dim, block.rows, plain(s).turned(), q, grad_k, true);
            product(block.keys, a.dim, block.rows, plain(p).turned(), grad_z, grad_v, true);
        }
}

// --- activations ---------------------------------------------------------------------------------

template <int A> inline float slope(float x) {  // of `activated`
    if constexpr (A == GELU)
        return 0.5f * (1.f + error_function(x * 0.70710678f)) +
               x * 0.39894228f * exponential(-0.5f * x * x);
    if constexpr (A == GELU_TANH) {
        float t = hyperbolic(0.79788456f * (x + 0.044715f * x * x * x));
        return 0.5f * (1.f + t) + 0.5f * x * (1.f - t * t) * 0.79788456f * (1.f + 0.134145f * x * x);
    }
}

template <int A>
void activate(const float *x, const float *grad, float *y, int64_t count, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t first = 0; first < count; first += 4096) {
        const int64_t end = std::min(first + 4096, count);
        if (grad)
            for (int64_t i = first; i < end; i++) y[i] = grad[i] * slope<A>(x[i]);
        else
            for (int64_t i = first; i < end; i++) y[i] = activated<A>(x[i]);
    }
}

extern "C" {
int64_t size() { return sizeof(Attention); }  // cpu.py's must be the same

void attention(const Attention *a, int back) {
    const int64_t key_heads = a->heads / a->groups;
#pragma omp parallel for schedule(dynamic) num_threads(a->threads)
    for (int64_t i = 0; i < a->batch * key_heads; i++)
        if (a->runs) forward(alone(*a, i / key_heads), 0, i % key_heads);
        else if (back) backward(*a, i / key_heads, i % key_heads);
        else forward(*a, i / key_heads, i % key_heads);
}

// y = f(x), or with a gradient of it that times f's slope
void activation(int kind, const float *x, const float *grad, float *y, int64_t n, int threads) {
    if (kind == GELU) activate<GELU>(x, grad, y, n, threads);
    if (kind == GELU_TANH) activate<GELU_TANH>(x, grad, y, n, threads);
}
}
