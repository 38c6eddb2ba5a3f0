import assert from 'node:assert/strict';
import { close, faults, Naive, numbers, run } from './fixture';

const mean = (v: readonly number[]): number => v.reduce((a, b) => a + b, 0) / v.length;
const variance = (v: readonly number[]): number => mean(v.map((a) => (a - mean(v)) ** 2));
const standard = (v: readonly number[], eps: number): number[] =>
  v.map((a) => (a - mean(v)) / Math.sqrt(variance(v) + eps));

/** Applies f to consecutive runs of that length. */
function byRow(
  values: readonly number[],
  length: number,
  f: (row: readonly number[]) => readonly number[],
): number[] {
  const out: number[] = [];
  for (let i = 0; i < values.length; i += length) out.push(...f(values.slice(i, i + length)));
  return out;
}

function softmax(v: readonly number[]): number[] {
  const e = v.map((a) => Math.exp(a - Math.max(...v)));
  const sum = e.reduce((a, b) => a + b, 0);
  return e.map((a) => a / sum);
}

describe('ops: softmax and its kin', () => {
  const x = numbers(24, 5);

  it('softmax along the last axis and along another', () => {
    const r = run(
      'input x: f32[4, 6]\na = softmax(x)\nb = softmax(x, axis=0)\noutput a\noutput b',
      {
        x,
      },
    );
    close(r.outputs['a']?.values ?? [], byRow(x, 6, softmax));
    const t = new Naive([4, 6], x);
    const columns = Naive.make([6, 4], ([i = 0, j = 0]) => t.at(j, i));
    const wanted = new Naive([6, 4], byRow(columns.values, 4, softmax));
    close(
      r.outputs['b']?.values ?? [],
      Naive.make([4, 6], ([i = 0, j = 0]) => wanted.at(j, i)).values,
    );
  });

  it('is four computes: maximum, exponential, sum, quotient', () => {
    const r = run('dim N = 4\ninput x: f32[N, 6]\ny = softmax(x, axis=-1)\noutput y');
    assert.equal(r.computes, 4);
    assert.match(r.text, /max\(r0:6\)[^]*exp\(sub\([^]*sum\(r0:6\)[^]*div\(/);
  });

  it('does not overflow', () => {
    const r = run('input x: f32[1, 3]\na = softmax(x)\nb = log_softmax(x)\noutput a\noutput b', {
      x: [1000, 1001, 999],
    });
    close(r.outputs['a']?.values ?? [], softmax([1000, 1001, 999]));
    close(r.outputs['b']?.values ?? [], softmax([0, 1, -1]).map(Math.log));
  });

  it('hardmax marks the first maximum', () => {
    const r = run('input x: f32[2, 3]\ny = hardmax(x)\noutput y', { x: [1, 3, 3, 2, 1, 0] });
    assert.deepEqual(r.y.values, [0, 1, 0, 1, 0, 0]);
  });
});

describe('ops: normalisations', () => {
  const x = numbers(48, 7);

  it('layer_norm over the last axis, with and without weights', () => {
    const w = numbers(6, 2);
    const b = numbers(6, 3);
    const r = run(
      'input x: f32[8, 6]\nparam w: f32[6]\nparam b: f32[6]\nplain = layer_norm(x, axis=-1)\ny = layer_norm(x, w, b, axis=-1, eps=1e-3)\noutput plain\noutput y',
      { x, w, b },
    );
    close(
      r.outputs['plain']?.values ?? [],
      byRow(x, 6, (v) => standard(v, 1e-5)),
    );
    close(
      r.outputs['y']?.values ?? [],
      byRow(x, 6, (v) => standard(v, 1e-3).map((a, i) => a * (w[i] ?? 0) + (b[i] ?? 0))),
    );
  });

  it('layer_norm over several axes, also in PyTorch’s order', () => {
    const source = (call: string): string =>
      `input x: f32[2, 4, 6]\nparam w: f32[4, 6]\ny = ${call}\noutput y`;
    const w = numbers(24, 4);
    const want = byRow(x, 24, (v) => standard(v, 1e-5).map((a, i) => a * (w[i] ?? 0)));
    for (const call of ['layer_norm(x, w, axis=[-2, -1])', 'layer_norm(x, [4, 6], w)'])
      close(run(source(call), { x, w }).y.values, want);
    assert.match(faults(source('layer_norm(x, [3, 6])'))[0] ?? '', /normalized_shape/);
    assert.match(
      faults('input x: f32[2, 4, 6]\nparam w: f32[5]\ny = layer_norm(x, w)\noutput y')[0] ?? '',
      /the weight of shape \[5\] doesn't broadcast to the operand's \[2, 4, 6\]/,
    );
  });

  it('rms_norm', () => {
    const r = run('input x: f32[8, 6]\nparam w: f32[6]\ny = rms_norm(x, w, eps=1e-6)\noutput y', {
      x,
      w: [1, 2, 3, 4, 5, 6],
    });
    close(
      r.y.values,
      byRow(x, 6, (v) => {
        const root = Math.sqrt(mean(v.map((a) => a * a)) + 1e-6);
        return v.map((a, i) => (a / root) * (i + 1));
      }),
    );
  });

  it('group_norm and instance_norm', () => {
    const w = [1, 2, 3, 4];
    const source =
      'input x: f32[2, 4, 6]\nparam w: f32[4]\ng = group_norm(x, 2, w)\ni = instance_norm(x, w)\noutput g\noutput i';
    const r = run(source, { x, w });
    const scaled = (rowLength: number): number[] =>
      byRow(x, rowLength, (v) => standard(v, 1e-5)).map(
        (a, k) => a * (w[Math.floor(k / 6) % 4] ?? 0),
      );
    close(r.outputs['g']?.values ?? [], scaled(12));
    close(r.outputs['i']?.values ?? [], scaled(6));
    assert.match(
      faults('input x: f32[2, 3, 4]\ny = group_norm(x, 2)\noutput y')[0] ?? '',
      /3 channels of \[2, 3, 4\] can't be split into 2 equal groups/,
    );
  });

  it('batch_norm per channel, operands in PyTorch’s order', () => {
    const source =
      'input x: f32[2, 2, 12]\nparam m: f32[2]\nparam v: f32[2]\nparam w: f32[2]\nparam b: f32[2]\ny = batch_norm(x, m, v, w, b, eps=0)\noutput y';
    const r = run(source, { x, m: [1, 2], v: [4, 9], w: [10, 20], b: [5, 6] });
    close(
      r.y.values,
      x.map((a, k) =>
        Math.floor(k / 12) % 2 === 0 ? ((a - 1) / 2) * 10 + 5 : ((a - 2) / 3) * 20 + 6,
      ),
    );
    assert.equal(r.computes, 1);
  });

  it('normalize by a norm, zero rows staying zero', () => {
    const r = run('input x: f32[2, 2]\ny = normalize(x, dim=1)\noutput y', { x: [3, 4, 0, 0] });
    close(r.y.values, [0.6, 0.8, 0, 0]);
  });

  it('local_response_norm over neighbouring channels', () => {
    const values = numbers(10, 6);
    const r = run(
      'input x: f32[1, 5, 2]\ny = local_response_norm(x, 3, alpha=0.3, beta=0.5, k=2)\noutput y',
      { x: values },
    );
    const t = new Naive([5, 2], values);
    close(
      r.y.values,
      Naive.make([5, 2], ([c = 0, i = 0]) => {
        let sum = 0;
        for (let k = Math.max(0, c - 1); k <= Math.min(4, c + 1); k++) sum += t.at(k, i) ** 2;
        return t.at(c, i) / Math.sqrt(2 + (0.3 / 3) * sum);
      }).values,
    );
  });
});

describe('ops: losses', () => {
  const x = numbers(12, 8);
  const source = (call: string): string =>
    `input x: f32[4, 3]\ninput t: i64[4]\nparam w: f32[3]\ny = ${call}\noutput y`;
  const t = [2, 0, 1, -100];
  const w = [1, 2, 3];
  const log = byRow(x, 3, (v) => softmax(v).map(Math.log));
  const losses = t.map((label, i) => (label < 0 ? 0 : -(log[i * 3 + label] ?? 0)));
  const weights = t.map((label) => w[label] ?? 0);

  it('cross_entropy averages what is not ignored', () => {
    close(run(source('cross_entropy(x, t)'), { x, t, w }).y.values, [
      losses.reduce((a, b) => a + b, 0) / 3,
    ]);
  });

  it('cross_entropy with weights, as a weighted mean and as it is', () => {
    const weighted = losses.map((l, i) => l * (weights[i] ?? 0));
    const total = weights.reduce((a, b) => a + b, 0);
    close(run(source('cross_entropy(x, t, w)'), { x, t, w }).y.values, [
      weighted.reduce((a, b) => a + b, 0) / total,
    ]);
    close(run(source('cross_entropy(x, t, w, reduction="none")'), { x, t, w }).y.values, weighted);
  });

  it('nll_loss of log probabilities is the same', () => {
    close(run(source('nll_loss(log_softmax(x), t, reduction="sum")'), { x, t, w }).y.values, [
      losses.reduce((a, b) => a + b, 0),
    ]);
  });

  it('mse_loss and l1_loss', () => {
    const of = (call: string): readonly number[] =>
      run(`input x: f32[4]\ninput z: f32[4]\ny = ${call}\noutput y`, {
        x: [1, 2, 3, 4],
        z: [2, 2, 5, 0],
      }).y.values;
    close(of('mse_loss(x, z)'), [(1 + 0 + 4 + 16) / 4]);
    close(of('l1_loss(x, z, reduction="sum")'), [7]);
  });
});
