/**
 * Optimisers against their definitions, over two parameters at once.
 */
import { close, numbers, type Operand, runNode } from './fixture';

const of = (seed: number, positive = false): Operand => ({
  shape: [3],
  values: numbers(3, seed).map((v) => (positive ? Math.abs(v) : v)),
});
const scalar = (v: number, dtype: Operand['dtype'] = 'f32'): Operand => ({
  shape: [],
  values: [v],
  ...(dtype ? { dtype } : {}),
});
const [x1, x2, g1, g2, v1, v2] = [1, 2, 3, 4, 5, 6].map((s) => of(s));
const [h1, h2] = [of(7, true), of(8, true)];

/** The results, each parameter by the rule for one element. */
function check(
  op: string,
  operands: readonly (Operand | undefined)[],
  attrs: Record<string, number | string>,
  t: number,
  moments: number,
  rule: (x: number, g: number, m: readonly number[]) => readonly number[],
): void {
  const all = operands.flatMap((o) => o ?? []);
  const results = runNode(op, [scalar(0.1), scalar(t, 'i64'), ...all], attrs, {
    results: 2 * (1 + moments),
  });
  for (let k = 0; k < 2; k++) {
    const of = (j: number, i: number): number => all[2 * j + k]?.values[i] ?? NaN;
    for (let j = 0; j <= moments; j++) {
      const want = [0, 1, 2].map((i) => {
        const m = Array.from({ length: moments }, (_, q) => of(2 + q, i));
        return rule(of(0, i), of(1, i), m)[j] ?? NaN;
      });
      close(results[2 * j + k]?.values ?? [], want);
    }
  }
}

describe('ops: optimisers', () => {
  it('Adagrad', () => {
    const attrs = { norm_coefficient: 0.01, decay_factor: 0.2, epsilon: 1e-3 };
    check('adagrad', [x1, x2, g1, g2, h1, h2], attrs, 5, 1, (x, g, [h = 0]) => {
      const r = 0.1 / (1 + 5 * 0.2);
      const d = 0.01 * x + g;
      const next = h + d * d;
      return [x - (r * d) / (Math.sqrt(next) + 1e-3), next];
    });
  });

  it('Adam, corrected but in its first step', () => {
    const attrs = {
      norm_coefficient: 0.01,
      alpha: 0.8,
      beta: 0.9,
      epsilon: 1e-3,
      norm_coefficient_post: 0.1,
    };
    for (const t of [0, 4])
      check('adam', [x1, x2, g1, g2, v1, v2, h1, h2], attrs, t, 2, (x, g, [v = 0, h = 0]) => {
        const d = 0.01 * x + g;
        const [nv, nh] = [0.8 * v + 0.2 * d, 0.9 * h + 0.1 * d * d];
        const r = t > 0 ? (0.1 * Math.sqrt(1 - 0.9 ** t)) / (1 - 0.8 ** t) : 0.1;
        return [0.9 * (x - (r * nv) / (Math.sqrt(nh) + 1e-3)), nv, nh];
      });
  });

  it('Momentum, standard and Nesterov', () => {
    for (const mode of ['standard', 'nesterov'])
      for (const t of [0, 3]) {
        const attrs = { norm_coefficient: 0.01, alpha: 0.9, beta: 0.5, mode };
        check('momentum', [x1, x2, g1, g2, v1, v2], attrs, t, 1, (x, g, [v = 0]) => {
          const d = 0.01 * x + g;
          const next = 0.9 * v + (t > 0 ? 0.5 : 1) * d;
          return [x - 0.1 * (mode === 'nesterov' ? d + 0.9 * next : next), next];
        });
      }
  });
});
