// Word vectors, the fast steps. windows.py says what is drawn, steps.py what is computed; this file
// does the same, one window after another. Several threads may be at the same tables without locks
// (Hogwild): rows seldom meet, and a lost update is one of many.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

typedef float Lanes __attribute__((vector_size(32), aligned(4)));
constexpr int LANES = 8;  // rows are padded to a multiple, with zeros that stay zeros
constexpr int BLOCK = 6;  // outputs whose sums fit in registers

static inline Lanes load(const float* at) { return *reinterpret_cast<const Lanes*>(at); }
static inline void store(float* at, Lanes value) { *reinterpret_cast<Lanes*>(at) = value; }
static inline void add(float* at, Lanes value) { store(at, load(at) + value); }
static inline float sum(Lanes v) {
    return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
}

// SplitMix64 at any place of its sequence: a draw depends on the key and its number alone.
static inline uint64_t draw(uint64_t key, uint64_t number) {
    uint64_t z = key + (number + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}
static inline int64_t below(uint64_t bits, int64_t limit) {
    return static_cast<int64_t>(((bits >> 32) * static_cast<uint64_t>(limit)) >> 32);
}

// 1 / (1 + e^-x), within 2e-7; e^x is 2^n times a polynomial, so that the compiler can make lanes.
static inline float sigmoid(float x) {
    x = std::min(std::max(x, -30.0f), 30.0f);
    float t = -x * 1.44269504f;
    int32_t n = static_cast<int32_t>(t + (t < 0 ? -0.5f : 0.5f));
    float r = (t - static_cast<float>(n)) * 0.69314718f;
    float p = 1.0f + r * (1.0f + r * (0.5f + r * (0.16666667f + r * (0.041666668f
            + r * (0.0083333338f + r * 0.0013888889f)))));
    int32_t bits = (n + 127) << 23;
    float scale;
    std::memcpy(&scale, &bits, 4);
    return 1.0f / (1.0f + p * scale);
}

// scores[n][k] = inputs[n] . outputs[k], for K outputs from the first on
template <int K>
static void dots(const float* const* inputs, int count, const float* const* outputs, int width,
                 float* scores, int stride) {
    for (int n = 0; n < count; n++) {
        Lanes total[K] = {};
        for (int d = 0; d < width; d += LANES) {
            Lanes x = load(inputs[n] + d);
            for (int k = 0; k < K; k++) total[k] += x * load(outputs[k] + d);
        }
        for (int k = 0; k < K; k++) scores[n * stride + k] = sum(total[k]);
    }
}

// changes[n] += pull[n][k] seen[k], then outputs[k] += pull[n][k] inputs[n]
template <int K>
static void pulls(const float* const* inputs, int count, const float* const* seen,
                  float* const* outputs, int width, const float* pull, int stride,
                  float* changes) {
    for (int d = 0; d < width; d += LANES) {
        Lanes before[K], change[K] = {};
        for (int k = 0; k < K; k++) before[k] = load(seen[k] + d);
        for (int n = 0; n < count; n++) {
            Lanes x = load(inputs[n] + d), back = load(changes + n * width + d);
            for (int k = 0; k < K; k++) {
                float g = pull[n * stride + k];
                back += g * before[k];
                change[k] += g * x;
            }
            store(changes + n * width + d, back);
        }
        for (int k = 0; k < K; k++) add(outputs[k] + d, change[k]);  // an output may come twice
    }
}

template <int K, class... Rest>
static void dots_of(int size, Rest... rest) {
    if (size >= K) return dots<K>(rest...);
    if constexpr (K > 1) dots_of<K - 1>(size, rest...);
}
template <int K, class... Rest>
static void pulls_of(int size, Rest... rest) {
    if (size >= K) return pulls<K>(rest...);
    if constexpr (K > 1) pulls_of<K - 1>(size, rest...);
}

// Room for one window, used again and again.
struct Desk {
    std::vector<float*> context, outputs;
    std::vector<const float*> inputs;  // the context, or its mean alone
    std::vector<const float*> seen;    // the outputs as they were
    std::vector<float> scores, changes, mean, copies;
};

// Every input predicts the first output and none of the others, all at once from what they were.
static void meet(Desk& desk, int width, float rate) {
    int count = desk.inputs.size(), size = desk.outputs.size();
    desk.scores.resize(count * size);
    desk.changes.assign(count * width, 0.0f);
    float* scores = desk.scores.data();
    for (int k = 0; k < size; k += BLOCK)
        dots_of<BLOCK>(size - k, desk.inputs.data(), count, desk.outputs.data() + k, width,
                       scores + k, size);
    for (int i = 0; i < count * size; i++) scores[i] = -rate * sigmoid(scores[i]);
    for (int n = 0; n < count; n++) scores[n * size] += rate;
    desk.seen.assign(desk.outputs.begin(), desk.outputs.end());
    if (size > BLOCK) {  // one that was drawn twice may be in two blocks
        desk.copies.resize(size * width);
        for (int k = 0; k < size; k++) {
            float* copy = desk.copies.data() + k * width;
            std::copy(desk.outputs[k], desk.outputs[k] + width, copy);
            desk.seen[k] = copy;
        }
    }
    for (int k = 0; k < size; k += BLOCK)
        pulls_of<BLOCK>(size - k, desk.inputs.data(), count, desk.seen.data() + k,
                        desk.outputs.data() + k, width, scores + k, size, desk.changes.data());
}

static void average(Desk& desk, int width) {
    const float share = 1.0f / desk.context.size();
    for (int d = 0; d < width; d += LANES) {
        Lanes total = {};
        for (const float* row : desk.context) total += load(row + d);
        store(desk.mean.data() + d, total * share);
    }
    desk.inputs.assign(1, desk.mean.data());
}

struct Words {
    const int32_t* ids;       // the text
    const int64_t* bounds;    // of its sentences
    const float* keep;        // how probably a word is kept
    const uint32_t* threshold;  // of the alias table of negatives
    const int32_t* alias;
    float *inputs, *outputs;  // [word, width]
    uint64_t key;
    int64_t words;
    int32_t width, window, negative, mean;
};

// Sentences from `first` to before `last`; `number` is that of the text's first draw in this epoch.
extern "C" void train(const Words* w, int64_t first, int64_t last, uint64_t number, float rate) {
    Desk desk;
    desk.mean.resize(w->width);
    std::vector<int64_t> kept;
    const uint64_t stride = 2 + w->negative;
    for (int64_t s = first; s < last; s++) {
        kept.clear();
        for (int64_t p = w->bounds[s]; p < w->bounds[s + 1]; p++) {
            float chance = (draw(w->key, number + p * stride) >> 40) * 0x1p-24f;
            if (chance < w->keep[w->ids[p]]) kept.push_back(p);
        }
        const int64_t length = kept.size();
        for (int64_t i = 0; i < length; i++) {
            const uint64_t base = number + kept[i] * stride;
            const int64_t reach = 1 + below(draw(w->key, base + 1), w->window);
            const int64_t from = std::max<int64_t>(0, i - reach);
            const int64_t to = std::min<int64_t>(length, i + reach + 1);
            if (to - from < 2) continue;
            const int32_t center = w->ids[kept[i]];
            desk.outputs.assign(1, w->outputs + int64_t(center) * w->width);
            for (int k = 0; k < w->negative; k++) {
                uint64_t bits = draw(w->key, base + 2 + k);
                int64_t word = below(bits, w->words);
                if (uint32_t(bits) >= w->threshold[word]) word = w->alias[word];
                if (word != center) desk.outputs.push_back(w->outputs + word * w->width);
            }
            desk.context.clear();
            for (int64_t j = from; j < to; j++)
                if (j != i)
                    desk.context.push_back(w->inputs + int64_t(w->ids[kept[j]]) * w->width);
            if (w->mean) average(desk, w->width);
            else desk.inputs.assign(desk.context.begin(), desk.context.end());
            meet(desk, w->width, rate);
            for (size_t n = 0; n < desk.context.size(); n++) {
                const float* change = desk.changes.data() + (w->mean ? 0 : n * w->width);
                for (int d = 0; d < w->width; d += LANES) add(desk.context[n] + d, load(change + d));
            }
        }
    }
}

struct Pairs {
    const int32_t *first, *second;  // [pair]
    const float *wanted, *weight;   // log of the count, and how much it matters
    const int64_t* order;
    float* tables[2];   // [word, width], of words and of contexts
    float* squares[2];  // AdaGrad's sums
    float* biases[2];   // [word, 2]: value and sum of squares
    int32_t width;
    float rate;
};

// GloVe's step for pairs from place `begin` to before `end` of the order.
extern "C" void regress(const Pairs* p, int64_t begin, int64_t end) {
    const int width = p->width;
    for (int64_t place = begin; place < end; place++) {
        const int64_t pair = p->order[place];
        const int64_t rows[2] = {p->first[pair], p->second[pair]};
        float* a = p->tables[0] + rows[0] * width;
        float* b = p->tables[1] + rows[1] * width;
        float* qa = p->squares[0] + rows[0] * width;
        float* qb = p->squares[1] + rows[1] * width;
        float* biases[2] = {p->biases[0] + 2 * rows[0], p->biases[1] + 2 * rows[1]};
        float error = biases[0][0] + biases[1][0] - p->wanted[pair];
        for (int d = 0; d < width; d++) error += a[d] * b[d];
        const float pull = p->rate * p->weight[pair] * error;
#pragma GCC ivdep
        for (int d = 0; d < width; d++) {
            const float ga = pull * b[d], gb = pull * a[d];
            a[d] -= ga / std::sqrt(qa[d]);
            b[d] -= gb / std::sqrt(qb[d]);
            qa[d] += ga * ga;
            qb[d] += gb * gb;
        }
        for (float* bias : biases) {
            bias[0] -= pull / std::sqrt(bias[1]);
            bias[1] += pull * pull;
        }
    }
}
