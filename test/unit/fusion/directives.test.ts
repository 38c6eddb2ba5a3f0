/**
 * What a file asks of the plan: each directive acts, and one that can't says why.
 */
import assert from 'node:assert/strict';
import { compile } from '../../../compiler';
import { DEFAULT_DEVICE } from '../../../compiler/fusion/devices';
import type { CompileResult } from '../../../compiler/result';

function resultOf(source: string): CompileResult {
  const bytes = new TextEncoder().encode(source);
  return compile({ file: 'test.fuse', bytes }, { device: DEFAULT_DEVICE }).result;
}

/** `k0: relu softmax | k1: mul` */
function plan(r: CompileResult): string {
  const op = new Map(r.graph.nodes.map((n) => [n.id, n.op]));
  return r.after.kernels
    .map((k) => `${k.id}: ${k.nodes.map((n) => op.get(n) ?? n).join(' ')}`)
    .join(' | ');
}

const errors = (r: CompileResult): string[] =>
  r.diagnostics.filter((d) => d.severity === 'error').map((d) => `${d.code} ${d.message}`);

const CHAIN = 'input x: f32[64, 256]\na = tanh(x)\nb = a * 2.0\ny = exp(b)\n';

describe('the steps of the search', () => {
  it('lead from one kernel an op to the plan', () => {
    const source =
      'input x: f32[64, 256]\nparam w: f32[256, 64]\ny = softmax(relu(x @ w), axis=-1)\noutput y';
    const bytes = new TextEncoder().encode(source);
    const c = compile({ file: 'test.fuse', bytes }, { device: DEFAULT_DEVICE });
    const groups = new Map(c.graph.nodes.map((n) => [n.id, new Set([n.id])]));
    for (const step of c.steps()) {
      assert.ok(step.gainUs >= 0);
      const one = new Set([...step.left, ...step.right].flatMap((n) => [...(groups.get(n) ?? [])]));
      for (const n of one) groups.set(n, one);
    }
    const reached = [...new Set(groups.values())].map((g) => [...g].sort().join(' ')).sort();
    const plan = c.result.after.kernels.map((k) => [...k.nodes].sort().join(' ')).sort();
    assert.deepEqual(reached, plan);
  });
});

