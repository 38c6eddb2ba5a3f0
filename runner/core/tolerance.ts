/**
 * How much a GPU result may differ from the float64 reference.
 *
 * Errors are relative to the larger of the element and the *scale* of its tensor: its root mean square,
 * or that of what was added up to it where that is more. So an element, or a tensor, that cancels to
 * almost nothing (the sum of what was centred before) isn't held against a kernel. The *floor* of a value is what
 * honest arithmetic in its types costs: rounding where it is stored or narrowed, the sums' length, the
 * functions used (WGSL allows transcendental ones many units in the last place), and what its operands
 * bring along. A fused kernel may reach twice the error of the unfused one instead, but not more than
 * the *cap*, {@link CAP} floors: an error that both plans share is still an error.
 *
 * Values that aren't floats are exact when nothing they come from is a float. Otherwise (an argmax, a
 * comparison, a quantisation) rounding may tip a few elements over; then their error is the share of
 * elements that differ. What is computed from rounded or truncated floats has steps, where one tipped
 * element is a large error: there only the unfused plan says what is honest.
 */
import { isFloat, isInteger, type DType } from '../../compiler/graph/dtype';
import type { Compute, Program } from '../../compiler/ir/compute';
import {
  visitExpr,
  type BinaryFn,
  type Expr,
  type UnaryFn,
  type ValueId,
} from '../../compiler/ir/expr';
import { evaluate } from '../../compiler/ir/indexExpr';
import type { ProgramRegion } from '../../compiler/ir/region';

const CAP = 64;

/** Half a unit in the last place of a number about 1. */
function unitOf(t: DType): number {
  switch (t) {
    case 'f16':
      return 2 ** -11;
    case 'bf16':
      return 2 ** -8;
    default:
      return 2 ** -24;
  }
}

/** Error of a function, in units of f32; WGSL's sine and cosine have an absolute error of 2^-11. */
function unitsOf(fn: UnaryFn | BinaryFn): number {
  switch (fn) {
    case 'sin':
    case 'cos':
    case 'tan':
    case 'atan2':
    case 'asin':
    case 'acos':
    case 'atan':
      return 4096;
    case 'exp':
    case 'expm1':
    case 'log':
    case 'log1p':
    case 'pow':
    case 'sinh':
    case 'cosh':
    case 'tanh':
    case 'asinh':
    case 'acosh':
    case 'atanh':
    case 'erf':
      return 64;
    case 'div':
    case 'sqrt':
    case 'rsqrt':
    case 'recip':
      return 4;
    default:
      return 1;
  }
}

export interface Expectation {
  readonly kind: 'float' | 'exact' | 'counted';
  readonly floor: number;
  readonly cap: number;
}

/** Share of elements that may tip over, and the most that the unfused plan can excuse. */
const COUNTED_FLOOR = 0.001;
const COUNTED_CAP = 0.02;

interface Known {
  readonly floor: number;
  readonly exact: boolean;
  readonly stepped: boolean;
}

/**
 * What to expect of each value. `runs` says how often a value in a loop's body was computed: what one
 * iteration costs the next brings along, and adds up like the terms of a sum.
 */
export function expectations(
  program: Program,
  runs: (v: ValueId) => number = () => 1,
): Map<ValueId, Expectation> {
  const known = new Map<ValueId, Known>();
  const out = new Map<ValueId, Expectation>();
  for (const v of program.values.values()) {
    if (v.role === 'computed') continue;
    const float = isFloat(v.dtype);
    known.set(v.id, { floor: float ? unitOf(v.dtype) : 0, exact: !float, stepped: false });
  }
  const regions = program.regions ?? [];
  /** Errors of iterations add up as if they were independent. */
  const grown = (k: Known, times: number): Known => ({
    ...k,
    floor: k.floor * Math.sqrt(Math.max(1, times)),
  });
  // What isn't exact comes to be known on the way round a loop: once for each loop inside another.
  for (let pass = 0; pass <= regions.length; pass++) {
    for (const c of program.computes) {
      const k = knownOf(program, c, known);
      known.set(c.value, k);
      const times = c.region === undefined ? 1 : runs(c.value);
      out.set(c.value, expectationOf(c.dtype, grown(k, times)));
    }
    for (const r of regions)
      for (const { to, from, floorOf, times } of handedOver(r, runs)) {
        const dtype = program.values.get(to)?.dtype ?? 'f32';
        const all = from.flatMap((v) => known.get(v) ?? []);
        const floors = (floorOf ?? from).flatMap((v) => known.get(v)?.floor ?? []);
        const k = grown(
          {
            floor: Math.max(isFloat(dtype) ? unitOf(dtype) : 0, ...floors),
            exact: all.every((x) => x.exact),
            stepped: all.some((x) => x.stepped),
          },
          times,
        );
        known.set(to, k);
        out.set(to, expectationOf(dtype, k));
      }
  }
  return out;
}

