/**
 * Recurrent networks: RNN, GRU, LSTM.
 *
 * The recurrence is unrolled over a short sequence, so that steps fuse with each other, and is a loop
 * over a longer one, whose body is compiled once. The product with the input is one contraction for all
 * steps; each step then has the product with the state and its gates.
 *
 * Vocabulary
 *  - *pre-activation*: what a gate's activation is applied to: input and state products and biases.
 *  - *valid*: a step below its batch element's sequence length; other steps keep the state, and their
 *    output is 0.
 */
import type { DType } from '../graph/dtype';
import { cast, constant, type Expr, indexValue, select, unary, when } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import { knownLength, stepElement, UNROLL_LIMIT } from './linearAttention';
import type { LowerContext, LTensor, OpDef } from './op';
import {
  at,
  below,
  clamp,
  greatest,
  minus,
  over,
  plus,
  requireShape,
  sigmoid,
  sumOfProducts,
  times,
} from './products';
import { computeFloat } from './shared';

type Activation = (x: Expr) => Expr;

interface ActivationKind {
  /** Defaults of alpha and beta, where it takes them. */
  readonly alpha?: number;
  readonly beta?: number;
  make(alpha: number, beta: number): Activation;
}

const ACTIVATIONS: Readonly<Record<string, ActivationKind>> = {
  relu: { make: () => (x) => greatest(x, 0) },
  tanh: { make: () => (x) => unary('tanh', x) },
  sigmoid: { make: () => sigmoid },
  affine: { alpha: 1, beta: 0, make: (a, b) => (x) => plus(times(x, a), b) },
  leakyrelu: { alpha: 0.01, make: (a) => (x) => select(below(x, 0), times(x, a), x) },
  thresholdedrelu: {
    alpha: 1,
    make: (a) => (x) => select(below(x, a), constant(0, x.dtype), x),
  },
  scaledtanh: { alpha: 1, beta: 1, make: (a, b) => (x) => times(unary('tanh', times(x, b)), a) },
  hardsigmoid: { alpha: 0.2, beta: 0.5, make: (a, b) => (x) => clamp(plus(times(x, a), b), 0, 1) },
  elu: { alpha: 1, make: (a) => (x) => select(below(x, 0), times(unary('expm1', x), a), x) },
  softsign: { make: () => (x) => over(x, plus(unary('abs', x), 1)) },
  softplus: {
    // log(1 + exp(x)), without overflow.
    make: () => (x) =>
      plus(greatest(x, 0), unary('log1p', unary('exp', unary('neg', unary('abs', x))))),
  },
};

function numbersAttr(ctx: LowerContext, name: string): readonly number[] {
  return ctx.has(name) ? ctx.ints(name) : [];
}

/** `perDirection` activations for each direction; alphas and betas are dealt out in order to those that take them. */
function activationsOf(
  ctx: LowerContext,
  directions: number,
  defaults: readonly string[],
): readonly (readonly Activation[])[] {
  const attr = ctx.node.attrs['activations'];
  const given = Array.isArray(attr)
    ? attr.filter((a): a is string => typeof a === 'string')
    : undefined;
  const one = defaults.length;
  const names =
    given && given.length > 0 ? given : Array.from({ length: directions }, () => defaults).flat();
  if (names.length !== one * directions) {
    ctx.fail(
      'BAD_ATTRIBUTE',
      `activations has ${names.length} entries; it takes ${one} for each of ${directions} directions`,
    );
  }
  const alphas = [...numbersAttr(ctx, 'activation_alpha')];
  const betas = [...numbersAttr(ctx, 'activation_beta')];
  const made = names.map((name) => {
    const kind = ACTIVATIONS[name.toLowerCase()];
    if (!kind) {
      return ctx.fail(
        'BAD_ATTRIBUTE',
        `activation '${name}' is none of ${Object.keys(ACTIVATIONS).join(', ')}`,
      );
    }
    const alpha = kind.alpha === undefined ? 0 : (alphas.shift() ?? kind.alpha);
    const beta = kind.beta === undefined ? 0 : (betas.shift() ?? kind.beta);
    return kind.make(alpha, beta);
  });
  return Array.from({ length: directions }, (_, d) => made.slice(d * one, (d + 1) * one));
}

