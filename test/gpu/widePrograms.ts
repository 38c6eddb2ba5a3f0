/**
 * Random `.fuse` programs of many families of ops: windows, joins, slices with steps, gathers, casts,
 * positions, orders, products of several operands, attention; with symbolic sizes in any position.
 *
 * Each program applies ops to values picked from those it has, so values are read several times and
 * given out as well. What jumps where its operand changes a little (a position, a comparison, a
 * rounding) is applied only to _exact_ values, those that every order of evaluation gives alike.
 */
import { randomNumbers } from './programs';

/** A size, and how the file says it; sizes are taken for equal where both say the same. */
interface Size {
  readonly n: number;
  readonly text: string;
}

interface Value {
  readonly name: string;
  readonly shape: readonly Size[];
  readonly exact: boolean;
  /** Not to be read on: what was rounded to half precision, less its like, is nothing but rounding. */
  readonly last?: true;
}

const fixed = (n: number): Size => ({ n, text: String(n) });
const said = (s: Size): boolean => !s.text.startsWith('?');
const alike = (a: Size, b: Size): boolean => a.n === b.n && a.text === b.text;
const total = (shape: readonly Size[]): number => shape.reduce((p, s) => p * s.n, 1);

/** No value of a program has more elements: the reference evaluates all of them, unfused. */
const MOST_ELEMENTS = 60_000;

