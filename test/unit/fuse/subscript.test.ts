/**
 * `x[…]`, methods of what isn't a name, and dims as numbers.
 */
import assert from 'node:assert/strict';
import { importFuse } from '../../../compiler/import/fuse';
import { lowerGraph } from '../../../compiler/ops/lower';
import { close, counting, faults, type Result, run } from '../ops/fixture';

const X = counting(24);
const feeds = { x: X, i: [2, 0] };

/** Of x: f32[2, 3, 4] with 0 to 23 in it. */
function of(expression: string): Result {
  return run(
    `dim B = 2\ndim S = 3\ninput x: f32[B, S, 4]\ninput i: i64[2]\ny = ${expression}\noutput y`,
    feeds,
  ).y;
}

function shows(expression: string, shape: readonly number[], values: readonly number[]): void {
  const y = of(expression);
  assert.deepEqual(y.shape, shape, expression);
  close(y.values, values);
}

describe('fuse: indexing', () => {
  it('takes places, ranges, new dims and the rest', () => {
    shows('x[1]', [3, 4], counting(12, 12));
    shows('x[-1, 0]', [4], [12, 13, 14, 15]);
    shows('x[:, 0]', [2, 4], [0, 1, 2, 3, 12, 13, 14, 15]);
    shows(
      'x[..., 1:]',
      [2, 3, 3],
      X.filter((v) => v % 4 > 0),
    );
    shows('x[..., 0]', [2, 3], [0, 4, 8, 12, 16, 20]);
    shows('x[:, None]', [2, 1, 3, 4], X);
    shows('x[0, :, none, 1]', [3, 1], [1, 5, 9]);
    shows('x[0, 1, 2]', [], [6]);
    shows('x[0, ::2, -2:]', [2, 2], [2, 3, 10, 11]);
    shows('x[0, 0, ::-1]', [4], [3, 2, 1, 0]);
    shows('x[0, 0, 1:100]', [3], [1, 2, 3]);
    shows('x[1][2][3]', [], [23]);
  });

  it('takes T and mT, of names and of what isn’t one', () => {
    shows('x[0].T', [4, 3], [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]);
    shows('x.T[1, 2]', [2], [9, 21]);
    shows('x.mT[0, 1]', [3], [1, 5, 9]);
    shows('(x + 1).mT.T[0, 0]', [2], [1, 13]);
    shows('x.T.T', [2, 3, 4], X);
    shows('x.mT.mT.reshape(24)', [24], X);
  });

  it('takes sizes of dims, and from the end of them', () => {
    shows('x[0, S - 1]', [4], [8, 9, 10, 11]);
    shows('x[0, : S // 2, 0]', [1], [0]);
    shows('x[B - 1, -1, B:]', [2], [22, 23]);
  });

  it('picks places that a tensor or a list holds', () => {
    shows('x[0, i, 0]', [2], [8, 0]);
    shows('x[:, i, 0]', [2, 2], [8, 0, 20, 12]);
    shows('x[:, [2, 0], 0]', [2, 2], [8, 0, 20, 12]);
    shows('x[..., i]', [2, 3, 2], [2, 0, 6, 4, 10, 8, 14, 12, 18, 16, 22, 20]);
  });

  it('takes one of several results by its number', () => {
    shows('split(x, [1, 3], axis=-1)[0]', [2, 3, 1], [0, 4, 8, 12, 16, 20]);
    shows('topk(x, 1)[-1]', [2, 3, 1], [3, 3, 3, 3, 3, 3]);
  });

  it('stands behind calls, brackets and itself, and binds more tightly than operators', () => {
    shows('neg(x)[0, 0, 1:] * 2', [3], [-2, -4, -6]);
    shows('(x + 1)[0, 0, :2]', [2], [1, 2]);
    shows('-x[0, 0, 3] ** 2', [], [-9]);
    shows('x[:, 0].sum(1)', [2], [6, 54]);
    shows('x.reshape([6, 4]).transpose(0, 1)[0]', [6], [0, 4, 8, 12, 16, 20]);
  });

  it('is a view', () => {
    const source = 'input x: f32[8, 16]\ny = x[:, None, 1::2] + 1\noutput y';
    assert.equal(run(source).computes, 1);
    const { graph } = importFuse(source, 'test.fuse');
    assert.equal(lowerGraph(graph).kinds.get('y#index'), 'view');
  });

  it('says what is wrong', () => {
    const wrong = (e: string): string | undefined =>
      faults(`input x: f32[2, 3]\ninput m: i64[2]\ny = ${e}\noutput y`)[0];
    assert.match(wrong('x[2]') ?? '', /no place 2 along dim 0, which has 2/);
    assert.match(wrong('x[0, 0, 0]') ?? '', /3 dims are indexed, but \[2, 3\] has 2/);
    assert.match(wrong('x[..., ...]') ?? '', /can’t stand twice/);
    assert.match(wrong('x[::0]') ?? '', /other than 0/);
    assert.match(wrong('x[0.5]') ?? '', /whole number/);
    assert.match(wrong('x[m, m]') ?? '', /Only one tensor/);
    assert.match(wrong('split(x, [1, 2], axis=1)[2]') ?? '', /from 0 to 1/);
    assert.match(wrong('max(x, dim=1)[0]') ?? '', /gives the values alone/);
    assert.match(wrong('x [0]') ?? '', /./);
  });
});

describe('fuse: what PyTorch code says besides', () => {
  it('dtypes and numbers of modules, arguments that change nothing here, alpha', () => {
    const y = of('torch.add(F.relu(x[0, 0], inplace=True), i[0], alpha=2) + math.pi * 0');
    close(y.values, [4, 5, 6, 7]);
    assert.equal(of('cast(x, torch.float16)').dtype, 'f16');
    shows('sub(x[0, 0], 1, alpha=3)', [4], [-3, -2, -1, 0]);
    shows('F.softplus(x[0, 0], beta=1, threshold=20)[0]', [], [Math.log(2)]);
  });
});

describe('fuse: dims as numbers', () => {
  it('are calculated with where they meet a tensor', () => {
    shows('x[0, 0] / S', [4], [0, 1 / 3, 2 / 3, 1]);
    shows('x[0, 0] * (1 / S)', [4], [0, 1 / 3, 2 / 3, 1]);
    shows('x[0, 0] - B', [4], [-2, -1, 0, 1]);
    shows('x[0, 0] * sqrt(S * S)', [4], [0, 3, 6, 9]);
    shows(
      'x[0, 0] * B ** -0.5',
      [4],
      [0, 1, 2, 3].map((v) => v / Math.SQRT2),
    );
    assert.equal(of('x / S').dtype, 'f32');
  });

  it('follow the size that is given when the graph runs', () => {
    const text = run('dim S = 3\ninput x: f32[S]\ny = x / S\noutput y', { x: [3, 6, 9] }).text;
    assert.match(text, /idx\(S\)/);
  });

  it('stay sizes in types', () => {
    const fault = faults('dim S = 3\ninput x: f32[S / 2]\ny = x + 1\noutput y')[0];
    assert.match(fault ?? '', /may leave a remainder/);
  });
});