/** What the three cells have in common. */
interface Recurrence {
  readonly x: LTensor;
  readonly batch: Dim;
  readonly hidden: Dim;
  readonly steps: number;
  readonly directions: number;
  /** Direction d runs backwards. */
  readonly reversed: (d: number) => boolean;
  readonly acc: DType;
  readonly r: LTensor;
  /** W·x of all gates, [steps, batch, gates · hidden]. */
  projected(d: number): LTensor;
  /** The recurrent bias of gate g. */
  bias(d: number, g: number, h: IndexExpr): Expr | undefined;
  /** R·state of gate g. */
  recurrent(d: number, g: number, gates: number, state: StateOf): LTensor;
  /** State operand `slot` of direction d, zero when left out. */
  initial(slot: number, d: number): StateOf;
  clip(e: Expr): Expr;
  /** Step t of a direction; `projected` is its share of W·x, [batch, gates · hidden]. */
  step(d: number, t: Expr, projected: (b: IndexExpr, row: IndexExpr) => Expr): Step;
}

/** One step of one direction. */
interface Step {
  readonly d: number;
  /** W·x (+ its bias) of gate g. */
  input(g: number, b: IndexExpr, h: IndexExpr): Expr;
  /** `fresh` where the step is valid, `kept` where it isn't. */
  keep(b: IndexExpr, fresh: Expr, kept: Expr): Expr;
}

/** Element [batch, hidden] of a state. */
type StateOf = (b: IndexExpr, h: IndexExpr) => Expr;

function recurrence(ctx: LowerContext, gates: number): Recurrence {
  const given = ctx.input(0);
  const [w, r, bias, lengths] = [ctx.input(1), ctx.input(2), ctx.optional(3), ctx.optional(4)];
  for (const [t, what] of [
    [given, 'X'],
    [w, 'W'],
    [r, 'R'],
  ] as const) {
    if (t.shape.length !== 3) {
      ctx.fail('SHAPE_MISMATCH', `${what} must have rank 3; it has shape ${I.printShape(t.shape)}`);
    }
  }
  const layout = ctx.int('layout', 0);
  const x =
    layout === 0
      ? given
      : ctx.view([at(given.shape, 1), at(given.shape, 0), at(given.shape, 2)], given, (i) => [
          at(i, 1),
          at(i, 0),
          at(i, 2),
        ]);
  const direction = ctx.str('direction', 'forward');
  if (!['forward', 'reverse', 'bidirectional'].includes(direction)) {
    ctx.fail(
      'BAD_ATTRIBUTE',
      `direction '${direction}' is none of forward, reverse, bidirectional`,
    );
  }
  const directions = direction === 'bidirectional' ? 2 : 1;
  const [length, batch, width] = [at(x.shape, 0), at(x.shape, 1), at(x.shape, 2)];
  const hidden = at(r.shape, 2);
  const stated = ctx.int('hidden_size', 0);
  if (stated > 0) ctx.requireEqual(hidden, I.num(stated), 'hidden_size and the last dim of R');
  const rows = I.mul(hidden, gates);
  requireShape(ctx, w.shape, [I.num(directions), rows, width], 'W');
  requireShape(ctx, r.shape, [I.num(directions), rows, hidden], 'R');
  if (bias) requireShape(ctx, bias.shape, [I.num(directions), I.mul(rows, 2)], 'B');
  if (lengths) requireShape(ctx, lengths.shape, [batch], 'sequence_lens');
  const steps = knownLength(ctx, length, 'a recurrent network');
  const acc = computeFloat(x.dtype);
  const limit = ctx.has('clip') ? ctx.float('clip') : 0;

  const row = (g: number, h: IndexExpr): IndexExpr => I.add(I.mul(hidden, g), h);
  const looped = steps > UNROLL_LIMIT;
  // A loop takes slices of what lies in memory step after step.
  const all = looped
    ? undefined
    : sumOfProducts(
        ctx,
        { shape: [directions, length, batch, rows], over: [width], dtype: acc },
        (index, over) => {
          const [d, t, b, k] = [at(index, 0), at(index, 1), at(index, 2), at(over, 0)];
          return [x.at([t, b, k]), w.at([d, at(index, 3), k])];
        },
      );
  const projected = (d: number): LTensor =>
    all
      ? ctx.view([length, batch, rows], all, (i) => [I.num(d), ...i])
      : sumOfProducts(
          ctx,
          { shape: [length, batch, rows], over: [width], dtype: acc },
          (index, over) => {
            const [t, b, k] = [at(index, 0), at(index, 1), at(over, 0)];
            return [x.at([t, b, k]), w.at([I.num(d), at(index, 2), k])];
          },
        );
  const biasAt = (d: number, g: number, h: IndexExpr): Expr | undefined =>
    bias && cast(bias.at([I.num(d), row(g, h)]), acc);
  return {
    x,
    batch,
    hidden,
    steps,
    directions,
    reversed: (d) => direction === 'reverse' || d === 1,
    acc,
    r,
    projected,
    bias: (d, g, h) => biasAt(d, gates + g, h),
    recurrent: (d, first, count, state) =>
      sumOfProducts(
        ctx,
        { shape: [batch, I.mul(hidden, count)], over: [hidden], dtype: acc },
        (index, over) => {
          const k = at(over, 0);
          return [
            state(at(index, 0), k),
            r.at([I.num(d), I.add(I.mul(hidden, first), at(index, 1)), k]),
          ];
        },
      ),
    initial: (slot, d) => {
      const t = ctx.optional(slot);
      if (!t) return () => constant(0, acc);
      const shape = [I.num(directions), batch, hidden];
      requireShape(
        ctx,
        t.shape,
        layout === 0 ? shape : [batch, I.num(directions), hidden],
        'the initial state',
      );
      return (b, h) => cast(t.at(layout === 0 ? [I.num(d), b, h] : [b, I.num(d), h]), acc);
    },
    clip: (e) => (limit > 0 ? clamp(e, -limit, limit) : e),
    step: (d, t, share) => ({
      d,
      input: (g, b, h) => {
        const e = share(b, row(g, h));
        const own = biasAt(d, g, h);
        return own ? plus(e, own) : e;
      },
      keep: (b, fresh, kept) =>
        lengths ? select(below(t, cast(lengths.at([b]), 'i32')), fresh, kept) : fresh,
    }),
  };
}

