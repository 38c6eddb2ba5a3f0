/** The register tiles that a kernel gets by itself, and the vectors in its code. */
import { strict as assert } from 'node:assert';
import { DEFAULT_DEVICE, deviceByName } from '../../../compiler/fusion/devices';
import type { Stmt } from '../../../compiler/schedule/kernelIr';
import { contractionTile, linearTile, unrolledTurns } from '../../../compiler/schedule/tiles';
import { compile } from '../../../compiler';

const device = (name: string) => deviceByName(name) ?? DEFAULT_DEVICE;

function codeOf(text: string, name: string): string {
  const c = compile(
    { file: 'a.fuse', bytes: new TextEncoder().encode(text) },
    { device: device(name) },
  );
  assert.equal(c.result.after.kernels.length, 1);
  return (c.kernelCode(c.result.after.kernels[0]?.id ?? '') ?? []).join('\n');
}

describe('register tiles', () => {
  it('of a large product are as large as the registers allow', () => {
    for (const name of ['software', 'integrated', 'discrete', 'datacenter'])
      assert.deepEqual(contractionTile(4096, 4096, 4096 * 4096, device(name)), {
        row: 8,
        column: 8,
        // By the mean of both operands on a CPU, at the least favourable on a GPU.
        reuse: name === 'software' ? 8 : 4,
        indexReuse: name === 'software' ? 8 : 1,
        products: 64,
        operands: 40,
      });
  });

  it('of a window are along the dims in which results share what they read', () => {
    const tileOf = (source: string, name: string): unknown => {
      const c = compile(
        { file: 'a.fuse', bytes: new TextEncoder().encode(`${source}\noutput y`) },
        { device: device(name) },
      );
      return c.result.after.kernels[0]?.schedule['tile'];
    };
    const depthwise =
      'input x: f32[1, 96, 56, 56]\nparam w: f32[96, 1, 3, 3]\ny = conv2d(x, w, padding=1, groups=96)';
    assert.equal(tileOf(depthwise, 'software'), '1×1×2×4');
    assert.equal(tileOf(depthwise, 'llvmpipe'), '1×1×4×4');
    assert.equal(tileOf(depthwise, 'integrated'), '1×1×4×4');
    // Pools that don't overlap share nothing but the vectors' stores.
    const pool = 'input x: f32[1, 96, 56, 56]\ny = max_pool2d(x, 2)';
    // Short sums, each over elements of its own, share nothing at all.
    const sum = 'input x: f32[5000, 12]\ny = sum(x, axis=1)';
    for (const source of [pool, sum])
      for (const name of ['software', 'integrated'])
        assert.doesNotMatch(String(tileOf(source, name)), /×/);
  });

  it('have as many turns of the sum written out as stay decoded', () => {
    const tile = contractionTile(4096, 4096, 4096 * 4096, device('software'));
    assert.equal(unrolledTurns(tile, device('software')), 2);
    assert.equal(unrolledTurns(undefined, device('software')), 4);
    assert.equal(unrolledTurns(tile, device('llvmpipe')), 1);
    assert.equal(unrolledTurns(tile, device('integrated')), 4);
  });

  it('of a small product leave enough invocations to keep a wide device busy', () => {
    const small = contractionTile(64, 256, 64 * 256, device('datacenter'));
    const large = contractionTile(2048, 2048, 2048 * 2048, device('datacenter'));
    assert.ok(small.row * small.column < large.row * large.column);
  });

  it('never exceed a dim, and prefer one that divides it', () => {
    assert.equal(contractionTile(1, 4096, 4096, device('software')).row, 1);
    assert.equal(contractionTile(0, 0, 0, device('software')).column, 1);
    for (const n of [3, 7, 14, 56])
      assert.equal(n % contractionTile(4096, n, 4096 * n, device('software')).column, 0);
  });

  it('of pointwise work are longer on a CPU, unless the code is long or the work small', () => {
    const code = (n: number): Stmt[] => Array.from({ length: n }, () => ({ s: 'barrier' }));
    assert.equal(linearTile(1 << 24, code(12), device('software')), 16);
    assert.equal(linearTile(1 << 24, code(30), device('software')), 8);
    assert.equal(linearTile(1 << 24, code(30), device('llvmpipe')), 16);
    assert.equal(linearTile(1 << 24, code(100), device('software')), 4);
    assert.equal(linearTile(1 << 12, code(12), device('software')), 4);
    assert.equal(linearTile(1 << 24, code(12), device('integrated')), 4);
  });
});

