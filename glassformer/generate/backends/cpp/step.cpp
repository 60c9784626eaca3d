// A decoder step on a CPU: one token per row, as a list of operations.
//
// With one token per row, most of the time is spent reading the weights. So they are read once, in
// their order in memory, and without waiting in between. step.py makes the list; `run` executes it
// with all threads, which meet after every operation. Every thread computes norms, and the rounding
// of the inputs of quantized layers, for itself: that takes less time than meeting once more. The
// code is compiled at its first use (build.py), for the vectors of the machine.

#include <atomic>
#include <thread>

#include <omp.h>

#include "linear.h"

inline void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

template <class Kernel> struct Layer {
    static void read(const Op &op, const Step &step, Input &x) {
        int rows = rows_of(op, step);
        x.rows = op.source;
        if (op.norm.scale || op.which_rows == SELECT || op.factor != 1) {
            x.own.resize(rows * op.in);
            for (int r = 0; r < rows; r++) {
                const float *row = op.source + source_row(op, step, r) * op.in;
                float *own = x.own.data() + r * op.in;
                if (op.norm.scale) normed(op.norm, row, own, op.in);
                else std::copy(row, row + op.in, own);
                if (op.factor != 1)
                    for (int64_t i = 0; i < op.in; i++) own[i] *= op.factor;
            }
            x.rows = x.own.data();
        }
        Kernel::prepare(x, rows, op.in);
    }
    static void compute(const Op &op, const Step &step, const Input &x, int64_t begin, int64_t end) {
        int rows = rows_of(op, step);
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
    const Weight *position = (const Weight *)op.positions + step.position[row] * op.in;
    const Weight *segment = (const Weight *)op.segments;
    float *x = op.target + row * op.in;
    if (op.weight)
        for (int64_t i = 0; i < op.in; i++) x[i] = number(token[i]) * op.factor;
    if (op.segments)
        for (int64_t i = 0; i < op.in; i++) x[i] += number(segment[i]);
    if (op.positions)
        for (int64_t i = 0; i < op.in; i++) x[i] += number(position[i]);
}

// Norms and rotates queries and keys, and stores keys and values.
void write(const Op &op, const Step &step, int row) {
    const int dim = op.dim, half = op.rotary_dim / 2;
    const float *cos = op.cos + int64_t(step.slot[row]) * op.rotary_dim;
    const float *sin = op.sin + int64_t(step.slot[row]) * op.rotary_dim;
    const int key_heads = op.cross ? 0 : op.key_heads;  // those of a source are stored already
    for (int head = 0; head < op.heads + key_heads; head++) {
        float *x = (float *)op.source + row * op.in + head * dim;
        if (op.norm.scale) normed(head < op.heads ? op.norm : op.key_norm, x, x, dim);
        for (int i = 0; i < half; i++) {
            int a = op.pairs ? 2 * i : i, b = op.pairs ? a + 1 : i + half;
            float first = x[a], second = x[b];
            x[a] = first * cos[a] - second * sin[a];
            x[b] = second * cos[b] + first * sin[b];
        }
    }
    for (int head = 0; head < key_heads; head++) {
        const float *key = op.source + row * op.in + (op.heads + head) * dim;
        const float *value = key + op.key_heads * dim;
        int64_t at = (int64_t(step.line[row]) * op.key_heads + head) * op.capacity + step.slot[row];
        std::copy(key, key + dim, op.keys + at * dim);
        std::copy(value, value + dim, op.values + at * dim);
    }
}

// The sum of vectors by their weights, N of each at a time.
template <int N>
void mix(const float *weights, const float *values, int count, int dim, float *out) {
    Vector sums[N] = {};
    for (int i = 0; i < count; i++)
        UNROLLED for (int n = 0; n < N; n++) sums[n] += weights[i] * load(values + i * dim + n * LANES);
    UNROLLED for (int n = 0; n < N; n++) store(out + n * LANES, sums[n]);
}

void attend(const Op &op, const Step &step, int row, int head) {
    static thread_local std::vector<float> buffer;
    const int dim = op.dim, end = op.cross ? step.source_length[row] : step.slot[row] + 1;
    int first = op.cross ? 0 : std::max(0, end - 1 - op.left);
    if (op.window_block) first = std::max(first, (end - 1) / op.window_block * op.window_block);
    const int begin = first / LANES * LANES, count = end - first;  // keys are read by LANES
    const int key_head = head / (op.heads / op.key_heads);
    const int64_t text = op.cross ? step.source_line[row] : step.line[row];
    const int64_t line = (text * op.key_heads + key_head) * op.capacity;
    const float *keys = op.keys + line * dim, *values = op.values + (line + first) * dim;
    const float *query = op.source + row * op.in + head * dim;
    float *out = op.target + (int64_t(row) * op.heads + head) * dim;
    buffer.resize((end - 1 - begin) / LANES * LANES + LANES);
    for (int i = begin; i < end; i += LANES)
        Floats<float>::dots<1, LANES, 4096>(keys + int64_t(i) * dim, query, dim, &buffer[i - begin], 0);
    float *scores = buffer.data() + (first - begin), top = -INFINITY, total = 0;
    const float factor = op.factor, cap = op.cap;
    for (int i = 0; i < count; i++) scores[i] *= factor;
    if (cap)
        for (int i = 0; i < count; i++) scores[i] = cap * hyperbolic(scores[i] / cap);
    if (op.biases) {
        const float *biases = op.biases + (head + 1) * op.capacity - count;
        for (int i = 0; i < count; i++) scores[i] += biases[i];
    }
    if (op.dilation > 1)
        for (int i = 0; i < count; i++)
            if ((count - 1 - i) % op.dilation) scores[i] = -INFINITY;
    for (int i = 0; i < count; i++) top = std::max(top, scores[i]);
    for (int i = 0; i < count; i++) scores[i] = exponential(scores[i] - top);
    for (int i = 0; i < count; i++) total += scores[i];
    for (int i = 0; i < count; i++) scores[i] /= total;
    int d = 0;
    for (; d + 4 * LANES <= dim; d += 4 * LANES) mix<4>(scores, values + d, count, dim, out + d);
    for (; d + LANES <= dim; d += LANES) mix<1>(scores, values + d, count, dim, out + d);
    for (; d < dim; d++) {
        out[d] = 0;
        for (int i = 0; i < count; i++) out[d] += scores[i] * values[int64_t(i) * dim + d];
    }
}

// --- execution ---------------------------------------------------------------------------------

// Every thread has a share of an operation's pieces. A thread that has finished its share takes
// pieces of the others', and goes on when all are done. So no thread waits for one that the system
// has suspended, unless that one holds a piece.
struct alignas(64) Counter {
    std::atomic<int> count{0};
};

struct Execution {
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
        const int64_t unit = op.blocks && step.rows >= MANY ? 64 : 16;
        const int64_t share = width(op) / (threads * 8) / unit * unit;
        return std::min<int64_t>(std::max<int64_t>(share, unit), 512);
    }
    int pieces(const Op &op) const { return (width(op) + size(op) - 1) / size(op); }

    // Prefetches the first weights of the next layer while waiting.
    void fetch(int i, int thread) const {
        while (i < count && ops[i].kind != LINEAR) i++;
        if (i == count) return;
        const Op &op = ops[i];
        const int64_t bits[] = {32, 16, 8, 5}, row = op.in * bits[op.form] / 8;
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

    void run(int thread) {
        for (int i = 0; i < count; i++) {
            const Op &op = ops[i];
            if (op.kind == LINEAR && op.form == FLOAT) linear<Floats<float>>(i, thread);
            if (op.kind == LINEAR && op.form == BFLOAT) linear<Floats<uint16_t>>(i, thread);
            if (op.kind == LINEAR && op.form == INT8) linear<Bytes>(i, thread);
            if (op.kind == LINEAR && op.form == INT4) linear<Nibbles>(i, thread);
            if (op.kind == LINEAR) continue;
            share(i, rows_of(op, step) * (op.kind == ATTEND ? op.heads : 1), thread, [&](int piece) {
                if (op.kind == EMBED && op.form == FLOAT) embed<float>(op, step, piece);
                if (op.kind == EMBED && op.form == BFLOAT) embed<uint16_t>(op, step, piece);
                if (op.kind == NORM) {
                    float *target = op.target + piece * op.in;
                    const float *source = op.source + source_row(op, step, piece) * op.in;
                    normed(op.norm, source, target, op.in, op.add);
                }
                if (op.kind == WRITE) write(op, step, piece);
                if (op.kind == ATTEND) attend(op, step, piece / op.heads, piece % op.heads);
            });
        }
    }
};

extern "C" {
int64_t sizes() { return sizeof(Op) * 1000 + sizeof(Step); }  // structures.py's must be the same

void run(const Op *ops, int count, const Step *step, int threads) {
    std::vector<Counter> taken(count * threads), done(count);
    Execution execution{ops, count, threads, *step, std::move(taken), std::move(done)};
#pragma omp parallel num_threads(threads)
    execution.run(omp_get_thread_num());
}
}
