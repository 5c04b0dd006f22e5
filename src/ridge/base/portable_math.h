// Logarithm, exponential and power with identical bits on every machine: they use only additions, multiplications and
// divisions, whose rounding IEEE 754 defines; C libraries differ between CPUs. So fitted numbers and the plans based
// on them are the same everywhere. Errors: at most 2 ulp for exp and for log outside [0.9, 1.1]; about |y log x| ulp
// for pow, computed as exp(y log x).
#pragma once

namespace ridge::base {

double log(double x);  // for finite x > 0
double exp(double x);  // for |x| < 700
double log2(double x);
double pow(double x, double y);  // for x > 0

}  // namespace ridge::base
