/**
 * Attention in ONNX Runtime's forms against plain loops over queries and keys.
 */
import assert from 'node:assert/strict';
import { close, Naive, nodeFault, numbers, type Operand, runNode } from './fixture';

const of = (shape: readonly number[], seed: number): Operand => ({
  shape,
  values: numbers(
    shape.reduce((a, b) => a * b, 1),
    seed,
  ),
});
const whole = (values: readonly number[], shape = [values.length], known = false): Operand => ({
  dtype: 'i32',
  shape,
  values,
  known,
});
const naive = (o: Operand): Naive => new Naive(o.shape.map(Number), o.values);

interface Case {
  readonly batch: number;
  readonly heads: number;
  readonly rows: number;
  readonly keys: number;
  readonly size: number;
  q(b: number, h: number, s: number, d: number): number;
  k(b: number, h: number, t: number, d: number): number;
  v(b: number, h: number, t: number, d: number): number;
  /** What is added to a score; -Infinity hides it. */
  mask(b: number, h: number, s: number, t: number): number;
  /** A term of each row's denominator. */
  readonly sink?: (h: number) => number;
}

/** [batch, rows, heads · size]. */
function attention(c: Case): readonly number[] {
  return Naive.make([c.batch, c.rows, c.heads * c.size], ([b = 0, s = 0, at = 0]) => {
    const h = Math.floor(at / c.size);
    const scores = Array.from({ length: c.keys }, (_, t) => {
      let dot = 0;
      for (let d = 0; d < c.size; d++) dot += c.q(b, h, s, d) * c.k(b, h, t, d);
      return dot / Math.sqrt(c.size) + c.mask(b, h, s, t);
    });
    const sink = c.sink?.(h) ?? -Infinity;
    const top = Math.max(sink, ...scores);
    const weights = scores.map((x) => Math.exp(x - top));
    const sum = weights.reduce((p, w) => p + w, Math.exp(sink - top));
    return weights.reduce((p, w, t) => p + (w / sum) * c.v(b, h, t, at % c.size), 0);
  }).values;
}

describe('ops: GroupQueryAttention', () => {
  const [B, H, K, D, P, S] = [2, 4, 2, 4, 5, 2];
  /** Two batches whose caches are filled differently: 5 and 3 positions before the two new ones. */
  const before = [5, 3];
  const total = P + S;
  const [query, key, value] = [of([B, S, H * D], 1), of([B, S, K * D], 2), of([B, S, K * D], 3)];
  const [pastKey, pastValue] = [of([B, K, P, D], 4), of([B, K, P, D], 5)];
  const [cos, sin] = [of([16, D / 2], 6), of([16, D / 2], 7)];
  const lengths = whole(before.map((n) => n + S - 1));
  const operands = [query, key, value, pastKey, pastValue, lengths, whole([total], [], true)];

  /** Feature d of a head at a position, its pairs half a head apart. */
  const turn = (x: (d: number) => number, position: number, d: number): number => {
    const half = D / 2;
    const angle = d % half;
    const sign = d < half ? -1 : 1;
    const other = x((d + half) % D);
    return x(d) * naive(cos).at(position, angle) + sign * other * naive(sin).at(position, angle);
  };
  const cached = (past: Operand, fresh: (b: number, h: number, s: number, d: number) => number) =>
    Naive.make([B, K, total, D], ([b = 0, h = 0, t = 0, d = 0]) => {
      const n = before[b] ?? 0;
      if (t < n) return naive(past).at(b, h, t, d);
      return t < n + S ? fresh(b, h, t - n, d) : 0;
    });
  const plain = (x: Operand) => (b: number, h: number, s: number, d: number) =>
    naive(x).at(b, s, h * D + d);
  const rotated = (x: Operand) => (b: number, h: number, s: number, d: number) =>
    turn((i) => plain(x)(b, h, s, i), (before[b] ?? 0) + s, d);

  const expected = (
    rotary: boolean,
    visible: (own: number, t: number) => boolean,
    sink?: Operand,
  ) => {
    const take = rotary ? rotated : plain;
    const [k, v] = [cached(pastKey, take(key)), cached(pastValue, plain(value))];
    const y = attention({
      ...{ batch: B, heads: H, rows: S, keys: total, size: D },
      q: take(query),
      k: (b, h, t, d) => k.at(b, Math.floor(h / 2), t, d),
      v: (b, h, t, d) => v.at(b, Math.floor(h / 2), t, d),
      mask: (b, _, s, t) => (visible((before[b] ?? 0) + s, t) ? 0 : -Infinity),
      ...(sink ? { sink: (h) => naive(sink).at(h) } : {}),
    });
    return [y, k.values, v.values];
  };
  const check = (
    got: readonly { values: readonly number[] }[],
    want: readonly (readonly number[])[],
  ) => {
    assert.equal(got.length, want.length);
    want.forEach((w, i) => {
      close(got[i]?.values ?? [], w, 1e-6);
    });
  };
  const attrs = { num_heads: H, kv_num_heads: K };
  const causal = (own: number, t: number): boolean => t <= own;

  it('writes new keys after those that each batch has, and sees up to its own place', () => {
    check(
      runNode('group_query_attention', operands, attrs, { results: 3 }),
      expected(false, causal),
    );
  });

  it('turns queries and new keys by their positions', () => {
    const more = [...operands, cos, sin];
    check(
      runNode('group_query_attention', more, { ...attrs, do_rotary: 1 }, { results: 3 }),
      expected(true, causal),
    );
  });

  it('sees no further back than its window, with a sink beside the keys', () => {
    const sink = of([H], 9);
    const more = [...operands, undefined, undefined, undefined, undefined, sink];
    check(
      runNode('group_query_attention', more, { ...attrs, local_window_size: 3 }, { results: 3 }),
      expected(false, (own, t) => t <= own && t > own - 3, sink),
    );
  });

  it('takes queries, keys and values from one operand', () => {
    const widths = [H * D, K * D, K * D];
    const parts = [query, key, value];
    const packed: Operand = {
      shape: [B, S, (H + 2 * K) * D],
      values: [...new Array<number>(B * S).keys()].flatMap((row) =>
        parts.flatMap((p, i) =>
          p.values.slice(row * (widths[i] ?? 0), (row + 1) * (widths[i] ?? 0)),
        ),
      ),
    };
    check(
      runNode(
        'group_query_attention',
        [packed, undefined, undefined, ...operands.slice(3)],
        attrs,
        { results: 3 },
      ),
      expected(false, causal),
    );
  });

  it('says what it can’t do', () => {
    assert.match(
      nodeFault('group_query_attention', operands, { ...attrs, sliding_window_cache: 1 }) ?? '',
      /window/,
    );
    const odd = [of([B, S, 10], 1), undefined, undefined, ...operands.slice(3)];
    assert.match(nodeFault('group_query_attention', odd, attrs) ?? '', /4 heads of queries and 2/);
  });
});

