// Formats numbers as base/text.h does: four digits, SI prefixes, ties to the even digit. Numbers are not negative.

function toFixedHalfEven(value, digits) {
  const text = value.toFixed(digits), exact = value.toFixed(digits + 60), end = exact.length - 60;
  if (!/^50*$/.test(exact.slice(end))) return text;
  const cut = exact.slice(0, digits > 0 ? end : end - 1);  // a tie, which toFixed rounds up
  return '02468'.includes(cut.at(-1)) ? cut : text;
}

function significant(value, digits = 4) {
  if (value === 0) return '0';
  if (!Number.isFinite(value)) return String(value);
  if (value < 1e-4 || value >= 1e15) {
    const [mantissa, power] = value.toExponential(digits - 1).split('e');
    return `${Number(mantissa)}e${power[0]}${power.slice(1).padStart(2, '0')}`;
  }
  const before = Math.floor(Math.log10(value)) + 1, text = toFixedHalfEven(value, Math.max(0, digits - before));
  return Number.isInteger(value) ? text.split('.')[0] : text;
}

function engineering(value, unit) {
  if (value === 0) return `0 ${unit}`;
  if (!Number.isFinite(value)) return `${value} ${unit}`;
  let power = Math.max(-4, Math.min(7, Math.floor(Math.log10(value) / 3))), shown = value / 1000 ** power;
  if (shown >= 999.95 && power < 7) shown = value / 1000 ** ++power;
  const digits = power === 0 && Number.isInteger(shown) ? 0 : shown >= 100 ? 1 : shown >= 10 ? 2 : 3;
  return `${toFixedHalfEven(shown, digits)} ${'pnum kMGTPEZ'[power + 4].trim()}${unit}`;
}

const percent = (share) => `${toFixedHalfEven(100 * share, 1)} %`;
const seconds = (value) => engineering(value, 's');
// Returns "1 234 567".
const grouped = (whole) => String(whole).replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');

const shortened = (text, width) => ([...text].length <= width ? text : `${[...text].slice(0, width - 3).join('')}...`);
