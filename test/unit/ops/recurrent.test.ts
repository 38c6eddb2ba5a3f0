import assert from 'node:assert/strict';
import { close, Naive } from './fixture';
import { naive, type Operand, runNode, tensor } from './node';

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));
const [T, B, I, H] = [4, 2, 3, 2];

/** Small weights, so that nothing saturates. */
function weights(shape: readonly number[]): Operand {
  const t = tensor(shape);
  return { ...t, values: t.values.map((v) => v / 4) };
}

/** Runs a cell by hand over one direction; masked steps keep the state and put out 0. */
function rollOut(
  xs: (t: number, b: number) => number[],
  lengths: readonly number[],
  reverse: boolean,
  initial: (b: number) => number[][],
  step: (x: number[], states: number[][]) => number[][],
): { y: (t: number, b: number, h: number) => number; last: number[][][] } {
  const y = new Map<string, number>();
  const last: number[][][] = [];
  for (let b = 0; b < B; b++) {
    let states = initial(b);
    for (let k = 0; k < T; k++) {
      const t = reverse ? T - 1 - k : k;
      if (t >= (lengths[b] ?? T)) continue;
      states = step(xs(t, b), states);
      states[0]?.forEach((v, h) => y.set([t, b, h].join(), v));
    }
    last.push(states);
  }
  return { y: (t, b, h) => y.get([t, b, h].join()) ?? 0, last };
}

const X = weights([T, B, I]);
const rows = (w: Operand, d: number, r: number, width: number): number[] =>
  Array.from({ length: width }, (_, k) => naive(w).at(d, r, k));
const dot = (a: readonly number[], b: readonly number[]): number =>
  a.reduce((s, v, i) => s + v * (b[i] ?? 0), 0);
const input = (t: number, b: number): number[] =>
  Array.from({ length: I }, (_, k) => naive(X).at(t, b, k));
const hiddens = Array.from({ length: H }, (_, h) => h);

