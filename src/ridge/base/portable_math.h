// Logarithm, exponential and power that give the same bits on every machine: from additions, multiplications and
// divisions alone, which IEEE 754 rounds, where a C library's differ with the CPU. Fitted numbers and the plans that
// rest on them are the same everywhere because of it. Within 2 ulp for the logarithm of x outside [0.9, 1.1] and for
// the exponential; the power is exp(y log x), off by some |y log x| ulp.
#pragma once

namespace ridge::portable {

double log(double x);  // of x > 0, finite
double exp(double x);  // of |x| < 700
double log2(double x);
double pow(double x, double y);  // of x > 0

}  // namespace ridge::portable
