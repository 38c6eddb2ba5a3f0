/**
 * When an expected output can't be met: files made in single precision hold that precision's noise.
 *
 * A case whose expected values differ from the exact result (computed in float64) by more than the
 * comparison allows asks for another program's rounding errors, which no correct program can promise
 * to repeat. It is told apart from a failure by three conditions, all of which must hold for every
 * element that differs: the exact result misses the expectation too; ours is nearer to the exact one;
 * and the difference is within a few units in the last place of the tensor's largest element.
 */
import type { ValueId } from '../../compiler/ir/expr';
import { interpret } from '../../compiler/reference';
import type { Prepared } from '../execute';
import { toleranceFor } from '../tensors/compare';
import { type HostTensor, toNumbers } from '../tensors/tensor';

/** Units in the last place of the largest element that count as rounding noise. */
const NOISE_ULPS = 4;
const F32_EPSILON = 2 ** -23;

export function expectationIsInexact(
  prepared: Prepared,
  output: number,
  got: HostTensor,
  expected: HostTensor,
): boolean {
  if (expected.dtype !== 'f32' || got.dtype !== 'f32') return false;
  const { program } = prepared.compilation;
  const value = program.outputs[output]?.value;
  if (value === undefined) return false;
  const inputs = new Map<ValueId, ArrayLike<number>>(
    prepared.inputs.map((i) => [i.buffer, i.data]),
  );
  const exact = interpret(program, inputs, { keep: new Set([value]) }).get(value);
  if (!exact) return false;
  const a = toNumbers(got);
  const b = toNumbers(expected);
  const { rtol, atol } = toleranceFor(expected);
  let largest = 0;
  for (const y of b) if (Number.isFinite(y)) largest = Math.max(largest, Math.abs(y));
  const noise = NOISE_ULPS * F32_EPSILON * largest;
  for (let i = 0; i < b.length; i++) {
    const x = a[i] ?? NaN;
    const y = b[i] ?? NaN;
    const z = exact[i] ?? NaN;
    const allowed = atol + rtol * Math.abs(y);
    if (x === y || Math.abs(x - y) <= allowed || (Number.isNaN(x) && Number.isNaN(y))) continue;
    const excused =
      Math.abs(z - y) > allowed && Math.abs(x - z) < Math.abs(y - z) && Math.abs(x - y) <= noise;
    if (!excused) return false;
  }
  return true;
}