const stateOf =
  (t: LTensor): StateOf =>
  (b, h) =>
    t.at([b, h]);

/** Of one direction: the output of a step, and the last states. */
interface Run {
  output(t: IndexExpr, index: readonly IndexExpr[]): Expr;
  readonly last: readonly LTensor[];
}

/** A step's next states, the output first. */
type Cell = (step: Step, states: readonly StateOf[]) => readonly LTensor[];

/** Runs each direction with `cell`. */
function runAll(
  ctx: LowerContext,
  rec: Recurrence,
  slots: readonly number[],
  cell: Cell,
): readonly Run[] {
  if (rec.steps > UNROLL_LIMIT) return loopAll(ctx, rec, slots, cell);
  return Array.from({ length: rec.directions }, (_, d) => {
    let states = slots.map((s) => rec.initial(s, d));
    let last: readonly LTensor[] = [];
    const projected = rec.projected(d);
    const outputs = new Array<LTensor | undefined>(rec.steps).fill(undefined);
    for (let i = 0; i < rec.steps; i++) {
      const t = rec.reversed(d) ? rec.steps - 1 - i : i;
      const step = rec.step(d, indexValue(I.num(t), 'i32'), (b, row) =>
        projected.at([I.num(t), b, row]),
      );
      last = cell(step, states);
      states = last.map(stateOf);
      outputs[t] = at(last, 0);
    }
    const steps = outputs.filter((o) => o !== undefined);
    return { output: (t, index) => stepElement(steps, t, index), last };
  });
}