export function wideProgram(seed: number): string {
  const random = randomNumbers(seed * 7919 + 17);
  const below = (n: number): number => Math.floor(random() * n);
  const chance = (p: number): boolean => random() < p;
  const pick = <T>(list: readonly T[]): T => {
    const x = list[below(list.length)];
    if (x === undefined) throw new Error('nothing to pick from');
    return x;
  };

  const declarations: string[] = [];
  const statements: string[] = [];
  const values: Value[] = [];
  const used = new Set<string>();
  let fresh = 0;
  const unsaid = (n: number): Size => ({ n, text: `?${fresh++}` });

  const symbolic = chance(0.4);
  const symbols = new Map<number, Size>();
  const size = (n: number): Size => {
    if (!symbolic || n === 1) return fixed(n);
    const known = symbols.get(n);
    if (known) return known;
    const made = chance(0.6) ? { n, text: `D${n}` } : fixed(n);
    if (made.text !== String(n)) declarations.push(`dim D${n} = ${n}`);
    symbols.set(n, made);
    return made;
  };

  const declare = (
    kind: 'input' | 'param',
    shape: readonly Size[],
    dtype = 'f32',
    prefix = 'p',
  ): Value => {
    const name = `${prefix}${declarations.length}`;
    declarations.push(`${kind} ${name}: ${dtype}[${shape.map((s) => s.text).join(', ')}]`);
    return { name, shape, exact: true };
  };
  const define = (text: string, shape: readonly Size[], exact = false, last?: true): void => {
    if (total(shape) > MOST_ELEMENTS) return;
    const name = `t${statements.length}`;
    for (const v of values) if (new RegExp(`\\b${v.name}\\b`).test(text)) used.add(v.name);
    statements.push(`${name} = ${text}`);
    values.push({ name, shape, exact, ...(last ? { last } : {}) });
  };

  const ranks = [1, 2, 2, 3, 3, 4, 4];
  const shape = Array.from({ length: pick(ranks) }, () => size(pick([1, 2, 3, 4, 6, 8, 12, 19])));
  values.push(declare('input', shape, 'f32', 'x'));
  if (chance(0.6)) values.push(declare('input', shape, 'f32', 'x'));
  if (chance(0.4)) {
    const smaller = shape.map((s) => (chance(0.4) ? fixed(1) : s)).slice(below(shape.length));
    values.push(declare('input', smaller, 'f32', 'x'));
  }
  if (chance(0.2)) {
    const half = declare('input', shape, 'f16', 'x');
    define(`cast(${half.name}, f32)`, shape, true);
  }
  const inputs = values.length;

  const replaced = (v: Value, axis: number, by: Size): Size[] =>
    v.shape.map((s, i) => (i === axis ? by : s));

  const step = (): void => {
    const readable = values.filter((v) => !v.last);
    const a = pick(readable);
    const rank = a.shape.length;
    const axis = rank > 0 ? below(rank) : 0;
    const along = a.shape[axis];
    if (along === undefined) {
      define(`${a.name} * 0.5 + 1.0`, a.shape);
      return;
    }
    const last = a.shape[rank - 1] ?? along;
    const n = along.n;
    const exactOne = readable.filter((v) => v.exact && v.shape.length > 0);
    switch (below(29)) {
      case 0:
        define(`${pick(['tanh', 'silu', 'sin', 'gelu', 'softplus'])}(${a.name})`, a.shape);
        return;
      case 1:
        define(`${pick(['relu', 'neg', 'abs'])}(${a.name})`, a.shape, a.exact);
        return;
      case 2:
      case 3:
      case 4: {
        const b = pick(readable);
        const s = broadcast(a.shape, b.shape);
        if (s) define(`${a.name} ${pick(['+', '-', '*'])} ${b.name}`, s);
        return;
      }
      case 5: {
        const over = a.shape.map((_, i) => i).filter((i) => i === axis || chance(0.4));
        const keep = chance(0.5);
        const s = keep
          ? a.shape.map((d, i) => (over.includes(i) ? fixed(1) : d))
          : a.shape.filter((_, i) => !over.includes(i));
        const op = pick(['sum', 'mean', 'amax', 'amin', 'logsumexp', 'l2', 'sum_square']);
        define(`${op}(${a.name}, axis=[${over.join(', ')}], keepdim=${keep})`, s);
        return;
      }
      case 6:
        define(`${pick(['softmax', 'log_softmax'])}(${a.name}, axis=${axis})`, a.shape);
        return;
      case 7:
        define(`layer_norm(${a.name}, axis=${axis})`, a.shape);
        return;
      case 8: {
        const order = a.shape.map((_, i) => i);
        for (let k = order.length - 1; k > 0; k--) {
          const q = below(k + 1);
          [order[k], order[q]] = [order[q] ?? 0, order[k] ?? 0];
        }
        const permuted = order.map((k) => a.shape[k] ?? fixed(1));
        define(`permute(${a.name}, [${order.join(', ')}])`, permuted, a.exact);
        return;
      }
      case 9: {
        if (chance(0.5)) {
          define(`reshape(${a.name}, [-1])`, [unsaid(total(a.shape))], a.exact);
          return;
        }
        if (rank < 2 || axis === rank - 1) return;
        const flat = (along.n * (a.shape[axis + 1]?.n ?? 1)) | 0;
        const s = [...a.shape.slice(0, axis), unsaid(flat), ...a.shape.slice(axis + 2)];
        define(`flatten(${a.name}, ${axis}, ${axis + 1})`, s, a.exact);
        return;
      }
      case 10: {
        if (!said(last)) return;
        const w = declare('param', [last, fixed(pick([1, 3, 4, 9, 16]))]);
        define(`${a.name} @ ${w.name}`, [...a.shape.slice(0, -1), ...w.shape.slice(1)]);
        return;
      }
      case 11: {
        const channels = a.shape[1];
        const [h, w] = [a.shape[2], a.shape[3]];
        if (!channels || !said(channels) || !h || h.n < 2 || rank > 4) return;
        const made = pick([1, 4, 5]);
        const stride = pick([1, 1, 2]);
        const spatial = rank === 4 && w ? [h, w] : [h];
        const k = spatial.map((s) => Math.min(s.n, pick([1, 2, 3])));
        const weight = declare('param', [fixed(made), channels, ...k.map(fixed)]);
        const out = spatial.map((s, i) => Math.floor((s.n + 2 - (k[i] ?? 1)) / stride) + 1);
        define(`conv${spatial.length}d(${a.name}, ${weight.name}, stride=${stride}, padding=1)`, [
          ...a.shape.slice(0, 1),
          fixed(made),
          ...out.map(unsaid),
        ]);
        return;
      }
      case 12: {
        const [h, w] = [a.shape[2], a.shape[3]];
        if (rank !== 4 || !h || !w || h.n < 2 || w.n < 2) return;
        const op = pick(['max_pool2d', 'avg_pool2d']);
        const stride = pick([1, 2]);
        const out = [h, w].map((s) => unsaid(Math.floor((s.n + 2 - 2) / stride) + 1));
        define(`${op}(${a.name}, 2, stride=${stride}, padding=1)`, [
          ...a.shape.slice(0, 2),
          ...out,
        ]);
        return;
      }
      case 13: {
        const others = readable.filter(
          (v) =>
            v.shape.length === rank &&
            v.shape.every((s, i) => i === axis || alike(s, a.shape[i] ?? s)),
        );
        const parts = Array.from({ length: 1 + below(4) }, () => pick(others));
        const all = [a, ...parts];
        const sum = all.reduce((p, v) => p + (v.shape[axis]?.n ?? 0), 0);
        define(
          `cat([${all.map((v) => v.name).join(', ')}], axis=${axis})`,
          replaced(
            a,
            axis,
            all.every((v) => v.shape[axis]?.text === String(v.shape[axis]?.n))
              ? fixed(sum)
              : unsaid(sum),
          ),
          all.every((v) => v.exact),
        );
        return;
      }
      case 14: {
        if (n < 2) return;
        const by = pick([1, 2, 3]);
        const start = below(Math.min(n, 2));
        const end = n - below(Math.min(2, n - start - 1) + 1);
        const stop = end === n ? '' : `, end=${end - n}`;
        define(
          `slice(${a.name}, axis=${axis}, start=${start}${stop}, step=${by})`,
          replaced(a, axis, unsaid(Math.ceil((end - start) / by))),
          a.exact,
        );
        return;
      }
      case 15: {
        const [before, after] = [below(3), below(3)];
        if (before + after === 0) return;
        const mode = n > 3 ? pick(['constant', 'reflect', 'replicate', 'circular']) : 'constant';
        const pairs = a.shape.map((_, i) => (i === axis ? [before, after] : [0, 0])).reverse();
        const value = mode === 'constant' ? `, value=${pick(['0', '1.5', '-2'])}` : '';
        define(
          `pad(${a.name}, [${pairs.flat().join(', ')}], mode="${mode}"${value})`,
          replaced(a, axis, unsaid(n + before + after)),
          a.exact,
        );
        return;
      }
      case 16: {
        const ids = declare('input', [fixed(pick([1, 3, 7]))], 'i32');
        define(
          `index_select(${a.name}, ${axis}, ${ids.name})`,
          replaced(a, axis, ids.shape[0] ?? fixed(1)),
          a.exact,
        );
        return;
      }
      case 17: {
        const b = pick(exactOne);
        const s = broadcast(a.shape, b.shape);
        if (s) define(`where(${b.name} > 0.1, ${a.name}, ${pick(['0.0', '-1.5', b.name])})`, s);
        return;
      }
      case 18: {
        const b = pick(exactOne);
        define(
          `cast(cast(${b.name} * 4.0, i32) ${pick(['+ 3', '* 2', '% 5', '// 2'])}, f32)`,
          b.shape,
          true,
        );
        return;
      }
      case 19:
        define(`cast(cast(${a.name}, f16), f32)`, a.shape, false, true);
        return;
      case 20: {
        const b = pick(exactOne);
        const k = below(b.shape.length);
        const s = b.shape.filter((_, i) => i !== k);
        define(`cast(${pick(['argmax', 'argmin'])}(${b.name}, axis=${k}), f32)`, s, true);
        return;
      }
      case 21: {
        const letters = 'abcd'.slice(0, rank);
        const kept = [...letters].filter(() => chance(0.6)).join('');
        const s = [...letters].flatMap((l, i) =>
          kept.includes(l) ? [a.shape[i] ?? fixed(1)] : [],
        );
        const b = pick(
          readable.filter(
            (v) => v.shape.length === rank && v.shape.every((x, i) => alike(x, a.shape[i] ?? x)),
          ),
        );
        define(`einsum("${letters},${letters}->${kept}", [${a.name}, ${b.name}])`, s);
        return;
      }
      case 22:
        define(`cumsum(${a.name}, axis=${axis})`, a.shape);
        return;
      case 23: {
        if (rank < 2 || n > 24) return;
        const b = pick(exactOne);
        const k = below(b.shape.length);
        const s = b.shape[k];
        if (!s || s.n > 24) return;
        const name = `t${statements.length}`;
        statements.push(`${name}, _ = sort(${b.name}, axis=${k}, descending=${chance(0.5)})`);
        values.push({ name, shape: b.shape, exact: true });
        used.add(b.name);
        return;
      }
      case 24:
        define(
          pick([`flip(${a.name}, ${axis})`, `roll(${a.name}, [${below(4)}], [${axis}])`]),
          a.shape,
          a.exact,
        );
        return;
      case 25:
        define(
          `repeat_interleave(${a.name}, 2, ${axis})`,
          replaced(a, axis, unsaid(2 * n)),
          a.exact,
        );
        return;
      case 26:
        if (rank < 2) return;
        define(
          `scaled_dot_product_attention(${a.name}, ${a.name}, ${a.name}, is_causal=${chance(0.5)})`,
          a.shape,
        );
        return;
      case 27: {
        if (rank < 2) return;
        const rows = a.shape[rank - 2] ?? last;
        define(`${a.name} @ transpose(${a.name}, -1, -2)`, [...a.shape.slice(0, -1), rows]);
        return;
      }
      case 28: {
        const b = declare('input', shape, pick(['i8', 'u8', 'bool', 'i32', 'f16']));
        const s = broadcast(a.shape, b.shape);
        if (s) define(`${a.name} * ${b.name}`, s);
        return;
      }
    }
  };
  const wanted = 3 + below(12);
  for (let tries = 0; statements.length < wanted && tries < 200; tries++) step();

  const outputs = values
    .slice(inputs)
    .filter((v) => !used.has(v.name) || chance(0.2))
    .map((v) => v.name);
  const last = values[values.length - 1];
  if (outputs.length === 0 && last) outputs.push(last.name);
  return [...declarations, ...statements, ...outputs.map((o) => `output ${o}`), ''].join('\n');
}

function broadcast(a: readonly Size[], b: readonly Size[]): Size[] | undefined {
  const rank = Math.max(a.length, b.length);
  const out: Size[] = [];
  for (let i = 0; i < rank; i++) {
    const x = a[a.length - rank + i] ?? fixed(1);
    const y = b[b.length - rank + i] ?? fixed(1);
    if (x.text === '1') out.push(y);
    else if (y.text === '1' || alike(x, y)) out.push(x);
    else return undefined;
  }
  return out;
}
