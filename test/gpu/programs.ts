/**
 * Random `.fuse` programs: the space of shapes and ops that generated kernels are checked over.
 *
 * Shapes include odd sizes and size 1, ranks 0 to 6, broadcasts in every position, reductions over
 * any axes, views between them, and values that are both read on and given out.
 */

/** A small deterministic generator (Lehmer's, modulo 2^31 - 1): the same programs on every machine. */
export function randomNumbers(seed: number): () => number {
  let state = (seed % 2147483646) + 1;
  return () => {
    state = (state * 48271) % 2147483647;
    return state / 2147483647;
  };
}

interface Named {
  readonly name: string;
  readonly shape: readonly number[];
}

const SIZES = [1, 2, 3, 4, 5, 7, 8, 16, 17, 33];
const UNARY = ['relu', 'tanh', 'sigmoid', 'abs', 'neg', 'silu', 'sin', 'erf', 'softplus'];

export function randomProgram(seed: number): string {
  // Of neighbouring seeds the first numbers are alike: all programs would have one rank.
  const random = randomNumbers(seed * 7919 + 17);
  const below = (n: number): number => Math.floor(random() * n);
  const pick = <T>(list: readonly T[]): T => {
    const x = list[below(list.length)];
    if (x === undefined) throw new Error('nothing to pick from');
    return x;
  };
  const chance = (p: number): boolean => random() < p;

  const declarations: string[] = [];
  const statements: string[] = [];
  const values: Named[] = [];
  const rank = below(7);
  // High ranks with small sizes: a few thousand elements at most.
  const shape = Array.from({ length: rank }, () => pick(rank > 3 ? SIZES.slice(0, 4) : SIZES));
  const inputs = 1 + below(3);
  for (let i = 0; i < inputs; i++) {
    const s =
      i === 0
        ? shape
        : shape.map((d) => (chance(0.3) ? 1 : d)).slice(chance(0.3) ? below(rank + 1) : 0);
    declarations.push(`input x${i}: f32[${s.join(', ')}]`);
    values.push({ name: `x${i}`, shape: s });
  }
  const define = (name: string, text: string, s: readonly number[]): void => {
    statements.push(`${name} = ${text}`);
    values.push({ name, shape: s });
  };
  const ops = 2 + below(9);
  for (let i = 0; i < ops; i++) {
    const a = pick(values);
    const name = `t${i}`;
    const axes = a.shape.map((_, k) => k);
    switch (below(8)) {
      case 0:
      case 1:
        define(name, `${pick(UNARY)}(${a.name})`, a.shape);
        break;
      case 2:
      case 3: {
        const b = pick(values);
        const s = broadcast(a.shape, b.shape);
        if (s) define(name, `${a.name} ${pick(['+', '-', '*'])} ${b.name}`, s);
        else define(name, `${a.name} * 0.5`, a.shape);
        break;
      }
      case 4: {
        if (axes.length === 0) {
          define(name, `exp(-abs(${a.name}))`, a.shape);
          break;
        }
        const over = axes.filter(() => chance(0.5));
        if (over.length === 0) over.push(pick(axes));
        const keep = chance(0.5);
        const s = keep
          ? a.shape.map((d, k) => (over.includes(k) ? 1 : d))
          : a.shape.filter((_, k) => !over.includes(k));
        const op = pick(['sum', 'mean', 'amax', 'amin']);
        define(name, `${op}(${a.name}, axis=[${over.join(', ')}], keepdim=${keep})`, s);
        break;
      }
      case 5:
        if (axes.length === 0) define(name, `${a.name} + 1.5`, a.shape);
        else
          define(
            name,
            `${pick(['softmax', 'log_softmax'])}(${a.name}, axis=${pick(axes)})`,
            a.shape,
          );
        break;
      case 6: {
        if (axes.length > 1 && chance(0.5)) {
          const order = [...axes];
          for (let k = order.length - 1; k > 0; k--) {
            const q = below(k + 1);
            [order[k], order[q]] = [order[q] ?? 0, order[k] ?? 0];
          }
          define(
            name,
            `permute(${a.name}, [${order.join(', ')}])`,
            order.map((k) => a.shape[k] ?? 1),
          );
          break;
        }
        const total = a.shape.reduce((p, d) => p * d, 1);
        const d = pick([1, 2, 3, 4, 5, 7, 8, 16].filter((n) => total % n === 0));
        define(name, `reshape(${a.name}, [${d}, ${total / d}])`, [d, total / d]);
        break;
      }
      case 7: {
        const k = a.shape[a.shape.length - 1];
        if (k === undefined) {
          define(name, `${a.name} * ${a.name}`, a.shape);
          break;
        }
        const m = pick([1, 3, 4, 8, 9]);
        declarations.push(`param w${i}: f32[${k}, ${m}]`);
        define(name, `${a.name} @ w${i}`, [...a.shape.slice(0, -1), m]);
        break;
      }
    }
  }
  const defined = values.slice(inputs);
  const text = statements.map((s) => s.slice(s.indexOf('=')));
  const outputs = defined.filter(
    (v) => chance(0.25) || !text.some((t) => new RegExp(`\\b${v.name}\\b`).test(t)),
  );
  return [...declarations, ...statements, ...outputs.map((o) => `output ${o.name}`), ''].join('\n');
}

function broadcast(a: readonly number[], b: readonly number[]): number[] | undefined {
  const rank = Math.max(a.length, b.length);
  const out: number[] = [];
  for (let i = 0; i < rank; i++) {
    const x = a[a.length - rank + i] ?? 1;
    const y = b[b.length - rank + i] ?? 1;
    if (x !== y && x !== 1 && y !== 1) return undefined;
    out.push(Math.max(x, y));
  }
  return out;
}