/** All directions in one loop: their bodies don't depend on each other, and share grids. */
function loopAll(
  ctx: LowerContext,
  rec: Recurrence,
  slots: readonly number[],
  cell: Cell,
): readonly Run[] {
  const directions = Array.from({ length: rec.directions }, (_, d) => d);
  const shape = [rec.batch, rec.hidden];
  const initial = directions.flatMap((d) =>
    slots.map((s) => {
      const state = rec.initial(s, d);
      return ctx.pointwise(shape, rec.acc, (i) => state(at(i, 0), at(i, 1)));
    }),
  );
  const all = <T>(list: readonly T[], d: number): readonly T[] =>
    list.slice(d * slots.length, (d + 1) * slots.length);
  const { states, stacked } = ctx.loop(
    {
      trips: I.num(rec.steps),
      initial,
      sliced: directions.map((d) => ({ source: rec.projected(d), reverse: rec.reversed(d) })),
      stacked: directions.map((d) => ({ reverse: rec.reversed(d) })),
    },
    (given) => {
      const i = cast(given.iteration.at([]), 'i32');
      const next = directions.map((d) => {
        const slice = at(given.slices, d);
        const t = rec.reversed(d) ? minus(rec.steps - 1, i) : i;
        const step = rec.step(d, t, (b, row) => slice.at([b, row]));
        return cell(step, all(given.states, d).map(stateOf));
      });
      return { states: next.flat(), rows: next.map((n) => at(n, 0)) };
    },
  );
  return directions.map((d) => ({
    output: (t, index) => at(stacked, d).at([t, ...index]),
    last: all(states, d),
  }));
}

/** Element of direction `d` out of one handle per direction. */
function perDirection(runs: readonly Run[], d: IndexExpr, of: (r: Run) => Expr): Expr {
  const first = of(at(runs, 0));
  const second = runs[1];
  if (!second) return first;
  return when([{ index: d, lo: I.num(0), hi: I.num(1) }], first, of(second));
}

/** Y, then the last states, in the operand's layout. */
function results(ctx: LowerContext, rec: Recurrence, runs: readonly Run[]): LTensor[] {
  const batchFirst = ctx.int('layout', 0) !== 0;
  const { x, batch, hidden } = rec;
  const directions = I.num(rec.directions);
  const length = I.num(rec.steps);
  const y = ctx.pointwise(
    batchFirst ? [batch, length, directions, hidden] : [length, directions, batch, hidden],
    x.dtype,
    (index) => {
      const [t, d, b] = batchFirst
        ? [at(index, 1), at(index, 2), at(index, 0)]
        : [at(index, 0), at(index, 1), at(index, 2)];
      const e = perDirection(runs, d, (run) => run.output(t, [b, at(index, 3)]));
      return cast(validOnly(ctx, t, b, e), x.dtype);
    },
  );
  const states = at(runs, 0).last.map((_, i) =>
    ctx.pointwise(
      batchFirst ? [batch, directions, hidden] : [directions, batch, hidden],
      x.dtype,
      (index) => {
        const [d, b] = batchFirst ? [at(index, 1), at(index, 0)] : [at(index, 0), at(index, 1)];
        return cast(
          perDirection(runs, d, (run) => at(run.last, i).at([b, at(index, 2)])),
          x.dtype,
        );
      },
    ),
  );
  return [y, ...states];
}

function validOnly(ctx: LowerContext, t: IndexExpr, b: IndexExpr, e: Expr): Expr {
  const lengths = ctx.optional(4);
  if (!lengths) return e;
  return select(below(indexValue(t, 'i32'), cast(lengths.at([b]), 'i32')), e, constant(0, e.dtype));
}

function lowerRnn(ctx: LowerContext): readonly LTensor[] {
  const rec = recurrence(ctx, 1);
  const activations = activationsOf(ctx, rec.directions, ['tanh']);
  const runs = runAll(ctx, rec, [5], (step, [h0]) => {
    const { d } = step;
    const state = h0 ?? (() => constant(0, rec.acc));
    const product = rec.recurrent(d, 0, 1, state);
    const f = at(at(activations, d), 0);
    return [
      ctx.pointwise([rec.batch, rec.hidden], rec.acc, (index) => {
        const [b, h] = [at(index, 0), at(index, 1)];
        const pre = sum(step.input(0, b, h), product.at([b, h]), rec.bias(d, 0, h));
        return step.keep(b, f(rec.clip(pre)), state(b, h));
      }),
    ];
  });
  return results(ctx, rec, runs);
}

function sum(...terms: readonly (Expr | undefined)[]): Expr {
  return terms.filter((t) => t !== undefined).reduce((a, b) => plus(a, b));
}

