// Counts as formulas of sizes. A polynomial is a list of terms [numerator, denominator, size, size, ...]: if the sizes B
// and D have indices 0 and 1, 2*B*D + D/2 is [[2, 1, 0, 1], [1, 2, 1]]. Counts are exact (BigInt). Times are computed in
// doubles in the same order of terms as the program does (Polynomial::real), so that both agree to the bit.

// Number of polynomials evaluated, the cost of a redraw.
const counters = {formulas: 0};

function toPolynomial(terms) {
  return terms.map(([n, d, ...sizes]) => ({n: BigInt(n), d: BigInt(d), real: Number(n) / Number(d), sizes}));
}

function scalePolynomial(terms, n, d = 1n) {
  return terms.map((t) => {
    const num = t.n * n, den = t.d * d;
    return {n: num, d: den, real: Number(num) / Number(den), sizes: t.sizes};
  });
}

// Returns the exact value as a fraction {n, d}, not in lowest terms.
function evaluateExactly(terms, integers) {
  counters.formulas += 1;
  let n = 0n, d = 1n;
  for (const term of terms) {
    let product = term.n;
    for (const size of term.sizes) product *= integers[size];
    if (term.d === d) {
      n += product;
    } else {
      n = n * term.d + product * d;
      d *= term.d;
    }
  }
  return {n, d};
}

// Returns the value rounded up; an odd number of int4 elements has half a byte.
function evaluateRoundedUp(terms, integers) {
  const {n, d} = evaluateExactly(terms, integers);
  return d === 1n ? n : floorDivide(n + d - 1n, d);
}

function floorDivide(n, d) {
  const q = n / d;
  return n % d !== 0n && (n < 0n) !== (d < 0n) ? q - 1n : q;
}

function evaluateAsDouble(terms, real) {
  counters.formulas += 1;
  let sum = 0;
  for (const t of terms) {
    let term = t.real;
    for (const size of t.sizes) term *= real[size];
    sum += term;
  }
  return sum;
}

// Parses the sizes of a program: free sizes {name, value}, derived sizes {name, follows}, largest shards over a mesh
// {name, part: [size, parts]}, and unmasked pairs {name, mask: {...}}.
function parseSizes(given) {
  const parseOptional = (terms) => (terms ? toPolynomial(terms) : null);
  return given.map((s) => ({
    name: s.name,
    value: s.value === undefined ? null : BigInt(s.value),
    follows: parseOptional(s.follows),
    part: s.part ? {size: s.part[0], parts: BigInt(s.part[1])} : null,
    mask: s.mask ? {...s.mask, lower: parseOptional(s.mask.lower), upper: parseOptional(s.mask.upper)} : null,
  }));
}

const MAX_SIZE = 1n << 62n, COUNT_LIMIT = 1n << 63n;

const bigMax = (a, b) => (a > b ? a : b);
const bigMin = (a, b) => (a < b ? a : b);

// Counts pairs with i - j >= c, 0 <= i < rows, 0 <= j < columns; row i has min(columns, i - c + 1) of them.
function countPairsFrom(c, rows, columns) {
  const first = bigMax(0n, c);
  if (first >= rows) return 0n;
  const least = first - c + 1n, most = rows - c;
  const triangle = (n) => n * (n + 1n) / 2n;
  if (least >= columns) return (rows - first) * columns;
  if (most <= columns) return triangle(most) - triangle(least - 1n);
  return triangle(columns) - triangle(least - 1n) + (most - columns) * columns;
}

// Returns null if the count exceeds 2^63.
function countUnmaskedPairs(mask, integers) {
  const rows = integers[mask.rows], columns = integers[mask.columns];
  if (rows >= MAX_SIZE || columns >= MAX_SIZE) return null;
  const bound = (terms, otherwise) => {
    if (!terms) return otherwise;
    const value = evaluateRoundedUp(terms, integers);
    return bigMax(-MAX_SIZE, bigMin(MAX_SIZE, value));
  };
  const lower = bound(mask.lower, -columns), upper = bound(mask.upper, rows);
  if (lower > upper) return 0n;
  const count = countPairsFrom(lower, rows, columns) - countPairsFrom(upper + 1n, rows, columns);
  return count < COUNT_LIMIT ? count : null;
}

// The same in doubles, for sizes so small that doubles are exact; `resolveSizesAsDouble` returns null for others. A search
// evaluates hundreds of sizes, and BigInt takes ten times as long.
const MAX_EXACT_SIZE = 2 ** 25;

function countUnmaskedPairsAsDouble(mask, real) {
  const rows = real[mask.rows], columns = real[mask.columns];
  const lower = mask.lower ? evaluateAsDouble(mask.lower, real) : -columns, upper = mask.upper ? evaluateAsDouble(mask.upper, real) : rows;
  if (lower > upper) return 0;
  const triangle = (n) => n * (n + 1) / 2;
  const from = (c) => {
    const first = Math.max(0, c), least = first - c + 1, most = rows - c;
    if (first >= rows) return 0;
    if (least >= columns) return (rows - first) * columns;
    if (most <= columns) return triangle(most) - triangle(least - 1);
    return triangle(columns) - triangle(least - 1) + (most - columns) * columns;
  };
  return from(lower) - from(upper + 1);
}

function resolveSizesAsDouble(sizes, values) {
  const real = [];
  for (let i = 0; i < sizes.length; ++i) {
    const size = sizes[i];
    let value = values[i];
    if (size.follows) value = evaluateAsDouble(size.follows, real);
    if (size.part) value = Math.ceil(real[size.part.size] / Number(size.part.parts));
    if (size.mask) value = countUnmaskedPairsAsDouble(size.mask, real);
    else if (!(value >= 1 && value < MAX_EXACT_SIZE && Number.isInteger(value))) return null;
    real.push(value);
  }
  return real;
}

// Computes all sizes from the free ones (by index). `error` says which size is invalid.
function resolveSizes(sizes, values) {
  const integers = [], real = [];
  let error = '';
  sizes.forEach((size, i) => {
    let value = values[i];
    if (size.follows) value = evaluateRoundedUp(size.follows, integers);
    if (size.part) value = (integers[size.part.size] - 1n) / size.part.parts + 1n;
    if (size.mask) value = error ? 1n : countUnmaskedPairs(size.mask, integers);
    if (value === null || value === undefined || value >= COUNT_LIMIT) error = error || `${size.name} leaves 2^63`;
    else if (value < 1n && !size.mask) error = error || `${size.name} is below 1`;
    integers.push(value ?? 1n);
    real.push(Number(value ?? 1n));
  });
  return {integers, real, error};
}

// Returns a double exactly as mantissa * 2^exponent.
function toBinary(value) {
  let exponent = 0;
  while (!Number.isInteger(value) && exponent > -1100) {
    value *= 2;
    exponent -= 1;
  }
  return {mantissa: BigInt(value), exponent};
}

// True if above/peak >= below/rate, without rounding; counts are fractions, rates doubles.
function takesAtLeastAsLong(above, peak, below, rate) {
  return subtractTimes(above, peak, below, rate) >= 0n;
}

function subtractTimes(above, peak, below, rate) {
  const p = toBinary(peak), r = toBinary(rate);
  const least = p.exponent < r.exponent ? p.exponent : r.exponent;
  const left = above.n * below.d * (r.mantissa << BigInt(r.exponent - least));
  const right = below.n * above.d * (p.mantissa << BigInt(p.exponent - least));
  return left - right;
}
