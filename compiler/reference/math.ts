/**
 * The scalar functions that JavaScript's `Math` lacks, for the float64 reference. The generated code
 * calls them by the names of {@link HELPERS}.
 */

// Two views of one number, to reach the exponent of a double.
const DOUBLE = new Float64Array(1);
const WORDS = new Uint32Array(DOUBLE.buffer);
const HIGH = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1 ? 1 : 0;

const WORD = new Uint32Array(1);
const WORD_FLOAT = new Float32Array(WORD.buffer);

/** floor(log2(|x|)) of a normal number; at most -1023 for subnormal ones. */
function exponentOf(x: number): number {
  DOUBLE[0] = x;
  return (((WORDS[HIGH] ?? 0) >>> 20) & 0x7ff) - 1023;
}

/** To the nearest integer, ties to even. */
export function roundEven(x: number): number {
  const r = Math.round(x);
  return r - x === 0.5 && r % 2 !== 0 ? r - 1 : r;
}

/** Rounds to a binary format with `bits` explicit mantissa bits, ties to even. */
function roundTo(x: number, bits: number, minExponent: number, overflow: number): number {
  if (x === 0 || x - x !== 0) return x;
  const step = 2 ** (Math.max(exponentOf(x), minExponent) - bits);
  const r = roundEven(x / step) * step;
  return r >= overflow ? Infinity : r <= -overflow ? -Infinity : r;
}

export function toF16(x: number): number {
  return roundTo(x, 10, -14, 65536);
}

export function toBf16(x: number): number {
  return roundTo(x, 7, -126, 2 ** 128);
}

/** The bits of a number in single precision. */
export function bitsOf(x: number): number {
  WORD_FLOAT[0] = x;
  return WORD[0] ?? 0;
}

/** The single precision number with such bits. */
export function floatOf(bits: number): number {
  WORD[0] = bits;
  return WORD_FLOAT[0] ?? 0;
}

/** C's pow: 1 to the power of anything is 1, and so is -1 to an infinite power. */
export function pow(a: number, b: number): number {
  if (a === 1 || (a === -1 && (b === Infinity || b === -Infinity))) return 1;
  return Math.pow(a, b);
}

/** Integer power that wraps at 32 bits; a negative exponent gives what division in integers gives. */
export function pow32(a: number, b: number): number {
  if (b < 0) return a === 1 ? 1 : a === -1 ? (b % 2 === 0 ? 1 : -1) : 0;
  let r = 1;
  let base = a | 0;
  for (let n = b; n > 0; n = Math.floor(n / 2)) {
    if (n % 2 === 1) r = Math.imul(r, base);
    base = Math.imul(base, base);
  }
  return r;
}

/** Remainder with the sign of the divisor. */
export function floorMod(a: number, b: number): number {
  const r = a % b;
  return r !== 0 && r < 0 !== b < 0 ? r + b : r;
}

/** 64-bit integer logic on exact doubles. */
export function bits64(op: string, a: number, b: number): number {
  const x = BigInt(a);
  const y = BigInt(b);
  switch (op) {
    case 'bitand':
      return Number(x & y);
    case 'bitor':
      return Number(x | y);
    case 'bitxor':
      return Number(x ^ y);
    case 'shl':
      return Number(BigInt.asIntN(64, x << (y & 63n)));
    case 'shr':
      return Number(x >> (y & 63n));
    default:
      throw new Error(`no 64-bit operation ${op}`);
  }
}

// ---------------------------------------------------------------------------------------------
// The error function

/** Half a distance between two expansion points is 1/32; erf is 1 to the last bit beyond 6. */
const PER_UNIT = 16;
const LIMIT = 6;
const ORDER = 14;
/** Per expansion point: erf there, then the coefficients of h, h², … */
const TABLE = erfTable();

/**
 * Taylor expansions of erf about 0, 1/16, 2/16…. The derivative of erf is 2/√π·exp(-x²), and with
 * exp(-(c+h)²) = exp(-c²)·Σ aₖhᵏ the recurrence (k+1)·aₖ₊₁ = -2c·aₖ - 2·aₖ₋₁ gives its coefficients.
 */
function erfTable(): Float64Array {
  const points = LIMIT * PER_UNIT + 1;
  const table = new Float64Array(points * ORDER);
  for (let i = 0; i < points; i++) {
    const c = i / PER_UNIT;
    const scale = (2 / Math.sqrt(Math.PI)) * Math.exp(-c * c);
    table[i * ORDER] = erfBySeries(c);
    let before = 0;
    let a = 1;
    for (let k = 0; k < ORDER - 1; k++) {
      table[i * ORDER + k + 1] = (scale * a) / (k + 1);
      const next = (-2 * c * a - 2 * before) / (k + 1);
      before = a;
      a = next;
    }
  }
  return table;
}

/** erf(x) = 2/√π·exp(-x²)·Σ 2ⁿx²ⁿ⁺¹/(1·3·…·(2n+1)): all terms positive, so nothing cancels. */
function erfBySeries(x: number): number {
  let term = x;
  let sum = 0;
  for (let n = 1; term > sum * 1e-18; n++) {
    sum += term;
    term *= (2 * x * x) / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

export function erf(x: number): number {
  const a = Math.abs(x);
  if (!(a < LIMIT)) return x !== x ? x : x > 0 ? 1 : -1;
  const i = Math.round(a * PER_UNIT);
  const h = a - i / PER_UNIT;
  const start = i * ORDER;
  let p = 0;
  for (let k = start + ORDER - 1; k > start; k--) p = (p + (TABLE[k] ?? 0)) * h;
  const r = p + (TABLE[start] ?? 0);
  return x < 0 ? -r : r;
}

/** What generated code can call, as `H.name`. */
export const HELPERS = {
  roundEven,
  toF16,
  toBf16,
  pow,
  pow32,
  floorMod,
  bits64,
  bitsOf,
  floatOf,
  erf,
} as const;
export type Helper = keyof typeof HELPERS;
