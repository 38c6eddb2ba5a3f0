/**
 * Optimisers: one step of training, over any number of parameters. A node's operands are the learning
 * rate, the step's number, then all parameters, all gradients, and the running moments; its results
 * the new parameters and moments. Each parameter is one elementwise body.
 *
 * Names follow the papers: r the rate, g the gradient with its regularisation, v the first moment,
 * h the second.
 */
import { cast, constant, type Expr, select, unary, binary } from '../ir/expr';
import type { LowerContext, LTensor, OpDef } from './op';
import { at, minus, over, plus, times } from './products';
import { computeFloat, scalarElement } from './shared';

interface Step {
  /** The learning rate and the step's number, in the dtype of the arithmetic. */
  readonly r: Expr;
  readonly t: Expr;
}

/** The new values from the old: the parameter, its regularised gradient, its moments. */
type Rule = (ctx: LowerContext, s: Step, x: Expr, g: Expr, moments: readonly Expr[]) => Expr[];

/** `moments`: how many running moments a parameter has. */
function lowerOptimiser(ctx: LowerContext, moments: number, rule: Rule): readonly LTensor[] {
  const each = 2 + moments;
  const count = (ctx.arity - 2) / each;
  if (!Number.isInteger(count) || count < 1)
    ctx.fail(
      'BAD_OPERANDS',
      `takes the rate, the step, and ${each} tensors for each parameter; there are ${ctx.arity} operands`,
    );
  const norm = ctx.float('norm_coefficient', 0);
  const results: LTensor[][] = [];
  for (let k = 0; k < count; k++) {
    const tensors = Array.from({ length: each }, (_, j) => ctx.input(2 + j * count + k));
    const x = at(tensors, 0);
    tensors.forEach((t) => {
      if (t.shape.length !== x.shape.length)
        ctx.fail('SHAPE_MISMATCH', 'a parameter, its gradient and its moments differ in shape');
      t.shape.forEach((d, i) => {
        ctx.requireEqual(d, at(x.shape, i), `dim ${i} of a parameter and of what belongs to it`);
      });
    });
    const t = computeFloat(x.dtype);
    const r = cast(scalarElement(ctx, ctx.input(0), 'the learning rate'), t);
    const step = cast(scalarElement(ctx, ctx.input(1), 'the number of the step'), t);
    const made = Array.from({ length: 1 + moments }, (_, j) =>
      ctx.pointwise(x.shape, x.dtype, (index) => {
        const old = cast(x.at(index), t);
        const g = plus(times(old, norm), cast(at(tensors, 1).at(index), t));
        const now = tensors.slice(2).map((m) => cast(m.at(index), t));
        return cast(at(rule(ctx, { r, t: step }, old, g, now), j), x.dtype);
      }),
    );
    results.push(made);
  }
  return Array.from({ length: 1 + moments }, (_, j) => results.map((made) => at(made, j))).flat();
}

const adagrad: Rule = (ctx, { r, t }, x, g, [h]) => {
  const rate = over(r, plus(times(t, ctx.float('decay_factor', 0)), 1));
  const second = plus(h ?? constant(0, g.dtype), times(g, g));
  const root = plus(unary('sqrt', second), ctx.float('epsilon', 0));
  return [minus(x, over(times(rate, g), root)), second];
};

const adam: Rule = (ctx, { r, t }, x, g, [v, h]) => {
  const [alpha, beta] = [ctx.float('alpha', 0.9), ctx.float('beta', 0.999)];
  const zero = constant(0, g.dtype);
  const first = plus(times(v ?? zero, alpha), times(g, 1 - alpha));
  const second = plus(times(h ?? zero, beta), times(times(g, g), 1 - beta));
  const root = plus(unary('sqrt', second), ctx.float('epsilon', 0));
  const power = (base: number): Expr => minus(1, binary('pow', constant(base, g.dtype), t));
  const corrected = over(times(r, unary('sqrt', power(beta))), power(alpha));
  const rate = select(binary('gt', t, zero), corrected, r);
  const moved = minus(x, over(times(rate, first), root));
  return [times(moved, 1 - ctx.float('norm_coefficient_post', 0)), first, second];
};

const momentum: Rule = (ctx, { r, t }, x, g, [v]) => {
  const mode = ctx.str('mode', 'standard');
  if (mode !== 'standard' && mode !== 'nesterov')
    ctx.fail('BAD_ATTRIBUTE', `mode '${mode}' is neither standard nor nesterov`);
  const alpha = ctx.float('alpha');
  const zero = constant(0, g.dtype);
  // The first step takes the whole gradient.
  const share = select(
    binary('gt', t, zero),
    constant(ctx.float('beta'), g.dtype),
    constant(1, g.dtype),
  );
  const next = plus(times(v ?? zero, alpha), times(share, g));
  const step = mode === 'nesterov' ? plus(g, times(next, alpha)) : next;
  return [minus(x, times(r, step)), next];
};

const TRAINING = 'ai.onnx.preview.training';

export const trainingOps: readonly OpDef[] = [
  {
    name: 'adagrad',
    onnx: [`${TRAINING}:Adagrad`],
    lower: (ctx) => lowerOptimiser(ctx, 1, adagrad),
  },
  { name: 'adam', onnx: [`${TRAINING}:Adam`], lower: (ctx) => lowerOptimiser(ctx, 2, adam) },
  {
    name: 'momentum',
    onnx: [`${TRAINING}:Momentum`],
    lower: (ctx) => lowerOptimiser(ctx, 1, momentum),
  },
  {
    name: 'gradient',
    onnx: [`${TRAINING}:Gradient`],
    lower: (ctx) =>
      ctx.unsupported(
        'Gradient asks for the derivative of the graph; export the graph with its backward pass written out',
      ),
  },
];
