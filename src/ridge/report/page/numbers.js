// Formats numbers as base/text.h does: four digits, SI prefixes, ties to the even digit.

function toFixedHalfEven(value, digits) {
  const text = value.toFixed(digits);
  if (Math.abs(value) >= 1e21) return text;
  const all = Math.abs(value).toFixed(Math.min(100, digits + 60)), tail = all.slice(all.indexOf('.') + 1 + digits);
  if (!/^50*$/.test(tail)) return text;
  const cut = all.slice(0, digits > 0 ? all.indexOf('.') + 1 + digits : all.indexOf('.'));  // a tie: round to even
  const even = '02468'.includes(cut[cut.length - 1]);
  return even ? (value < 0 ? '-' : '') + cut : text;
}

function toGeneral(value, digits) {
  const [mantissa, power] = value.toExponential(digits - 1).split('e');
  const exponent = Number(power);
  const stripped = (text) => (text.includes('.') ? text.replace(/\.?0+$/, '') : text);
  if (exponent >= -4 && exponent < digits) return stripped(value.toFixed(digits - 1 - exponent));
  const size = String(Math.abs(exponent)).padStart(2, '0');
  return `${stripped(mantissa)}e${exponent < 0 ? '-' : '+'}${size}`;
}

function significant(value, digits = 4) {
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (!Number.isFinite(value)) return String(value);
  if (!(size >= 1e-4 && size < 1e15)) return toGeneral(value, digits);
  const before = Math.floor(Math.log10(size)) + 1;
  const text = toFixedHalfEven(value, Math.max(0, digits - Math.max(before, 1) + (before < 1 ? 1 - before : 0)));
  return text.includes('.') && Number.isInteger(value) ? text.slice(0, text.indexOf('.')) : text;
}

const PREFIXES = ['p', 'n', 'u', 'm', '', 'k', 'M', 'G', 'T', 'P', 'E', 'Z'];

function engineering(value, unit) {
  if (value === 0) return `0 ${unit}`;
  if (!Number.isFinite(value)) return `${value} ${unit}`;
  let power = Math.max(-4, Math.min(7, Math.floor(Math.log10(Math.abs(value)) / 3)));
  let shown = value / 1000 ** power;
  if (Math.abs(shown) >= 999.95 && power < 7) shown = value / 1000 ** ++power;
  const whole = power === 0 && Number.isInteger(shown);
  const before = Math.abs(shown) >= 100 ? 3 : Math.abs(shown) >= 10 ? 2 : 1;
  return `${toFixedHalfEven(shown, whole ? 0 : 4 - before)} ${PREFIXES[power + 4]}${unit}`;
}

const percent = (share) => `${toFixedHalfEven(100 * share, 1)} %`;

// Returns "1 234 567".
const grouped = (whole) => String(whole).replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');

function shortened(text, width) {
  const characters = [...text];
  return characters.length <= width ? text : `${characters.slice(0, width - 3).join('')}...`;
}
