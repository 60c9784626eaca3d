// Room 5, weights: products of many rows with codes of 4 bits. Compiled at first use (`native.py`).

#include <vector>

#include "int4.h"

using namespace nibbles;

struct Product {  // as in codes.py
    int64_t rows, in, out;
    const float *x;
    const Portion *codes;  // [out / ABREAST, in / GROUP]
    const void *unused[2];
    const float *bias;
    float *y;
};

extern "C" void multiply(const Product *product, int threads) {
    const Product &p = *product;
    const int64_t groups = p.in / GROUP, blocks = (p.out + ABREAST - 1) / ABREAST;
    std::vector<Rounded> x(p.rows * groups);
#pragma omp parallel num_threads(threads)
    {
#pragma omp for
        for (int64_t r = 0; r < p.rows; r++)
            round_row(p.x + r * p.in, groups, x.data() + r * groups);
#pragma omp for
        for (int64_t block = 0; block < blocks; block++) {
            const int64_t begin = block * ABREAST, end = std::min(begin + ABREAST, p.out);
            some_rows(p.rows, [&](auto count, int64_t r) {
                float *out = p.y + r * p.out;
                tile<count>(p.codes, x.data() + r * groups, groups, begin, end, out, p.out);
                for (int64_t i = 0; p.bias && i < count; i++)
                    for (int64_t o = begin; o < end; o++) out[i * p.out + o] += p.bias[o];
            });
        }
    }
}
