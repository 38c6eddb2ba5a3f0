import assert from 'node:assert/strict';
import { compile } from '../../../compiler';
import { DEFAULT_DEVICE } from '../../../compiler/fusion/devices';
import { prepareWeights, type Prepared } from '../../../compiler/fusion/prepare';
import { printProgram } from '../../../compiler/ir/print';
import { verifyProgram } from '../../../compiler/ir/verify';
import type { CompileResult } from '../../../compiler/result';

const NORM = 'param mean: f32[8]\nparam var: f32[8]\nparam gamma: f32[8]\nparam beta: f32[8]\n';

function compiled(source: string): ReturnType<typeof compile> {
  const bytes = new TextEncoder().encode(source);
  const c = compile({ file: 'test.fuse', bytes }, { device: DEFAULT_DEVICE });
  assert.deepEqual(
    c.result.diagnostics.filter((d) => d.severity === 'error').map((d) => d.message),
    [],
  );
  return c;
}

const result = (source: string): CompileResult => compiled(source).result;

function prepared(source: string, f16 = false): Prepared | undefined {
  const { program } = compiled(source);
  const keep = new Set(program.outputs.map((o) => o.value));
  const p = prepareWeights(program, new Set(), keep, f16);
  if (p) {
    assert.deepEqual(verifyProgram(p.preparing), []);
    assert.deepEqual(verifyProgram(p.reference), []);
    assert.equal(p.run.computes.length, program.computes.length);
  }
  return p;
}

