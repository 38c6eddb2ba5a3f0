/**
 * JavaScript text for each scalar function, by dtype: floats in float64, integers up to 32 bits with
 * wrap-around as WGSL has it, 64-bit integers as exact doubles (up to 2^53, without wrap-around).
 */
import { isFloat, isUnsigned, type DType } from '../graph/dtype';
import type { BinaryFn, UnaryFn } from '../ir/expr';

/** The text wrapped to 32 bits where the dtype is computed in 32 bits. */
export function wrap(text: string, t: DType): string {
  if (isFloat(t) || t === 'i64' || t === 'u64') return `(${text})`;
  return isUnsigned(t) || t === 'bool' ? `((${text}) >>> 0)` : `((${text}) | 0)`;
}

function exact64(t: DType): boolean {
  return t === 'i64' || t === 'u64';
}

export function unaryText(fn: UnaryFn, a: string, t: DType): string {
  switch (fn) {
    case 'neg':
      return isFloat(t) ? `(-${a})` : wrap(`0 - ${a}`, t);
    case 'abs':
      return isFloat(t) ? `Math.abs(${a})` : wrap(`Math.abs(${a})`, t);
    case 'sign':
    case 'exp':
    case 'expm1':
    case 'log':
    case 'log1p':
    case 'sqrt':
    case 'sin':
    case 'cos':
    case 'tan':
    case 'asin':
    case 'acos':
    case 'atan':
    case 'sinh':
    case 'cosh':
    case 'tanh':
    case 'asinh':
    case 'acosh':
    case 'atanh':
    case 'floor':
    case 'ceil':
    case 'trunc':
      return `Math.${fn}(${a})`;
    case 'rsqrt':
      return `(1 / Math.sqrt(${a}))`;
    case 'recip':
      return `(1 / ${a})`;
    case 'round':
      return `H.roundEven(${a})`;
    case 'erf':
      return `H.erf(${a})`;
    case 'not':
      return `(${a} === 0 ? 1 : 0)`;
    case 'bitnot':
      return exact64(t) ? `(-1 - ${a})` : wrap(`~${a}`, t);
    case 'isnan':
      return `(${a} !== ${a} ? 1 : 0)`;
    case 'isinf':
      return `(${a} === Infinity || ${a} === -Infinity ? 1 : 0)`;
    case 'bitsof':
      return `H.bitsOf(${a})`;
    case 'floatof':
      return `H.floatOf(${a})`;
  }
}

/** `t` is the dtype of both operands. Integer division by zero gives the dividend, its remainder 0, as in WGSL. */
export function binaryText(fn: BinaryFn, a: string, b: string, t: DType): string {
  const float = isFloat(t);
  switch (fn) {
    case 'add':
      return wrap(`${a} + ${b}`, t);
    case 'sub':
      return wrap(`${a} - ${b}`, t);
    case 'mul':
      return float || exact64(t) ? `(${a} * ${b})` : wrap(`Math.imul(${a}, ${b})`, t);
    case 'div':
      if (float) return `(${a} / ${b})`;
      return wrap(`${b} === 0 ? ${a} : Math.trunc(${a} / ${b})`, t);
    case 'mod':
      return float ? `H.floorMod(${a}, ${b})` : `(${b} === 0 ? 0 : H.floorMod(${a}, ${b}))`;
    case 'fmod':
      return float ? `(${a} % ${b})` : `(${b} === 0 ? 0 : ${a} % ${b})`;
    case 'pow':
      if (float || exact64(t)) return `H.pow(${a}, ${b})`;
      return wrap(`H.pow32(${a}, ${b})`, t);
    case 'min':
    case 'max':
      return `Math.${fn}(${a}, ${b})`;
    case 'atan2':
      return `Math.atan2(${a}, ${b})`;
    case 'eq':
      return `(${a} === ${b} ? 1 : 0)`;
    case 'ne':
      return `(${a} !== ${b} ? 1 : 0)`;
    case 'lt':
      return `(${a} < ${b} ? 1 : 0)`;
    case 'le':
      return `(${a} <= ${b} ? 1 : 0)`;
    case 'gt':
      return `(${a} > ${b} ? 1 : 0)`;
    case 'ge':
      return `(${a} >= ${b} ? 1 : 0)`;
    case 'and':
      return `(${a} & ${b})`;
    case 'or':
      return `(${a} | ${b})`;
    case 'xor':
      return `(${a} ^ ${b})`;
    case 'bitand':
      return exact64(t) ? `H.bits64('bitand', ${a}, ${b})` : wrap(`${a} & ${b}`, t);
    case 'bitor':
      return exact64(t) ? `H.bits64('bitor', ${a}, ${b})` : wrap(`${a} | ${b}`, t);
    case 'bitxor':
      return exact64(t) ? `H.bits64('bitxor', ${a}, ${b})` : wrap(`${a} ^ ${b}`, t);
    case 'shl':
      return exact64(t) ? `H.bits64('shl', ${a}, ${b})` : wrap(`${a} << ${b}`, t);
    case 'shr':
      if (exact64(t)) return `H.bits64('shr', ${a}, ${b})`;
      return isUnsigned(t) ? `(${a} >>> ${b})` : `(${a} >> ${b})`;
  }
}

/** An explicit conversion. A float that gets narrower is rounded; f64 counts as no wider than f32, since no adapter stores it. */
export function castText(a: string, from: DType, to: DType): string {
  if (from === to) return a;
  switch (to) {
    case 'bool':
      return `(${a} !== 0 ? 1 : 0)`;
    case 'i4':
      return `((${a} << 28) >> 28)`;
    case 'u4':
      return `(${a} & 15)`;
    case 'i8':
      return `((${a} << 24) >> 24)`;
    case 'i16':
      return `((${a} << 16) >> 16)`;
    case 'u8':
      return `(${a} & 255)`;
    case 'u16':
      return `(${a} & 65535)`;
    case 'i32':
      return `(${a} | 0)`;
    case 'u32':
      return `(${a} >>> 0)`;
    case 'i64':
      return isFloat(from) ? `(Math.trunc(${a}) || 0)` : a;
    case 'u64': {
      const whole = isFloat(from) ? `(Math.trunc(${a}) || 0)` : a;
      return isUnsigned(from) || from === 'bool'
        ? whole
        : `(${whole} < 0 ? ${whole} + 18446744073709551616 : ${whole})`;
    }
    case 'f16':
      return `H.toF16(${a})`;
    case 'bf16':
      return `H.toBf16(${a})`;
    case 'f32':
    case 'f64':
      return a;
  }
}