function lowerGru(ctx: LowerContext): readonly LTensor[] {
  const rec = recurrence(ctx, 3);
  const activations = activationsOf(ctx, rec.directions, ['sigmoid', 'tanh']);
  const resetAfter = ctx.bool('linear_before_reset', false);
  const [Z, R, H] = [0, 1, 2];
  const { batch, hidden, acc } = rec;
  const runs = runAll(ctx, rec, [5], (step, [h0]) => {
    const { d } = step;
    const state = h0 ?? (() => constant(0, acc));
    const [f, g] = [at(at(activations, d), 0), at(at(activations, d), 1)];
    const gates = rec.recurrent(d, Z, 2, state);
    const gate = (which: number, b: IndexExpr, h: IndexExpr): Expr => {
      const product = gates.at([b, I.add(I.mul(hidden, which), h)]);
      return f(rec.clip(sum(step.input(which, b, h), product, rec.bias(d, which, h))));
    };
    // The reset gate acts on the state before its product, or on the product.
    const reset = resetAfter
      ? undefined
      : ctx.pointwise([batch, hidden], acc, (index) =>
          times(gate(R, at(index, 0), at(index, 1)), state(at(index, 0), at(index, 1))),
        );
    const product = rec.recurrent(d, H, 1, reset ? stateOf(reset) : state);
    return [
      ctx.pointwise([batch, hidden], acc, (index) => {
        const [b, h] = [at(index, 0), at(index, 1)];
        const inner = sum(product.at([b, h]), rec.bias(d, H, h));
        const pre = plus(step.input(H, b, h), reset ? inner : times(gate(R, b, h), inner));
        const z = gate(Z, b, h);
        const next = plus(times(minus(1, z), g(rec.clip(pre))), times(z, state(b, h)));
        return step.keep(b, next, state(b, h));
      }),
    ];
  });
  return results(ctx, rec, runs);
}

function lowerLstm(ctx: LowerContext): readonly LTensor[] {
  const rec = recurrence(ctx, 4);
  const activations = activationsOf(ctx, rec.directions, ['sigmoid', 'tanh', 'tanh']);
  const peepholes = ctx.optional(7);
  const { batch, hidden, acc } = rec;
  if (peepholes) requireShape(ctx, peepholes.shape, [I.num(rec.directions), I.mul(hidden, 3)], 'P');
  const coupled = ctx.bool('input_forget', false);
  // Gates of W, R and B; of the peepholes: input, output, forget.
  const [IN, OUT, FORGET, CELL] = [0, 1, 2, 3];
  const peep = (d: number, g: number, h: IndexExpr, c: Expr): Expr | undefined =>
    peepholes && times(cast(peepholes.at([I.num(d), I.add(I.mul(hidden, g), h)]), acc), c);
  const runs = runAll(ctx, rec, [5, 6], (step, [h0, c0]) => {
    const { d } = step;
    const none: StateOf = () => constant(0, acc);
    const [state, cell] = [h0 ?? none, c0 ?? none];
    const [f, g, hOf] = [0, 1, 2].map((i) => at(at(activations, d), i)) as [
      Activation,
      Activation,
      Activation,
    ];
    const product = rec.recurrent(d, 0, 4, state);
    const pre = (gate: number, b: IndexExpr, h: IndexExpr, own?: Expr): Expr =>
      rec.clip(
        sum(
          step.input(gate, b, h),
          product.at([b, I.add(I.mul(hidden, gate), h)]),
          rec.bias(d, gate, h),
          own,
        ),
      );
    const fresh = ctx.pointwise([batch, hidden], acc, (index) => {
      const [b, h] = [at(index, 0), at(index, 1)];
      const old = cell(b, h);
      const i = f(pre(IN, b, h, peep(d, 0, h, old)));
      const forget = coupled ? minus(1, i) : f(pre(FORGET, b, h, peep(d, 2, h, old)));
      const next = plus(times(forget, old), times(i, g(pre(CELL, b, h))));
      return step.keep(b, next, old);
    });
    const output = ctx.pointwise([batch, hidden], acc, (index) => {
      const [b, h] = [at(index, 0), at(index, 1)];
      const c = fresh.at([b, h]);
      const o = f(pre(OUT, b, h, peep(d, 1, h, c)));
      return step.keep(b, times(o, hOf(c)), state(b, h));
    });
    return [output, fresh];
  });
  return results(ctx, rec, runs);
}

export const recurrentOps: readonly OpDef[] = [
  { name: 'rnn', onnx: ['RNN'], lower: lowerRnn },
  { name: 'gru', onnx: ['GRU'], lower: lowerGru },
  { name: 'lstm', onnx: ['LSTM'], lower: lowerLstm },
];