describe('recurrent networks', () => {
  const lengths = tensor([B], [T, 2], 'i32');

  it('LSTM: both directions, lengths, peepholes, initial states', () => {
    const [w, r, bias, p] = [
      weights([2, 4 * H, I]),
      weights([2, 4 * H, H]),
      weights([2, 8 * H]),
      weights([2, 3 * H]),
    ];
    const [h0, c0] = [weights([2, B, H]), weights([2, B, H])];
    const { results } = runNode(
      'LSTM',
      [X, w, r, bias, lengths, h0, c0, p],
      { direction: 'bidirectional', hidden_size: H },
      3,
    );
    for (const d of [0, 1]) {
      const { y, last } = rollOut(
        input,
        lengths.values,
        d === 1,
        (b) => [
          hiddens.map((h) => naive(h0).at(d, b, h)),
          hiddens.map((h) => naive(c0).at(d, b, h)),
        ],
        (x, [hs = [], cs = []]) => {
          const pre = (g: number, h: number): number =>
            dot(rows(w, d, g * H + h, I), x) +
            dot(rows(r, d, g * H + h, H), hs) +
            naive(bias).at(d, g * H + h) +
            naive(bias).at(d, (4 + g) * H + h);
          const peep = (g: number, h: number): number => naive(p).at(d, g * H + h);
          const next = hiddens.map((h) => {
            const i = sigmoid(pre(0, h) + peep(0, h) * (cs[h] ?? 0));
            const f = sigmoid(pre(2, h) + peep(2, h) * (cs[h] ?? 0));
            return f * (cs[h] ?? 0) + i * Math.tanh(pre(3, h));
          });
          const out = hiddens.map(
            (h) => sigmoid(pre(1, h) + peep(1, h) * (next[h] ?? 0)) * Math.tanh(next[h] ?? 0),
          );
          return [out, next];
        },
      );
      for (let t = 0; t < T; t++)
        for (let b = 0; b < B; b++)
          for (const h of hiddens) close([results[0]?.at(t, d, b, h) ?? NaN], [y(t, b, h)]);
      for (let b = 0; b < B; b++) {
        close(
          hiddens.map((h) => results[1]?.at(d, b, h) ?? NaN),
          last[b]?.[0] ?? [],
        );
        close(
          hiddens.map((h) => results[2]?.at(d, b, h) ?? NaN),
          last[b]?.[1] ?? [],
        );
      }
    }
  });

  for (const after of [0, 1]) {
    it(`GRU, the reset ${after ? 'after' : 'before'} the product, backwards, batch first`, () => {
      const [w, r, bias] = [weights([1, 3 * H, I]), weights([1, 3 * H, H]), weights([1, 6 * H])];
      const first = Naive.make([B, T, I], ([b = 0, t = 0, k = 0]) => naive(X).at(t, b, k));
      const { results } = runNode(
        'GRU',
        [tensor(first.shape, first.values), w, r, bias],
        { direction: 'reverse', hidden_size: H, layout: 1, linear_before_reset: after, clip: 0.4 },
        2,
      );
      const clip = (v: number): number => Math.min(0.4, Math.max(-0.4, v));
      const { y } = rollOut(
        input,
        [T, T],
        true,
        () => [hiddens.map(() => 0)],
        (x, [hs = []]) => {
          const wx = (g: number, h: number): number =>
            dot(rows(w, 0, g * H + h, I), x) + naive(bias).at(0, g * H + h);
          const rb = (g: number, h: number): number => naive(bias).at(0, (3 + g) * H + h);
          const rh = (g: number, h: number, s: readonly number[]): number =>
            dot(rows(r, 0, g * H + h, H), s);
          const gate = (g: number, h: number): number =>
            sigmoid(clip(wx(g, h) + rh(g, h, hs) + rb(g, h)));
          const reset = hiddens.map((h) => gate(1, h));
          const gated = hs.map((v, h) => v * (reset[h] ?? 0));
          return [
            hiddens.map((h) => {
              const pre = after
                ? wx(2, h) + (reset[h] ?? 0) * (rh(2, h, hs) + rb(2, h))
                : wx(2, h) + rh(2, h, gated) + rb(2, h);
              const z = gate(0, h);
              return (1 - z) * Math.tanh(clip(pre)) + z * (hs[h] ?? 0);
            }),
          ];
        },
      );
      const want = Naive.make([B, T, 1, H], ([b = 0, t = 0, , h = 0]) => y(t, b, h));
      assert.deepEqual(results[0]?.shape, want.shape);
      close(results[0].values, want.values);
      assert.deepEqual(results[1]?.shape, [B, 1, H]);
    });
  }

  it('RNN with an activation that has parameters', () => {
    const [w, r] = [weights([1, H, I]), weights([1, H, H])];
    const { results } = runNode('RNN', [X, w, r], {
      activations: ['Affine'],
      activation_alpha: [0.5],
      activation_beta: [0.25],
      hidden_size: H,
    });
    const { y } = rollOut(
      input,
      [T, T],
      false,
      () => [hiddens.map(() => 0)],
      (x, [hs = []]) => [
        hiddens.map((h) => 0.5 * (dot(rows(w, 0, h, I), x) + dot(rows(r, 0, h, H), hs)) + 0.25),
      ],
    );
    close(
      results[0]?.values ?? [],
      Naive.make([T, 1, B, H], ([t = 0, , b = 0, h = 0]) => y(t, b, h)).values,
    );
  });

  /** Steps `from` to `to` of [T, …]. */
  const steps = (t: Operand, from: number, to: number): Operand => {
    const row = t.values.length / (t.shape[0] ?? 1);
    return {
      ...t,
      shape: [to - from, ...t.shape.slice(1)],
      values: t.values.slice(from * row, to * row),
    };
  };

  // A long sequence is a loop; its halves, one after the other, are unrolled.
  for (const [type, gates, states, extra] of [
    ['RNN', 1, 1, {}],
    ['GRU', 3, 1, { linear_before_reset: 1 }],
    ['GRU', 3, 1, {}],
    ['LSTM', 4, 2, { clip: 0.5 }],
  ] as const)
    for (const direction of ['forward', 'reverse'])
      it(`${type}: a long sequence is a loop, ${direction} ${JSON.stringify(extra)}`, () => {
        const [long, half] = [100, 50];
        const x = weights([long, B, I]);
        const fixed = [
          weights([1, gates * H, I]),
          weights([1, gates * H, H]),
          weights([1, 2 * gates * H]),
        ];
        const valid = [90, 30];
        const start = [weights([1, B, H]), weights([1, B, H])].slice(0, states);
        const run = (part: Operand, valid: readonly number[], from: readonly Operand[]) =>
          runNode(
            type,
            [part, ...fixed, tensor([B], valid, 'i32'), ...from],
            { hidden_size: H, direction, ...extra },
            1 + states,
          );
        const whole = run(x, valid, start);
        assert.match(whole.text, /loop\d+\.state/);
        const ranges = direction === 'forward' ? [0, half] : [half, 0];
        let state: readonly Operand[] = start;
        const outputs = new Map<number, readonly number[]>();
        for (const from of ranges) {
          const part = run(
            steps(x, from, from + half),
            valid.map((n) => Math.min(half, Math.max(0, n - from))),
            state,
          );
          assert.doesNotMatch(part.text, /loop/);
          const [y, ...last] = part.results;
          outputs.set(from, y?.values ?? []);
          state = last.map((l) => tensor([1, B, H], l.values));
        }
        const [y, ...last] = whole.results;
        assert.ok(y);
        close(y.values, [...(outputs.get(0) ?? []), ...(outputs.get(half) ?? [])]);
        last.forEach((l, i) => close(l.values, state[i]?.values ?? []));
      });

  it('LSTM: both directions of a long sequence are one loop', () => {
    const long = 80;
    const x = weights([long, B, I]);
    const params = (d: number): Operand[] => [
      weights([d, 4 * H, I]),
      weights([d, 4 * H, H]),
      weights([d, 8 * H]),
    ];
    const two = params(2);
    const both = runNode('LSTM', [x, ...two], { hidden_size: H, direction: 'bidirectional' }, 3);
    assert.equal(new Set(both.text.match(/loop\d+\./g)).size, 1, both.text);
    ['forward', 'reverse'].forEach((direction, d) => {
      const own = two.map((t): Operand => {
        const size = t.values.length / 2;
        return {
          ...t,
          shape: [1, ...t.shape.slice(1)],
          values: t.values.slice(d * size, (d + 1) * size),
        };
      });
      const one = runNode('LSTM', [x, ...own], { hidden_size: H, direction }, 3);
      const [y, h] = both.results;
      const [z, k] = one.results;
      assert.ok(y && h && z && k);
      for (let t = 0; t < long; t++)
        for (let b = 0; b < B; b++)
          for (let i = 0; i < H; i++)
            assert.ok(Math.abs(y.at(t, d, b, i) - z.at(t, 0, b, i)) < 1e-12);
      for (let b = 0; b < B; b++)
        for (let i = 0; i < H; i++) assert.ok(Math.abs(h.at(d, b, i) - k.at(0, b, i)) < 1e-12);
    });
  });
});
