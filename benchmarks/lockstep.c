/* (K, log J) of erf networks with a skip, last layer: blocks of points, one layer at a time, vector asin of libmvec.
   The peer of the generated loops; compiled by the benchmark with -O3 -ffast-math -march=native -fopenmp-simd. */
#include <math.h>

#define BLOCK 64
#define SPLIT 8 /* layers between two logarithms */

void layers(long points, long depth, const double *sigma_w, const double *sigma_b, double *K_out, double *log_J_out)
{
    for (long begin = 0; begin < points; begin += BLOCK) {
        long n = points - begin < BLOCK ? points - begin : BLOCK;
        double w2[BLOCK], b2[BLOCK], K[BLOCK], J[BLOCK], log_J[BLOCK];
        for (long i = 0; i < n; i++) {
            w2[i] = sigma_w[begin + i] * sigma_w[begin + i];
            b2[i] = sigma_b[begin + i] * sigma_b[begin + i];
            K[i] = w2[i] + b2[i];
            J[i] = 1.0;
            log_J[i] = 0.0;
        }
        for (long l = 1; l < depth; l++) {
#pragma omp simd
            for (long i = 0; i < n; i++) {
                J[i] *= 1.0 + 4.0 / M_PI * w2[i] / sqrt(1.0 + 4.0 * K[i]);
                K[i] += w2[i] * (2.0 / M_PI) * asin(2.0 * K[i] / (1.0 + 2.0 * K[i])) + b2[i];
            }
            if (l % SPLIT == 0 || l == depth - 1) {
#pragma omp simd
                for (long i = 0; i < n; i++) {
                    log_J[i] += log(J[i]);
                    J[i] = 1.0;
                }
            }
        }
        for (long i = 0; i < n; i++) {
            K_out[begin + i] = K[i];
            log_J_out[begin + i] = log_J[i];
        }
    }
}
