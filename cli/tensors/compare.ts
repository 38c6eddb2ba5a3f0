/**
 * Comparing a result with the expected tensor, as ONNX's own backend tests do it:
 * |got - expected| <= atol + rtol * |expected|, NaN equal to NaN, infinities equal to themselves.
 */
import { type HostTensor, toNumbers } from './tensor';

export interface Tolerance {
  readonly rtol: number;
  readonly atol: number;
}

/** Half precision keeps three decimal digits, and sums of halves fewer. */
export function toleranceFor(t: HostTensor): Tolerance {
  return t.dtype === 'f16' || t.dtype === 'bf16'
    ? { rtol: 1e-2, atol: 1e-3 }
    : { rtol: 1e-3, atol: 1e-7 };
}

export interface Comparison {
  readonly ok: boolean;
  readonly maxAbsErr: number;
  /** Greatest |got - expected| / |expected| where expected isn't 0. */
  readonly maxRelErr: number;
  readonly wrong: number;
  readonly message?: string;
}

export function compareTensors(got: HostTensor, expected: HostTensor): Comparison {
  const differs = (message: string): Comparison => ({
    ok: false,
    maxAbsErr: Infinity,
    maxRelErr: Infinity,
    wrong: 0,
    message,
  });
  if (got.dtype !== expected.dtype)
    return differs(`it is ${got.dtype}, expected is ${expected.dtype}`);
  const shapes = [got.shape, expected.shape].map((s) => `[${s.join(', ')}]`);
  if (shapes[0] !== shapes[1])
    return differs(`its shape is ${shapes[0] ?? ''}, expected is ${shapes[1] ?? ''}`);
  const { rtol, atol } = toleranceFor(expected);
  const a = toNumbers(got);
  const b = toNumbers(expected);
  let maxAbsErr = 0;
  let maxRelErr = 0;
  let wrong = 0;
  let worst = -1;
  let worstExcess = 0;
  for (let i = 0; i < b.length; i++) {
    const x = a[i] ?? NaN;
    const y = b[i] ?? NaN;
    if (x === y || (Number.isNaN(x) && Number.isNaN(y))) continue;
    const error = Math.abs(x - y);
    const abs = Number.isNaN(error) ? Infinity : error;
    maxAbsErr = Math.max(maxAbsErr, abs);
    if (y !== 0) maxRelErr = Math.max(maxRelErr, Number.isFinite(y) ? abs / Math.abs(y) : Infinity);
    // Against an infinity the right side is infinite too, but only equality will do.
    if (Number.isFinite(y) && abs <= atol + rtol * Math.abs(y)) continue;
    wrong++;
    const excess = Number.isFinite(y) ? abs / (atol + rtol * Math.abs(y)) : Infinity;
    if (worst < 0 || excess > worstExcess) {
      worst = i;
      worstExcess = excess;
    }
  }
  if (wrong === 0) return { ok: true, maxAbsErr, maxRelErr, wrong };
  return {
    ok: false,
    maxAbsErr,
    maxRelErr,
    wrong,
    message:
      `${wrong} of ${b.length} elements differ; at [${position(worst, expected.shape).join(', ')}] ` +
      `it is ${a[worst] ?? NaN}, expected is ${b[worst] ?? NaN}`,
  };
}

function position(flat: number, shape: readonly number[]): number[] {
  const out: number[] = [];
  let rest = flat;
  for (let k = shape.length - 1; k >= 0; k--) {
    const d = shape[k] ?? 1;
    out.unshift(rest % d);
    rest = Math.floor(rest / d);
  }
  return out;
}
