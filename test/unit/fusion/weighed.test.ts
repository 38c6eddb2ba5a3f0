/** Directives are weighed: the estimated time of the plan with each, and without it. */
import assert from 'node:assert/strict';
import { compile } from '../../../compiler';
import type { CompileResult } from '../../../compiler/result';

const compiled = (source: string): CompileResult =>
  compile({ file: 'test.fuse', bytes: new TextEncoder().encode(source) }).result;

const CHAIN = 'input x: f32[1024, 1024]\na = relu(x)\nb = a * 2.0\ny = b + 1.0\noutput y\n';

describe('directives weighed against the compiler’s own choice', () => {
  it('gives the time of the whole plan with the line, and of the plan made without it', () => {
    const free = compiled(CHAIN).after.estimatedUs;
    const { overrides, after } = compiled(`${CHAIN}nofuse a -> b\n`);
    assert.equal(overrides.length, 1);
    const [o] = overrides;
    assert.equal(o?.kind, 'nofuse');
    assert.equal(o.range?.start.line, 5);
    assert.ok(Math.abs(o.estimatedUs - after.estimatedUs) < 1e-6);
    assert.ok(Math.abs((o.withoutUs ?? 0) - free) < 1e-6);
    assert.ok(o.estimatedUs > free);
  });

  it('leaves out one line at a time', () => {
    const one = compiled(`${CHAIN}nofuse a -> b\n`).after.estimatedUs;
    const other = compiled(`${CHAIN}materialize b\n`).after.estimatedUs;
    const { overrides } = compiled(`${CHAIN}nofuse a -> b\nmaterialize b\n`);
    assert.deepEqual(
      overrides.map((o) => o.withoutUs?.toFixed(6)),
      [other.toFixed(6), one.toFixed(6)],
    );
  });

  it('weighs schedule lines against the plan without them', () => {
    const { overrides } = compiled(`${CHAIN}schedule y { workgroup = 1 }\n`);
    const [o] = overrides;
    assert.equal(o?.kind, 'schedule');
    assert.ok(Math.abs((o.withoutUs ?? 0) - compiled(CHAIN).after.estimatedUs) < 1e-6);
  });

  it('says nothing of expectations, nor where there are no directives', () => {
    assert.deepEqual(compiled(`${CHAIN}expect kernels <= 2\n`).overrides, []);
  });
});
