/** Concat-into-destination: what is stored where, what is copied all the same, and what the plan says of it. */
import assert from 'node:assert/strict';
import { compile, type Compilation } from '../../../compiler';
import type { ExecPlan, Share } from '../../../compiler/result';
import { verifyExecPlan } from '../../../compiler/schedule/verifyKernel';
import { gather, writtenShares } from '../../../runner/core/memory';

function compiled(source: string): Compilation {
  const c = compile({ file: 'test.fuse', bytes: new TextEncoder().encode(source) });
  assert.deepEqual(
    c.result.diagnostics.filter((d) => d.severity === 'error'),
    [],
  );
  assert.deepEqual(verifyExecPlan(c.execPlan('fused')), [], source);
  assert.deepEqual(verifyExecPlan(c.execPlan('unfused')), [], source);
  return c;
}

const moves = (c: Compilation): number => c.steps().filter((s) => s.kind === 'destination').length;

/** Two products, joined and read twice. */
const BRANCHES = `input x: f32[256, 64]
param w: f32[64, 96]
param v: f32[64, 32]
param u: f32[128, 64]
a = relu(x @ w)
b = tanh(x @ v)
y = cat([a, b], axis=1)
p = y @ u
q = amax(y, axis=0)
output p, q`;

describe('a concatenation that must be in memory', () => {
  it('is stored by what makes its operands', () => {
    const c = compiled(BRANCHES);
    assert.equal(moves(c), 1);
    const { after, decisions } = c.result;
    const names = after.kernels.map((k) => `${k.pattern}: ${k.nodes.join(' ')}`);
    assert.ok(names.includes('epilogue: a#matmul a#relu y#cat'), names.join('\n'));
    const into = decisions.filter((d) => d.to === 'y#cat');
    assert.deepEqual(
      into.map((d) => d.fused && /^stored in its place by k\d$/.test(d.summary)),
      [true, true],
    );
    // y is written once, in shares, and there is no other intermediate.
    const plan = c.execPlan('fused');
    assert.deepEqual(
      plan.buffers.filter((b) => b.role === 'intermediate').map((b) => [b.name, b.shape]),
      [['y', [256, 128]]],
    );
    assert.equal(after.bytesWritten, 4 * (256 * 128 + 256 * 64 + 128));
    const given = 4 * (256 * 64 + 64 * 128 + 128 * 64);
    assert.equal(after.peakBytes, given + 4 * (256 * 128 + 256 * 64 + 128));
    // The copy that the concatenation would be is saved once.
    const launches = after.kernels.reduce((n, k) => n + k.savedLaunches, 0);
    assert.equal(launches, c.result.before.kernels.length - after.kernels.length);
  });

  it('says of what reads it that it can’t join what stores it', () => {
    const { decisions } = compiled(BRANCHES).result;
    const from = decisions.filter((d) => d.from === 'y#cat');
    assert.equal(from.length, 2);
    for (const d of from) {
      assert.equal(d.fused, false);
      assert.ok(d.verdicts.some((v) => v.code === 'INPLACE_HAZARD'));
    }
  });

  it('copies inputs, what is given out, and the same operand again', () => {
    const source = (rest: string): string => `input x: f32[8192, 64]
param w: f32[64, 96]
param v: f32[64, 32]
a = relu(x @ w)
b = tanh(x @ v)
${rest}
output y, b`;
    for (const [y, count] of [
      ['y = cat([a, x, b, x], axis=1)', 1],
      ['y = cat([a, a, b, b], axis=1)', 1],
      // b is given out itself: nothing is left that could be stored in its place.
      ['y = cat([b, b, b, b, b, b, b, b], axis=1)', 0],
    ] as const) {
      const c = compiled(source(y));
      assert.equal(moves(c), count, y);
      const shares = writtenShares(c.execPlan('fused')).map((r) => r.share.value);
      // The copies are no values of the program: they are checked with the whole.
      assert.deepEqual(
        shares.filter((v) => v !== undefined),
        count === 1 ? ['a#relu:0'] : [],
      );
      assert.equal(shares.length, 4 * count);
    }
  });

  it('keeps its operands apart where a line says so', () => {
    const c = compiled(`${BRANCHES}\nnofuse a -> y`);
    const d = c.result.decisions.find((x) => x.from === 'a#relu' && x.to === 'y#cat');
    assert.equal(d?.fused, false);
    assert.ok(d.verdicts.some((v) => v.code === 'FORBIDDEN'));
  });

  it('is left alone where a line makes it one kernel with others', () => {
    const c = compiled(`${BRANCHES}\nfuse y, q`);
    assert.equal(moves(c), 0);
    const k = c.result.after.kernels.find((x) => x.nodes.includes('y#cat'));
    assert.ok(k?.nodes.includes('q#amax'), k?.nodes.join(' '));
  });

  it('grows in one buffer, bound once by what reads and stores in it', () => {
    const c = compiled(`input x: f32[1, 64, 28, 28]
param w1: f32[32, 64, 3, 3]
param w2: f32[32, 96, 3, 3]
a = cat([x, relu(conv2d(x, w1, padding=1))], axis=1)
b = cat([a, relu(conv2d(a, w2, padding=1))], axis=1)
output b`);
    const plan = c.execPlan('fused');
    const both = plan.dispatches.filter((d) =>
      d.bindings.some(
        (x) => (x.shares?.reads.length ?? 0) > 0 && (x.shares?.writes.length ?? 0) > 0,
      ),
    );
    assert.equal(both.length, 1);
    for (const d of plan.dispatches)
      assert.equal(new Set(d.bindings.map((x) => x.buffer)).size, d.bindings.length);
    // x and its copy, and the two weights: b is all that is added.
    assert.equal(c.result.after.peakBytes, 4 * (64 * 784 + 128 * 784 + 9 * 32 * (64 + 96)));
  });

  it('is no matter when a kernel runs by itself: then each value has its own buffer', () => {
    const c = compiled(BRANCHES);
    for (const k of c.result.after.kernels) {
      const { exec } = c.part([{ id: k.id }]);
      assert.deepEqual(verifyExecPlan(exec), [], k.id);
      assert.ok(exec.dispatches.every((d) => d.bindings.every((b) => b.shares === undefined)));
    }
  });

  it('has another hash where it lies elsewhere', () => {
    const at = (order: string): string[] => {
      const c = compiled(BRANCHES.replace('[a, b]', order));
      return c.result.after.kernels.filter((k) => k.nodes.includes('a#relu')).map((k) => k.hash);
    };
    assert.notDeepEqual(at('[a, b]'), at('[b, a]'));
    assert.deepEqual(at('[a, b]'), at('[a, b]'));
  });
});