/** What is computed, without ids and origins. */
const lines = (p: Prepared['run'] | undefined): string[] =>
  p
    ? printProgram(p)
        .split('\n')
        .map((line) => line.replace(/^c:\S+ /, '').replace(/ +# .*$/, ''))
    : [];

describe('what depends on weights alone', () => {
  it('is folded into a convolution, with what stands between', () => {
    const p = prepared(
      `input x: f32[1, 4, 6, 6]\nparam w: f32[8, 4, 1, 1]\nparam b: f32[8]\n${NORM}y = batch_norm(conv2d(x, w, b), mean, var, gamma, beta)\noutput y`,
    );
    assert.deepEqual(lines(p?.run).slice(1), [
      'y#conv2d:1~scaled[d0:1, d1:8, d2:6, d3:6] f32 = y#conv2d:0~scaled[d0, d1, d2, d3]',
      'y#batch_norm:0[d0:1, d1:8, d2:6, d3:6] f32 = add(y#conv2d:1~scaled[d0, d1, d2, d3], y#batch_norm:0~0[d1])',
    ]);
    assert.match(lines(p?.run)[0] ?? '', /sum\(r0:4.*\) mul\(.*x\[.*, y#conv2d:0~0\[d1, r0.*\]\)$/);
    assert.match(
      lines(p?.preparing)[0] ?? '',
      /= mul\(w\[d0.*\], mul\(rsqrt\(add\(var\[d0\], .*\)\), gamma\[d0\]\)\)$/,
    );
  });

  it('is not folded into weights that something else reads, nor through what is read twice', () => {
    const twice = prepared(
      `input x: f32[4, 8]\nparam w: f32[8, 8]\nparam s: f32[8]\nh = x @ w\ny = h * s + h\noutput y`,
    );
    assert.equal(twice, undefined);
    const shared = prepared(
      `input x: f32[4, 8]\nparam w: f32[8, 8]\nparam s: f32[8]\ny = (x @ w) * s + (relu(x) @ w)\noutput y`,
    );
    assert.equal(shared, undefined);
    const output = prepared(
      `input x: f32[4, 8]\nparam w: f32[8, 8]\nparam s: f32[8]\nh = x @ w\ny = h * s\noutput y, h`,
    );
    assert.equal(output, undefined);
  });

  it('is not folded where the factor depends on what is summed over, or on the rows', () => {
    for (const s of ['f32[4, 1]', 'f32[4, 8]'])
      assert.equal(
        prepared(
          `input x: f32[4, 8]\nparam w: f32[8, 8]\nparam s: ${s}\ny = (x @ w) * s\noutput y`,
        ),
        undefined,
        s,
      );
  });

  it('is not folded in half precision, where weights would be rounded once more', () => {
    assert.equal(
      prepared(
        'input x: f16[4, 8]\nparam w: f16[8, 8]\nparam s: f16[8]\ny = (x @ w) * s\noutput y',
        true,
      ),
      undefined,
    );
  });

  it('is a value of its own only where that has no more bytes than the weights', () => {
    const widened = 'input x: f32[4, 8]\nparam w: f16[8, 8]\ny = x @ cast(w, f32)\noutput y';
    assert.equal(prepared(widened, true), undefined);
    assert.deepEqual([...(prepared(widened, false)?.idle ?? [])], [0]);
    const spread =
      'input x: f32[64, 8]\nparam a: f32[64, 1]\nparam b: f32[1, 8]\ny = x + exp(a + b)\noutput y';
    assert.equal(prepared(spread), undefined);
  });

  it('stays in the run where a directive names it, or it is given out', () => {
    const source = 'input x: f32[4, 8]\nparam w: f32[8, 8]\nn = exp(w)\ny = x @ n\noutput y';
    assert.equal(result(source).after.prepared?.length, 1);
    for (const line of ['materialize n', 'nofuse n -> y', 'schedule n { workgroup = 64 }'])
      assert.equal(result(`${source}\n${line}`).after.prepared, undefined, line);
    assert.equal(result(`${source}, n`).after.prepared, undefined);
  });

  it('stays in the run where a size is only known when it runs, and without inputs', () => {
    const symbolic = 'dim N = 8\ninput x: f32[4, N]\nparam w: f32[N, 8]\ny = x @ exp(w)\noutput y';
    assert.equal(result(symbolic).after.prepared, undefined);
    assert.equal(result('param w: f32[8]\ny = relu(exp(w))\noutput y').after.prepared, undefined);
  });

  it('counts before fusion, and in no sum after it', () => {
    const r = result('input x: f32[4, 64]\nparam w: f32[64, 8]\nn = exp(w)\ny = x @ n\noutput y');
    assert.deepEqual(
      r.before.kernels.map((k) => k.label),
      ['exp', 'matmul'],
    );
    assert.deepEqual(
      r.after.kernels.map((k) => k.label),
      ['matmul'],
    );
    assert.deepEqual(
      r.after.prepared?.map((k) => [k.id, k.label, k.atLoad]),
      [['p0', 'exp', true]],
    );
    const [k] = r.after.kernels;
    assert.equal(r.after.estimatedUs, k?.estimatedUs);
    assert.equal(r.after.bytesRead, 4 * (4 * 64 + 64 * 8));
  });

  it('has a decision for each of its edges', () => {
    const r = result(
      `input x: f32[1, 4, 6, 6]\nparam w: f32[8, 4, 1, 1]\n${NORM}n = exp(w) * 2.0\nc = conv2d(x, n)\ny = relu(batch_norm(c, mean, var, gamma, beta))\noutput y`,
    );
    assert.deepEqual(
      r.decisions.map((d) => [d.fused, d.summary]),
      [
        [true, 'of weights alone: computed once, at load, by p0'],
        [true, 'of weights alone: computed once, at load, by p0'],
        [true, 'fused in k0; its factor is folded into the weights of c, computed once at load'],
        [true, 'fused in k0'],
      ],
    );
  });

  it('is prepared the same in every compilation', () => {
    const source = `input x: f32[1, 4, 6, 6]\nparam w: f32[8, 4, 1, 1]\n${NORM}y = batch_norm(conv2d(x, w), mean, var, gamma, beta)\noutput y`;
    const [a, b] = [compiled(source), compiled(source)];
    assert.deepEqual(a.result.after, b.result.after);
    assert.deepEqual(a.execPlan('fused'), b.execPlan('fused'));
  });
});