describe('directives', () => {
  it('nofuse cuts an edge, and the decision names the line', () => {
    assert.equal(plan(resultOf(`${CHAIN}output y`)), 'k0: tanh mul exp');
    const r = resultOf(`${CHAIN}output y\nnofuse a -> b`);
    assert.equal(plan(r), 'k0: tanh | k1: mul exp');
    const cut = r.decisions.find((d) => !d.fused);
    assert.equal(cut?.verdicts[0]?.code, 'FORBIDDEN');
    assert.equal(cut.verdicts[0].limitSource, 'line 6');
  });

  it('materialize keeps a value in memory without cutting the kernel', () => {
    const r = resultOf(`${CHAIN}output y\nmaterialize a`);
    assert.equal(plan(r), 'k0: tanh mul exp');
    assert.deepEqual(r.after.kernels[0]?.outputs, ['a', 'y']);
    assert.equal(r.after.bytesWritten, 2 * 64 * 256 * 4);
  });

  it('fuse makes one kernel where the model would not, and says why where none can be', () => {
    const apart =
      'input x: f32[512, 512]\nparam w: f32[512, 512]\nparam v: f32[512, 512]\na = x @ w\nb = a @ v\noutput b\n';
    const r = resultOf(`${apart}fuse a, b`);
    const [fault] = errors(r);
    assert.match(fault ?? '', /^REQUIRED_BUT 'fuse a, b' can't be one kernel: \w+: /);
    assert.equal(r.runnable.ok, true);
    const together = resultOf(
      'input x: f32[10, 10]\na = sum(x)\nb = sum(x, axis=1)\ny = b * 2.0\noutput a, y\nfuse b, y',
    );
    assert.deepEqual(errors(together), []);
    const k = together.after.kernels.find((x) => x.nodes.length === 2);
    assert.ok(k);
  });

  it('fuse takes along what lies between', () => {
    // The product has no name, and stands between the two that have.
    const r = resultOf(
      'input x: f32[64, 128]\nparam w: f32[128, 128]\nn = layer_norm(x, axis=-1)\ny = relu(n @ w)\noutput y\nfuse n, y',
    );
    assert.deepEqual(errors(r), []);
    assert.equal(plan(r), 'k0: layer_norm matmul relu');
  });

  it('fuse puts ops that have nothing to do with each other on one grid', () => {
    const program = `input x: f32[512, 512]
input z: f32[100, 30]
input u: f32[77]
a = exp(x)
b = softmax(z, axis=-1)
c = tanh(u)
output a, b, c`;
    assert.equal(resultOf(program).after.kernels.length, 3);
    const asked = resultOf(`${program}\nfuse a, b`);
    assert.match(plan(asked), /exp softmax/);
    assert.deepEqual(errors(asked), []);
    assert.ok(asked.after.kernels.some((k) => k.pattern === 'horizontal'));
    // Lines that name one op mean one kernel.
    const all = resultOf(`${program}\nfuse a, b\nfuse b, c\nexpect kernels == 1`);
    assert.equal(plan(all), 'k0: exp softmax tanh');
    assert.deepEqual(errors(all), []);
    // Neither what one needs of the other, nor two kernels that need each other's results.
    const waits = resultOf(`input x: f32[64, 64]
input y: f32[64, 64]
a = x @ x
b = y @ y
c = b @ b
d = a @ a
output c, d
fuse a, c
fuse b, d`);
    assert.equal(errors(waits).length, 1);
    assert.match(errors(waits)[0] ?? '', /^REQUIRED_BUT 'fuse b, d' can't be one kernel/);
  });

  it('recompute copies a value into each of its consumers', () => {
    const source =
      'input x: f32[64, 1]\ninput y: f32[64, 512]\ninput z: f32[64, 700]\ns = exp(x)\na = s * y\nb = s + z\noutput a, b\n';
    const r = resultOf(`${source}recompute s`);
    assert.deepEqual(errors(r), []);
    const copies = r.after.kernels.filter((k) =>
      k.nodes.some((n) => r.graph.nodes.find((x) => x.id === n)?.op === 'exp'),
    );
    assert.equal(copies.length, 2, plan(r));
    assert.ok(r.after.kernels.every((k) => !k.outputs.includes('s')));
  });

  it('schedule sets the parameters of a kernel', () => {
    const r = resultOf(`${CHAIN}output y\nschedule y { workgroup = 128, tile = 2 }`);
    assert.deepEqual(errors(r), []);
    const k = r.after.kernels[0];
    assert.deepEqual(k?.schedule, { workgroup: 128, tile: 2 });
    assert.deepEqual(k.grid, [64, 1, 1]);
    const plain = resultOf(`${CHAIN}output y`).after.kernels[0];
    assert.notEqual(k.hash, plain?.hash);
  });

  it('refuses parameters that a kernel has not, or that the adapter can not run', () => {
    const of = (text: string): string =>
      errors(resultOf(`${CHAIN}output y\nschedule y { ${text} }`)).join('\n');
    assert.match(
      of('threads = 4'),
      /BAD_SCHEDULE .* no parameter 'threads'; it has workgroup, tile, tileRows, turns and staging/,
    );
    assert.match(of('workgroup = 1000'), /from 1 to 256, what the adapter allows/);
    assert.match(of('tile = 17'), /tile must be a whole number from 1 to 16/);
    assert.match(of('tileRows = 2'), /tileRows is for products/);
  });

  it('refuses parameters with which a kernel would need more than the adapter has', () => {
    // Scores that are normalised before the product with the values: whole rows of them are kept.
    const kept = [
      ...['q', 'k', 'v'].map((n) => `input ${n}: f32[512, 64]`),
      's = q @ transpose(k)',
      'd = s - mean(s, axis=-1, keepdim=true)',
      'y = (d * rsqrt(mean(d * d, axis=-1, keepdim=true) + 1e-5)) @ v',
      'output y',
      '',
    ].join('\n');
    const r = resultOf(kept);
    const [kernel] = r.after.kernels;
    assert.equal(kernel?.template, 'row', plan(r));
    assert.deepEqual(errors(resultOf(`${kept}schedule y { block = 2 }`)), []);
    assert.match(
      errors(resultOf(`${kept}schedule y { block = 8, threads = 256 }`)).join('\n'),
      /BAD_SCHEDULE .* would need \d+ bytes of workgroup memory, and the adapter has 16384/,
    );
    assert.match(
      errors(resultOf(`${kept}schedule y { rows = 2 }`)).join('\n'),
      /rows must be 1, since this kernel keeps whole rows/,
    );
  });

  it('sets how a kernel walks along rows, or says why it can’t', () => {
    const attention =
      'dim S = 512\ninput q: f32[8, S, 64]\ninput k: f32[8, S, 64]\ninput v: f32[8, S, 64]\ny = scaled_dot_product_attention(q, k, v)\noutput y\n';
    const of = (text: string): CompileResult => resultOf(`${attention}schedule y { ${text} }`);
    const r = of('threads = 128, rows = 8, tile = 32');
    assert.deepEqual(errors(r), []);
    assert.deepEqual(r.after.kernels[0]?.schedule, { threads: 128, rows: 8, tile: 32 });
    assert.match(errors(of('tile = 48')).join('\n'), /tile .* must be a power of two/);
    assert.match(errors(of('threads = 512')).join('\n'), /the adapter allows 256 invocations/);
    assert.match(errors(of('rows = 32, tile = 256')).join('\n'), /keep \d+ results at once/);
    assert.match(errors(of('workgroup = 64')).join('\n'), /it has threads, rows and tile/);
  });

  it('expect is checked, and fails with the reason', () => {
    const r = resultOf(
      `${CHAIN}output y\nexpect kernels == 1\nexpect fused a, y\nexpect pattern y = pointwise\nexpect bytes <= 1 KiB`,
    );
    assert.deepEqual(
      r.expectations.map((e) => e.held),
      [true, true, true, false],
    );
    assert.match(errors(r)[0] ?? '', /EXPECTATION_FAILED .*131072 bytes/);
  });
});
