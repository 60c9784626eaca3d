// Checksums of memory. One word that changes always changes the checksum; several do so with a
// probability of 1 - 2^-64. The result does not depend on the number of threads.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include <omp.h>

namespace {

constexpr int LANES = 16, STREAMS = 4;
constexpr int64_t BLOCK = 4 * LANES * STREAMS, CHUNK = 4096 * BLOCK;  // bytes
constexpr uint64_t PRIME = 0x9e3779b97f4a7c15;

typedef uint32_t Words __attribute__((vector_size(4 * LANES)));

inline uint64_t mixed(uint64_t sum, uint64_t word) {
    sum = (sum ^ word) * PRIME;
    return sum ^ sum >> 29;
}

struct State {
    Words sums[STREAMS];

    State() {
        for (int s = 0; s < STREAMS; s++)
            for (int i = 0; i < LANES; i++) sums[s][i] = uint32_t(PRIME >> 16) * (s * LANES + i + 1);
    }
    void add(const char *block) {
        for (int s = 0; s < STREAMS; s++) {
            Words words;
            std::memcpy(&words, block + 4 * LANES * s, sizeof words);
            // The rotation carries high bits to low ones: a product alone would lose two changes of
            // a sign in one lane.
            const Words turned = sums[s] << 13 | sums[s] >> 19;
            sums[s] = turned * 0x85ebca77u + words;
        }
    }
    uint64_t total(int64_t size) const {
        uint64_t sum = size;
        for (int s = 0; s < STREAMS; s++)
            for (int i = 0; i < LANES; i++) sum = mixed(sum, sums[s][i]);
        return sum;
    }
};

uint64_t checksum(const char *data, int64_t size) {
    State state;
    int64_t at = 0;
    for (; at + BLOCK <= size; at += BLOCK) state.add(data + at);
    if (at < size) {
        char last[BLOCK] = {};
        std::memcpy(last, data + at, size - at);
        state.add(last);
    }
    return state.total(size);
}

struct Chunk {
    const char *data;
    int64_t size;
};

}  // namespace

// out[i] is the checksum of `sizes[i]` bytes at `data[i]`.
extern "C" void checksums(int64_t count, const char *const *data, const int64_t *sizes, uint64_t *out,
                          int threads) {
    std::vector<Chunk> chunks;
    std::vector<int64_t> ends;
    for (int64_t i = 0; i < count; i++) {
        for (int64_t at = 0; at < sizes[i]; at += CHUNK)
            chunks.push_back({data[i] + at, std::min(CHUNK, sizes[i] - at)});
        ends.push_back(chunks.size());
    }
    std::vector<uint64_t> sums(chunks.size());
    const int64_t all = chunks.size();
    if (all <= 1) threads = 1;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t c = 0; c < all; c++) sums[c] = checksum(chunks[c].data, chunks[c].size);
    for (int64_t i = 0, c = 0; i < count; i++) {
        out[i] = sizes[i];
        for (; c < ends[i]; c++) out[i] = mixed(out[i], sums[c]);
    }
}
