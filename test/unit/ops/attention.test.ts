import assert from 'node:assert/strict';
import { close, faults, Naive, run } from './fixture';
import { naive, nodeFaults, type Operand, runNode, tensor } from './node';

interface Options {
  readonly scale?: number;
  readonly softcap?: number;
  /** The score after masking, by position. */
  readonly mask?: (s: number, b: number, h: number, i: number, j: number) => number;
}

/** Attention by its definition; rows that see nothing are 0. */
function attend(q: Naive, k: Naive, v: Naive, o: Options = {}): Naive {
  const [b = 1, heads = 1, rows = 1, size = 1] = q.shape;
  const group = heads / (k.shape[1] ?? 1);
  const keys = k.shape[2] ?? 1;
  const scale = o.scale ?? 1 / Math.sqrt(size);
  return Naive.make([b, heads, rows, v.shape[3] ?? 1], ([n = 0, h = 0, i = 0, d = 0]) => {
    const g = Math.floor(h / group);
    const scores = Array.from({ length: keys }, (_, j) => {
      let s = 0;
      for (let e = 0; e < size; e++) s += q.at(n, h, i, e) * k.at(n, g, j, e);
      s *= scale;
      if (o.softcap) s = o.softcap * Math.tanh(s / o.softcap);
      return o.mask ? o.mask(s, n, h, i, j) : s;
    });
    const m = Math.max(...scores);
    if (m === -Infinity) return 0;
    const e = scores.map((s) => Math.exp(s - m));
    const total = e.reduce((x, y) => x + y, 0);
    return e.reduce((s, w, j) => s + (w / total) * v.at(n, g, j, d), 0);
  });
}

const Q = tensor([2, 4, 3, 6]);
const K = tensor([2, 2, 5, 6]);
const V = tensor([2, 2, 5, 7]);

function check(got: Naive | undefined, want: Naive): void {
  assert.deepEqual(got?.shape, want.shape);
  close(got?.values ?? [], want.values);
}

/** [b, h, s, d] as [b, s, h*d]. */
function packed(o: Operand): Operand {
  const [b = 1, h = 1, s = 1, d = 1] = o.shape;
  const t = Naive.make([b, s, h * d], ([n = 0, i = 0, e = 0]) =>
    naive(o).at(n, Math.floor(e / d), i, e % d),
  );
  return tensor(t.shape, t.values);
}