describe('the verifier of plans', () => {
  const tampered = (change: (r: Share) => Share): ExecPlan => {
    const plan = compiled(BRANCHES).execPlan('fused');
    let changed = false;
    return {
      ...plan,
      dispatches: plan.dispatches.map((d) => ({
        ...d,
        bindings: d.bindings.map((b) => {
          const [first, ...rest] = b.shares?.writes ?? [];
          if (!b.shares || !first || changed) return b;
          changed = true;
          return { ...b, shares: { ...b.shares, writes: [change(first), ...rest] } };
        }),
      })),
    };
  };
  const shifted = (r: Share, by: number): Share => ({
    ...r,
    steps: r.steps.map((s) => ({ ...s, offset: s.offset + by })),
  });

  it('finds shares that overlap, and what is left out', () => {
    const problems = verifyExecPlan(tampered((r) => shifted(r, 1)));
    assert.ok(
      problems.some((p) => p.includes('stored twice')),
      problems.join('\n'),
    );
    assert.ok(problems.some((p) => p.includes('before it is stored')));
  });

  it('finds what is stored beyond the end', () => {
    const problems = verifyExecPlan(tampered((r) => shifted(r, 1_000_000)));
    assert.ok(problems.some((p) => p.includes('beyond the end')));
  });
});

describe('a share of a buffer', () => {
  it('is read out bit for bit, NaNs with what they carry', () => {
    const words = new Uint32Array(24).map((_, i) => 0x7fc00000 + i);
    const share: Share = {
      name: 'a',
      shape: [3, 2],
      elements: 6,
      // A [3, 2] transposed into columns 1 to 3 of [4, 6], from row 1 on.
      steps: [{ counts: [3, 2], strides: [1, 6], offset: 7 }],
    };
    const out = gather(new Float32Array(words.buffer), share, 'f32');
    assert.deepEqual(
      [...new Uint32Array(out.buffer)].map((w) => w - 0x7fc00000),
      [7, 13, 8, 14, 9, 15],
    );
  });
});