describe('vector accesses', () => {
  const vectors = (code: string): number => (code.match(/array<vec4<f32>/g) ?? []).length;

  it('along the summed dim and along the columns of a product', () => {
    const code = codeOf(
      'input x: f32[512, 512]\nparam w: f32[512, 512]\ny = relu(x @ w)\noutput y\n',
      'integrated',
    );
    assert.equal(vectors(code), 3);
    assert.match(code, /r0 < 128;/);
  });

  it('along rows, for one invocation a row as for many', () => {
    for (const name of ['software', 'integrated'])
      assert.equal(
        vectors(codeOf('input x: f32[4096, 1024]\ny = softmax(x, axis=-1)\noutput y\n', name)),
        2,
        name,
      );
  });

  it('not where rows don’t divide into fours', () => {
    const code = codeOf(
      'input x: f32[4096, 1023]\ny = softmax(x, axis=-1)\noutput y\n',
      'software',
    );
    assert.equal(vectors(code), 0);
  });
});

describe('the arrays of bindings', () => {
  it('have a length where it is known when compiling, and none where it isn’t', () => {
    const known = codeOf('input x: f32[6, 1024]\ny = relu(x)\noutput y\n', 'software');
    assert.match(known, /b0: array<vec4<f32>, 1536>;/);
    const open = codeOf('dim B = 6\ninput x: f32[B, 1024]\ny = relu(x)\noutput y\n', 'software');
    assert.match(open, /b0: array<vec4<f32>>;/);
  });

  it('are never indexed beyond their end by a number', () => {
    // Three rows and columns, computed as a tile of four by four.
    const code = codeOf(
      'input x: f32[3, 4]\nparam w: f32[4, 3]\ny = x @ w\nschedule y { tile = 4 }\noutput y\n',
      'software',
    );
    assert.match(code, /b0: array<vec4<f32>, 3>;/);
    const places = [...code.matchAll(/b0\[(\d+)\]/g)].map(([, at]) => Number(at));
    assert.deepEqual(places, [0, 1, 2, 2]);
  });
});

describe('turns', () => {
  const source = (rows: number): string =>
    `input x: f32[${rows}, 1000]\nparam b: f32[1000]\ny = relu(x + b)\noutput y\n`;

  it('are taken by long pointwise work on a CPU, and load once what is the same in all', () => {
    const code = codeOf(source(16000), 'software');
    const loop = code.indexOf('for (var turn = 0; turn < 400; turn += 1)');
    assert.ok(loop > 0);
    assert.ok(code.indexOf('b1[') < loop && code.indexOf('b0[') > loop);
    assert.ok(!codeOf(source(500), 'software').includes('var turn'));
    assert.ok(!codeOf(source(16000), 'integrated').includes('var turn'));
  });

  it('go along the dim that most loads don’t depend on', () => {
    const code = codeOf(
      'input x: f32[4, 512, 8, 256]\nparam b: f32[4, 1, 8, 256]\ny = x * b\noutput y\n',
      'software',
    );
    assert.ok(code.indexOf('b1[') < code.indexOf('for (var turn'));
  });

  it('not where a buffer is over the limit on bindings: its ranges would be in all of them', () => {
    assert.ok(!codeOf(source(100_000), 'llvmpipe').includes('var turn'));
  });
});