describe('attention', () => {
  it('lowers to products, maximum, exponentials, sum and division', () => {
    const { text } = runNode('Attention', [Q, K, V]);
    const kinds = text.split('\n').map((l) => /= (sum|max|exp|div|mul)\(/.exec(l)?.[1]);
    assert.deepEqual(kinds, ['sum', 'mul', 'max', 'exp', 'sum', 'div', 'sum']);
  });

  it('shares key and value heads among query heads, in four dims and in three', () => {
    const want = attend(naive(Q), naive(K), naive(V));
    check(runNode('Attention', [Q, K, V]).results[0], want);
    const flat = packed({ ...Q, shape: want.shape, values: want.values });
    const got = runNode('Attention', [packed(Q), packed(K), packed(V)], {
      q_num_heads: 4,
      kv_num_heads: 2,
    });
    check(got.results[0], naive(flat));
  });

  it('puts the past before the keys, and gives both back', () => {
    const [pk, pv] = [tensor([2, 2, 2, 6]), tensor([2, 2, 2, 7])];
    const join = (a: Operand, b: Operand): Naive =>
      Naive.make([2, 2, 7, a.shape[3] ?? 1], ([n = 0, h = 0, s = 0, d = 0]) =>
        s < 2 ? naive(a).at(n, h, s, d) : naive(b).at(n, h, s - 2, d),
      );
    const { results } = runNode(
      'Attention',
      [Q, K, V, undefined, pk, pv],
      { is_causal: 1, softcap: 2 },
      4,
    );
    const mask = (s: number, _b: number, _h: number, i: number, j: number): number =>
      j <= i + 2 ? s : -Infinity;
    check(results[0], attend(naive(Q), join(pk, K), join(pv, V), { mask, softcap: 2 }));
    check(results[1], join(pk, K));
    check(results[2], join(pv, V));
    assert.deepEqual(results[3]?.shape, [2, 4, 3, 7]);
  });

  it('broadcasts masks of every rank, and hides keys that a short one leaves out', () => {
    for (const shape of [
      [3, 5],
      [4, 3, 5],
      [1, 3, 5],
      [2, 1, 3, 5],
      [2, 4, 1, 5],
      [3, 4],
    ]) {
      const m = tensor(shape);
      const at = (b: number, h: number, i: number, j: number): number => {
        if (j >= (shape.at(-1) ?? 0)) return -Infinity;
        const full = [b, h, i, j].slice(4 - shape.length);
        return naive(m).at(...full.map((x, d) => (shape[d] === 1 ? 0 : x)));
      };
      const want = attend(naive(Q), naive(K), naive(V), {
        mask: (s, b, h, i, j) => s + at(b, h, i, j),
      });
      check(runNode('Attention', [Q, K, V, m]).results[0], want);
    }
  });

  it('gives 0 for a row whose mask hides every key', () => {
    const m = tensor([3, 5], [1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1], 'bool');
    const mask = (s: number, _b: number, _h: number, i: number, j: number): number =>
      naive(m).at(i, j) ? s : -Infinity;
    const got = runNode('Attention', [Q, K, V, m], { scale: 0.3 }).results[0];
    check(got, attend(naive(Q), naive(K), naive(V), { mask, scale: 0.3 }));
    assert.ok(got && !got.values.some(Number.isNaN));
  });

  it('counts causal positions from the end of the valid keys', () => {
    const lengths = tensor([2], [5, 4], 'i64');
    const mask = (s: number, b: number, _h: number, i: number, j: number): number => {
      const n = lengths.values[b] ?? 0;
      return j < n && j <= i + n - 3 ? s : -Infinity;
    };
    const got = runNode('Attention', [Q, K, V, undefined, undefined, undefined, lengths], {
      is_causal: 1,
    });
    check(got.results[0], attend(naive(Q), naive(K), naive(V), { mask }));
  });

  it('has PyTorch form, with a causal mask that is an index condition', () => {
    const r = run(`input q: f32[2, 4, 6]
input k: f32[2, 5, 6]
input v: f32[2, 5, 3]
y = scaled_dot_product_attention(q, k, v, is_causal=true)
output y`);
    assert.deepEqual(r.y.shape, [2, 4, 3]);
    assert.match(r.text, /when\(0 <= d3 < d2 \+ 1 \?/);
    assert.match(
      faults(`input q: f32[2, 4, 6]
input k: f32[2, 5, 7]
input v: f32[2, 5, 3]
y = sdpa(q, k, v)
output y`)[0] ?? '',
      /the head sizes of q and k: 6 and 7 differ/,
    );
  });

  it('refuses head counts that do not divide', () => {
    assert.match(
      nodeFaults('Attention', [
        tensor([1, 3, 2, 4]),
        tensor([1, 2, 2, 4]),
        tensor([1, 2, 2, 4]),
      ])[0] ?? '',
      /q has 3 heads and k has 2: the first must be a multiple/,
    );
  });
});

describe('rotary embedding', () => {
  const x = tensor([2, 3, 4, 8]);
  const positions = tensor([2, 4], [0, 5, 2, 1, 3, 3, 4, 0], 'i64');

  for (const interleaved of [0, 1]) {
    it(`turns pairs, ${interleaved ? 'neighbours' : 'halves'}, and leaves the rest`, () => {
      const [cos, sin] = [tensor([6, 3]), tensor([6, 3], tensor([7, 3]).values.slice(3))];
      const want = Naive.make(x.shape, ([b = 0, h = 0, s = 0, d = 0]) => {
        const at = (e: number): number => naive(x).at(b, h, s, e);
        if (d >= 6) return at(d);
        const p = naive(positions).at(b, s);
        const first = interleaved ? d % 2 === 0 : d < 3;
        const a = interleaved ? Math.floor(d / 2) : d % 3;
        const partner = interleaved ? (first ? d + 1 : d - 1) : (d + 3) % 6;
        const sign = first ? -1 : 1;
        return at(d) * naive(cos).at(p, a) + sign * at(partner) * naive(sin).at(p, a);
      });
      const attrs = { interleaved, rotary_embedding_dim: 6 };
      check(runNode('RotaryEmbedding', [x, cos, sin, positions], attrs).results[0], want);
      const flat = runNode('RotaryEmbedding', [packed(x), cos, sin, positions], {
        ...attrs,
        num_heads: 3,
      });
      check(flat.results[0], naive(packed({ ...x, values: want.values })));
    });
  }
});

describe('linear attention', () => {
  it('decays, corrects and adds to its state', () => {
    const [q, k, v] = [tensor([1, 3, 8]), tensor([1, 3, 4]), tensor([1, 3, 6])];
    const small = (n: number): number[] => tensor([n]).values.map((e) => e / 10);
    const [past, decay, beta] = [
      tensor([1, 2, 2, 3]),
      tensor([1, 3, 2], small(6)),
      tensor([1, 3, 1], small(3)),
    ];
    const { results } = runNode(
      'LinearAttention',
      [q, k, v, past, decay, beta],
      { q_num_heads: 4, kv_num_heads: 2, scale: 0.5 },
      2,
    );
    const state = [0, 1].map((h) =>
      [0, 1].map((d) => [0, 1, 2].map((m) => naive(past).at(0, h, d, m))),
    );
    const want: number[] = [];
    for (let t = 0; t < 3; t++) {
      for (const h of [0, 1]) {
        const s = state[h] ?? [];
        const key = (d: number): number => naive(k).at(0, t, h * 2 + d);
        for (const row of s)
          row.forEach((e, m) => (row[m] = e * Math.exp(naive(decay).at(0, t, h))));
        const fresh = [0, 1, 2].map((m) => {
          const seen = [0, 1].reduce((sum, d) => sum + (s[d]?.[m] ?? 0) * key(d), 0);
          return naive(beta).at(0, t, 0) * (naive(v).at(0, t, h * 3 + m) - seen);
        });
        s.forEach((row, d) => row.forEach((e, m) => (row[m] = e + key(d) * (fresh[m] ?? 0))));
      }
      for (const h of [0, 1, 2, 3]) {
        for (const m of [0, 1, 2]) {
          const s = state[Math.floor(h / 2)] ?? [];
          want.push(
            0.5 *
              [0, 1].reduce((sum, d) => sum + naive(q).at(0, t, h * 2 + d) * (s[d]?.[m] ?? 0), 0),
          );
        }
      }
    }
    close(results[0]?.values ?? [], want);
    close(results[1]?.values ?? [], state.flat(2));
  });
});