interface HandedOver {
  readonly to: ValueId;
  readonly from: readonly ValueId[];
  /** Where its floor comes from; absent: from all of them. */
  readonly floorOf?: readonly ValueId[];
  /** How often errors have added up by then. */
  readonly times: number;
}

function handedOver(r: ProgramRegion, runs: (v: ValueId) => number): HandedOver[] {
  if (r.kind === 'branch')
    return r.results.map((to, k) => ({
      to,
      from: r.arms.flatMap((a) => a.gives[k] ?? []),
      times: 1,
    }));
  return [
    ...r.carried.flatMap(({ initial, formal, next, result }): HandedOver[] => [
      // One iteration's: all of them are counted in the result.
      { to: formal, from: [initial, next], floorOf: [initial], times: 1 },
      { to: result, from: [initial, next], times: runs(next) },
    ]),
    ...r.sliced.map((s) => ({ to: s.formal, from: [s.source], times: 1 })),
    ...r.stacked.map((s) => ({ to: s.result, from: [s.element], times: runs(s.element) })),
  ];
}

function knownOf(program: Program, c: Compute, known: ReadonlyMap<ValueId, Known>): Known {
  const trips = c.reduce.reduce(
    (n, r) => n * evaluate(r.extent, (name) => program.dims.get(name)),
    1,
  );
  const kind = c.monoid?.kind;
  let units = 8 + (kind === 'sum' || kind === 'prod' ? 4 * Math.sqrt(trips) : 0);
  let narrowest = unitOf(c.dtype);
  let brought = 0;
  let exact = !isFloat(c.dtype);
  let stepped = kind === 'argmax' || kind === 'argmin';
  visitExpr(c.body, (e) => {
    if (e.op === 'unary' || e.op === 'binary') units += unitsOf(e.fn);
    if (isFloat(e.dtype)) {
      narrowest = Math.max(narrowest, unitOf(e.dtype));
      exact = false;
    }
    if (e.op === 'unary') stepped ||= STEPS.has(e.fn);
    if (e.op === 'cast') stepped ||= isFloat(e.a.dtype) && isInteger(e.dtype);
    if (e.op === 'load') {
      const from = known.get(e.value);
      brought = Math.max(brought, from?.floor ?? 0);
      exact &&= from?.exact ?? false;
      stepped ||= from?.stepped ?? false;
    }
  });
  const own = units * 2 ** -24 + (narrowest > 2 ** -24 ? 4 * narrowest : 0);
  return { floor: exact ? 0 : Math.hypot(own, brought), exact, stepped: stepped && !exact };
}

const STEPS: ReadonlySet<UnaryFn> = new Set<UnaryFn>([
  'floor',
  'ceil',
  'round',
  'trunc',
  'sign',
  'bitsof',
  'floatof',
]);

function expectationOf(dtype: DType, k: Known): Expectation {
  if (k.exact) return { kind: 'exact', floor: 0, cap: 0 };
  if (!isFloat(dtype)) return { kind: 'counted', floor: COUNTED_FLOOR, cap: COUNTED_CAP };
  return { kind: 'float', floor: k.floor, cap: k.stepped ? Infinity : CAP * k.floor };
}

/** Errors of one array against the reference. */
export interface Errors {
  readonly maxAbs: number;
  readonly maxRel: number;
  /** Linear index of the largest relative error. */
  readonly at: number;
}