describe('ops: MultiHeadAttention and Attention', () => {
  const [B, N, S, L, D] = [2, 2, 3, 4, 4];
  const heads = (t: Operand) => (b: number, h: number, s: number, d: number) =>
    naive(t).at(b, s, h * D + d);

  it('queries, keys and values may be packed, and keys be limited to lengths', () => {
    const packed = of([B, S, N, 3, D], 1);
    const part = (i: number) => (b: number, h: number, s: number, d: number) =>
      naive(packed).at(b, s, h, i, d);
    const lengths = [3, 2];
    const want = attention({
      ...{ batch: B, heads: N, rows: S, keys: S, size: D },
      ...{ q: part(0), k: part(1), v: part(2) },
      mask: (b, _, __, t) => (t < (lengths[b] ?? 0) ? 0 : -10000),
    });
    const [y] = runNode(
      'multi_head_attention',
      [packed, undefined, undefined, undefined, whole(lengths)],
      { num_heads: N },
    );
    close(y?.values ?? [], want, 1e-6);
  });

  it('keys and values may be packed', () => {
    const [query, packed] = [of([B, S, N * D], 1), of([B, L, N, 2, D], 2)];
    const part = (i: number) => (b: number, h: number, s: number, d: number) =>
      naive(packed).at(b, s, h, i, d);
    const want = attention({
      ...{ batch: B, heads: N, rows: S, keys: L, size: D },
      ...{ q: heads(query), k: part(0), v: part(1), mask: () => 0 },
    });
    const [y] = runNode('multi_head_attention', [query, packed], { num_heads: N });
    close(y?.values ?? [], want, 1e-6);
  });

  it('a row all of whose keys are filtered keeps its plain softmax', () => {
    const [q, k, v] = [of([1, 1, D], 1), of([1, 2, D], 2), of([1, 2, D], 3)];
    const at = (t: Operand) => (b: number, _: number, s: number, d: number) => naive(t).at(b, s, d);
    const want = attention({
      ...{ batch: 1, heads: 1, rows: 1, keys: 2, size: D },
      ...{ q: at(q), k: at(k), v: at(v), mask: () => 0 },
    });
    const operands = [q, k, v, undefined, whole([0, 0], [1, 2])];
    close(runNode('multi_head_attention', operands, { num_heads: 1 })[0]?.values ?? [], want, 1e-6);
  });

  it('a cache holds keys, then values', () => {
    const [x, w, past] = [of([1, 2, 4], 1), of([4, 12], 2), of([2, 1, 1, 3, 4], 3)];
    const results = runNode(
      'packed_attention',
      [x, w, undefined, undefined, past],
      { num_heads: 1, unidirectional: 1 },
      { results: 2 },
    );
    const all = Naive.make([2, 12], ([s = 0, j = 0]) =>
      [0, 1, 2, 3].reduce((p, i) => p + naive(x).at(0, s, i) * naive(w).at(i, j), 0),
    );
    const cache = Naive.make([2, 1, 1, 5, 4], ([i = 0, , , t = 0, d = 0]) =>
      t < 3 ? naive(past).at(i, 0, 0, t, d) : all.at(t - 3, 4 * (i + 1) + d),
    );
    close(results[1]?.values ?? [], cache.values, 1e-6);
    const want = attention({
      ...{ batch: 1, heads: 1, rows: 2, keys: 5, size: 4 },
      q: (_, __, s, d) => all.at(s, d),
      k: (_, __, t, d) => cache.at(0, 0, 0, t, d),
      v: (_, __, t, d) => cache.at(1, 0, 0, t, d),
      mask: (_, __, s, t) => (t <= s + 3 ? 0 : -Infinity),
    });
    close(results[0]?.values ?? [], want, 1e-6);
  });
});

describe('ops: RotaryEmbedding of ONNX Runtime', () => {
  it('takes positions second: one for each place, or the first', () => {
    const [x, cos, sin] = [of([1, 3, 8], 1), of([6, 2], 2), of([6, 2], 3)];
    const ids = (values: readonly number[], shape: readonly number[]): Operand => ({
      dtype: 'i64',
      shape,
      values,
    });
    const want = runNode('rotary_embedding', [x, cos, sin, ids([2, 3, 4], [1, 3])], {
      num_heads: 2,
    });
    for (const positions of [ids([2, 3, 4], [1, 3]), ids([2], [1])])
      close(
        runNode('contrib_rotary_embedding', [x, positions, cos, sin])[0]?.values ?? [],
        want[0]?.values ?? [],
        1e-9,
      );
  });
});
