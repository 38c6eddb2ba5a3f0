import assert from 'node:assert/strict';
import { close, faults, numbers, run } from './fixture';

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));
const softplus = (x: number): number => Math.log1p(Math.exp(x));

/** The error function by its series, which is enough for |x| < 4. */
function erf(x: number): number {
  let term = x;
  let sum = x;
  for (let n = 1; n < 200; n++) {
    term *= -(x * x) / n;
    sum += term / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * sum;
}

describe('ops: activations', () => {
  const x = [...numbers(20, 9), 0, -0.5, 0.5, 3, -3];

  const cases: readonly (readonly [string, (v: number) => number])[] = [
    ['relu(x)', (v) => Math.max(v, 0)],
    ['relu6(x * 3)', (v) => Math.min(Math.max(3 * v, 0), 6)],
    ['leaky_relu(x, 0.2)', (v) => (v < 0 ? 0.2 * v : v)],
    ['elu(x, alpha=1.5)', (v) => (v > 0 ? v : 1.5 * Math.expm1(v))],
    ['selu(x)', (v) => 1.0507009873554805 * (v > 0 ? v : 1.6732632423543772 * Math.expm1(v))],
    ['celu(x, alpha=2)', (v) => Math.max(v, 0) + Math.min(2 * Math.expm1(v / 2), 0)],
    ['gelu(x)', (v) => 0.5 * v * (1 + erf(v / Math.SQRT2))],
    [
      'gelu(x, approximate="tanh")',
      (v) => 0.5 * v * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v ** 3))),
    ],
    ['sigmoid(x)', sigmoid],
    ['logsigmoid(x)', (v) => Math.log(sigmoid(v))],
    ['hardsigmoid(x)', (v) => Math.min(Math.max(v / 6 + 0.5, 0), 1)],
    ['hardswish(x)', (v) => v * Math.min(Math.max(v / 6 + 0.5, 0), 1)],
    ['mish(x)', (v) => v * Math.tanh(softplus(v))],
    ['softplus(x)', softplus],
    ['softplus(x, beta=2)', (v) => softplus(2 * v) / 2],
    ['softsign(x)', (v) => v / (1 + Math.abs(v))],
    ['silu(x)', (v) => v * sigmoid(v)],
    ['thresholded_relu(x, 0.7)', (v) => (v > 0.7 ? v : 0)],
    ['hardshrink(x, lambd=1)', (v) => (Math.abs(v) > 1 ? v : 0)],
    ['softshrink(x, lambd=1)', (v) => Math.sign(v) * Math.max(Math.abs(v) - 1, 0)],
    ['swiglu(x, x + 1)', (v) => v * sigmoid(v) * (v + 1)],
  ];
  for (const [expression, f] of cases) {
    it(expression, () => {
      const r = run(`input x: f32[${x.length}]\ny = ${expression}\noutput y`, { x });
      close(r.y.values, x.map(f), 1e-9);
    });
  }

  it('does not overflow far from 0', () => {
    const far = [-800, -90, 90, 800];
    const r = run(`input x: f32[4]\ny = softplus(x)\nz = silu(x)\noutput y\noutput z`, { x: far });
    close(r.outputs['y']?.values ?? [], [0, Math.exp(-90), 90, 800]);
    close(r.outputs['z']?.values ?? [], [0, 0, 90, 800], 1e-30);
  });

  it('prelu has one weight, or one per channel', () => {
    const source = 'input x: f32[1, 2, 2]\nparam w: f32[2]\ny = prelu(x, w)\noutput y';
    close(run(source, { x: [-1, 1, -2, 2], w: [0.5, 0.1] }).y.values, [-0.5, 1, -0.2, 2]);
  });

  it('glu splits the axis in halves, and needs an even one', () => {
    const r = run('input x: f32[2, 4]\ny = glu(x)\noutput y', { x: [1, 2, 3, 4, 5, 6, 7, 8] });
    close(r.y.values, [sigmoid(3), 2 * sigmoid(4), 5 * sigmoid(7), 6 * sigmoid(8)]);
    assert.match(faults('input x: f32[2, 3]\ny = glu(x)\noutput y')[0] ?? '', /must be even/);
  });
});