const LARGEST: Partial<Record<DType, number>> = {
  f16: 65504,
  bf16: 3.3895313892515355e38,
  f32: 3.4028234663852886e38,
  f64: 3.4028234663852886e38,
};

/**
 * The size that a compute's results would have if nothing cancelled: from the scales of what it reads,
 * by sums and products as if their terms were independent. 0 where other functions are in the way.
 */
export function uncancelled(
  program: Program,
  c: Compute,
  scaleOf: (v: ValueId) => number | undefined,
): number {
  const kind = c.monoid?.kind ?? 'sum';
  if (!isFloat(c.dtype) || (kind !== 'sum' && kind !== 'max' && kind !== 'min')) return 0;
  const size = (e: Expr): number => {
    switch (e.op) {
      case 'const':
        return Math.abs(Number(e.value));
      case 'index':
        return 0;
      case 'load':
        return scaleOf(e.value) ?? 0;
      case 'cast':
        return isFloat(e.dtype) ? size(e.a) : 0;
      case 'unary':
        return e.fn === 'neg' || e.fn === 'abs' ? size(e.a) : 0;
      case 'binary':
        if (e.fn === 'add' || e.fn === 'sub') return Math.hypot(size(e.a), size(e.b));
        return e.fn === 'mul' ? size(e.a) * size(e.b) : 0;
      case 'select':
      case 'when':
        return Math.max(size(e.then), size(e.else));
    }
  };
  const trips = c.reduce.reduce(
    (n, r) => n * evaluate(r.extent, (name) => program.dims.get(name)),
    1,
  );
  const one = size(c.body);
  const all = kind === 'sum' ? one * Math.sqrt(trips) : one;
  return all < Infinity ? all : 0;
}

/** Errors against the reference, relative to the elements or the scale, whichever is larger. */
export function compare(
  got: ArrayLike<number>,
  expected: ArrayLike<number>,
  t: DType,
  kind: Expectation['kind'],
  atLeast = 0,
): Errors {
  const scale = isFloat(t) ? Math.max(atLeast, rootMeanSquare(expected)) : 0;
  const largest = LARGEST[t] ?? Infinity;
  let maxAbs = 0;
  let maxRel = 0;
  let at = 0;
  let differing = 0;
  for (let i = 0; i < expected.length; i++) {
    const g = got[i] ?? NaN;
    const e = expected[i] ?? NaN;
    if (g === e || (g !== g && e !== e)) continue;
    let abs = Math.abs(g - e);
    let rel = abs / Math.max(Math.abs(e), scale, 1e-30);
    if (!(abs < Infinity)) {
      // The reference knows no overflow: beyond the type's range an infinity of its sign is right.
      if (Math.abs(e) > largest && g === Math.sign(e) * Infinity) continue;
      abs = rel = Number.MAX_VALUE;
    }
    differing++;
    if (abs > maxAbs) maxAbs = abs;
    if (rel > maxRel) {
      maxRel = rel;
      at = i;
    }
  }
  if (kind === 'counted') maxRel = expected.length === 0 ? 0 : differing / expected.length;
  return { maxAbs, maxRel, at };
}

/** The share of elements that are further from the expected than `tolerance`, relative to them or to the scale. */
export function farShare(
  got: ArrayLike<number>,
  expected: ArrayLike<number>,
  scale: number,
  tolerance: number,
): number {
  const least = Math.max(scale, rootMeanSquare(expected), 1e-30);
  let far = 0;
  for (let i = 0; i < expected.length; i++) {
    const g = got[i] ?? NaN;
    const e = expected[i] ?? NaN;
    if (g === e || (g !== g && e !== e)) continue;
    if (!(Math.abs(g - e) <= tolerance * Math.max(Math.abs(e), least))) far++;
  }
  return expected.length === 0 ? 0 : far / expected.length;
}

export function rootMeanSquare(x: ArrayLike<number>): number {
  let sum = 0;
  let n = 0;
  for (let i = 0; i < x.length; i++) {
    const v = x[i] ?? 0;
    if (v - v !== 0) continue;
    sum += v * v;
    n++;
  }
  return n === 0 ? 0 : Math.sqrt(sum / n);
}
