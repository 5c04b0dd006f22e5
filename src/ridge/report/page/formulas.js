// Counts as formulas of sizes. A polynomial arrives as a list of terms [numerator, denominator, size, size, …]: with
// sizes B, D at places 0 and 1, 2*B*D + D/2 is [[2, 1, 0, 1], [1, 2, 1]]. Counts are exact (BigInt); times are made of
// the same sums of doubles, term by term, that the program forms (Polynomial::real), so that both agree to the bit.

// How many polynomials were evaluated: what a redraw costs, counted.
const work = {formulas: 0};

function polynomial(terms) {
  return terms.map(([n, d, ...sizes]) => ({n: BigInt(n), d: BigInt(d), real: Number(n) / Number(d), sizes}));
}

function scaled(terms, n, d = 1n) {
  return terms.map((t) => {
    const num = t.n * n, den = t.d * d;
    return {n: num, d: den, real: Number(num) / Number(den), sizes: t.sizes};
  });
}

// An exact fraction {n, d}, not in lowest terms.
function exactly(terms, whole) {
  work.formulas += 1;
  let n = 0n, d = 1n;
  for (const term of terms) {
    let product = term.n;
    for (const size of term.sizes) product *= whole[size];
    if (term.d === d) {
      n += product;
    } else {
      n = n * term.d + product * d;
      d *= term.d;
    }
  }
  return {n, d};
}

// Rounded up, as an odd number of int4 is.
function counted(terms, whole) {
  const {n, d} = exactly(terms, whole);
  return d === 1n ? n : floorDivided(n + d - 1n, d);
}

function floorDivided(n, d) {
  const q = n / d;
  return n % d !== 0n && (n < 0n) !== (d < 0n) ? q - 1n : q;
}

function realOf(terms, real) {
  work.formulas += 1;
  let sum = 0;
  for (const t of terms) {
    let term = t.real;
    for (const size of t.sizes) term *= real[size];
    sum += term;
  }
  return sum;
}

// The sizes of a program as they arrive: of its own {name, value}, one that follows {name, follows}, the largest part
// over a mesh {name, part: [size, parts]}, the pairs that a mask lets through {name, mask: {…}}.
function sizesOf(given) {
  const optional = (terms) => (terms ? polynomial(terms) : null);
  return given.map((s) => ({
    name: s.name,
    value: s.value === undefined ? null : BigInt(s.value),
    follows: optional(s.follows),
    part: s.part ? {size: s.part[0], parts: BigInt(s.part[1])} : null,
    mask: s.mask ? {...s.mask, lower: optional(s.mask.lower), upper: optional(s.mask.upper)} : null,
  }));
}

const LARGEST = 1n << 62n, BEYOND = 1n << 63n;

const bigMax = (a, b) => (a > b ? a : b);
const bigMin = (a, b) => (a < b ? a : b);

// Pairs with i - j >= c, 0 <= i < rows, 0 <= j < columns: in row i so many as min(columns, i - c + 1).
function pairsFrom(c, rows, columns) {
  const first = bigMax(0n, c);
  if (first >= rows) return 0n;
  const least = first - c + 1n, most = rows - c;
  const triangle = (n) => n * (n + 1n) / 2n;
  if (least >= columns) return (rows - first) * columns;
  if (most <= columns) return triangle(most) - triangle(least - 1n);
  return triangle(columns) - triangle(least - 1n) + (most - columns) * columns;
}

// Null: the count leaves 2^63.
function pairsOf(mask, whole) {
  const rows = whole[mask.rows], columns = whole[mask.columns];
  if (rows >= LARGEST || columns >= LARGEST) return null;
  const bound = (terms, otherwise) => {
    if (!terms) return otherwise;
    const value = counted(terms, whole);
    return bigMax(-LARGEST, bigMin(LARGEST, value));
  };
  const lower = bound(mask.lower, -columns), upper = bound(mask.upper, rows);
  if (lower > upper) return 0n;
  const count = pairsFrom(lower, rows, columns) - pairsFrom(upper + 1n, rows, columns);
  return count < BEYOND ? count : null;
}

// The same in doubles, where they hold every whole number that occurs; null: they do not, or a size is none. A search
// looks at hundreds of sizes, and BigInt takes ten times as long.
const SMALL = 2 ** 25;

function quickPairs(mask, real) {
  const rows = real[mask.rows], columns = real[mask.columns];
  const lower = mask.lower ? realOf(mask.lower, real) : -columns, upper = mask.upper ? realOf(mask.upper, real) : rows;
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

function quickSizes(sizes, own) {
  const real = [];
  for (let i = 0; i < sizes.length; ++i) {
    const size = sizes[i];
    let value = own[i];
    if (size.follows) value = realOf(size.follows, real);
    if (size.part) value = Math.ceil(real[size.part.size] / Number(size.part.parts));
    if (size.mask) value = quickPairs(size.mask, real);
    else if (!(value >= 1 && value < SMALL && Number.isInteger(value))) return null;
    real.push(value);
  }
  return real;
}

// The value of every size where those of their own have these (by place); `fault` says what is none.
function resolved(sizes, own) {
  const whole = [], real = [];
  let fault = '';
  sizes.forEach((size, i) => {
    let value = own[i];
    if (size.follows) value = counted(size.follows, whole);
    if (size.part) value = (whole[size.part.size] - 1n) / size.part.parts + 1n;
    if (size.mask) value = fault ? 1n : pairsOf(size.mask, whole);
    if (value === null || value === undefined || value >= BEYOND) fault = fault || `${size.name} leaves 2^63`;
    else if (value < 1n && !size.mask) fault = fault || `${size.name} is below 1`;
    whole.push(value ?? 1n);
    real.push(Number(value ?? 1n));
  });
  return {whole, real, fault};
}

// A double as mantissa * 2^exponent, to the last bit.
function binary(value) {
  let exponent = 0;
  while (!Number.isInteger(value) && exponent > -1100) {
    value *= 2;
    exponent -= 1;
  }
  return {mantissa: BigInt(value), exponent};
}

// above/peak >= below/rate without rounding; counts are fractions, rates doubles.
function takesAsLong(above, peak, below, rate) {
  return timesDifference(above, peak, below, rate) >= 0n;
}

function timesDifference(above, peak, below, rate) {
  const p = binary(peak), r = binary(rate);
  const least = p.exponent < r.exponent ? p.exponent : r.exponent;
  const left = above.n * below.d * (r.mantissa << BigInt(r.exponent - least));
  const right = below.n * above.d * (p.mantissa << BigInt(p.exponent - least));
  return left - right;
}
