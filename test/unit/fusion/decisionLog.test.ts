/** The decision log: what each step was weighed against, and the plans between the steps. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { type Compilation, compile } from '../../../compiler';
import type { FusionStep, PlanView } from '../../../compiler/result';
import { randomProgram } from '../../gpu/programs';

function compiled(text: string): Compilation {
  return compile({ file: 'test.fuse', bytes: new TextEncoder().encode(text) });
}

/** A plan without the names of its kernels. */
function nameless(plan: PlanView): unknown {
  const text = JSON.stringify(plan, (key, value: unknown) => (key === 'id' ? undefined : value));
  return JSON.parse(text);
}

function stepText(c: Compilation, s: FusionStep): string {
  const ops = new Map(c.graph.nodes.map((n) => [n.id, n.op]));
  const side = (nodes: readonly string[]): string => nodes.map((n) => ops.get(n) ?? n).join('+');
  const others = s.alternatives.map((a) => {
    const gain = a.gainUs === undefined ? 'refused' : a.gainUs > 0 ? 'gains' : 'loses';
    const why = a.verdict ? ` ${a.verdict.code}` : '';
    return `or ${side(a.left)} | ${side(a.right)} ${gain}${why}${a.madeLater ? ', later' : ''}`;
  });
  return [`${s.kind} ${side(s.left)} | ${side(s.right)}`, ...others].join('; ');
}

/** Everything that must hold of any log. */
function check(c: Compilation): void {
  const steps = c.steps();
  const { before, after } = c.result;
  const near = (a: number, b: number): void => {
    assert.ok(Math.abs(a - b) <= 1e-6 * Math.max(1, a, b), `${a} is not ${b}`);
  };
  assert.deepEqual(c.steps(), steps, 'the log is another one when it is asked for again');
  const last = steps.at(-1);
  if (last) assert.equal(last.kernels, after.kernels.length);
  assert.deepEqual(nameless(c.planAt(steps.length).plan), nameless(after));
  const first = c.planAt(0).plan;
  if (!c.result.after.prepared) assert.deepEqual(nameless(first), nameless(before));
  else {
    // The search begins without what is computed at load.
    assert.deepEqual(first.prepared, c.result.after.prepared);
    assert.ok(first.kernels.length <= before.kernels.length);
    assert.ok(first.estimatedUs <= before.estimatedUs);
  }
  const beyond = c.planAt(steps.length + 5);
  assert.equal(beyond.step, steps.length);
  steps.forEach((s, i) => {
    const { plan, step, decisions } = c.planAt(i + 1);
    assert.equal(step, i + 1);
    assert.equal(plan.kernels.length, s.kernels);
    near(plan.estimatedUs, s.estimatedUs);
    const earlier = steps[i - 1]?.estimatedUs ?? first.estimatedUs;
    near(s.estimatedUs, earlier - s.gainUs);
    assert.ok(plan.kernels.every((k) => k.id.startsWith('s')));
    assert.equal(decisions.length, c.result.decisions.length);
    if (s.kind === 'recompute') return;
    // What has been put into one kernel stays there.
    for (const [j, d] of decisions.entries())
      if (d.fused) assert.equal(c.result.decisions[j]?.fused, true, `${d.from} -> ${d.to}`);
    if (s.apartUs !== undefined && s.togetherUs !== undefined)
      near(s.gainUs, s.apartUs - s.togetherUs);
    for (const a of s.alternatives)
      if (a.gainUs === undefined) assert.ok(a.verdict, 'refused without a reason');
  });
}

describe('decision log', () => {
  it('lists what each step was weighed against, with prices and reasons', () => {
    const c = compiled(`
input x: f32[512, 512]
param w: f32[512, 512]
param b: f32[512]
h = relu(matmul(x, w) + b)
y = softmax(matmul(h, w), axis=-1)
output y`);
    assert.deepEqual(
      c.steps().map((s) => stepText(c, s)),
      [
        'vertical add | relu; or matmul | add gains, later; or relu | matmul loses MODEL_SLOWER',
        'vertical matmul | softmax; or add+relu | matmul loses RECOMPUTE; or matmul | matmul refused CYCLE',
        'vertical matmul | add+relu; or matmul | matmul+softmax refused CYCLE; or add+relu | matmul+softmax refused NEEDS_GLOBAL_SYNC',
      ],
    );
  });

  it('a step that directives ask for is one', () => {
    const c = compiled(`
input x: f32[64, 64]
a = exp(x)
b = sum(a, axis=-1)
c = sum(a, axis=0)
output b, c
fuse a, b`);
    assert.equal(c.steps()[0]?.kind, 'required');
    check(c);
  });

  for (const file of readdirSync('examples').filter((f) => f.endsWith('.fuse')))
    it(`leads from the unfused plan to the fused one: ${file}`, () => {
      check(compiled(readFileSync(`examples/${file}`, 'utf8')));
    });

  it('… with concatenations in their destination, copies and shared grids', () => {
    const c = compiled(`
input x: f32[1, 16, 28, 28]
param w1: f32[8, 16, 1, 1]
param w2: f32[8, 16, 3, 3]
a = relu(conv2d(x, w1))
b = relu(conv2d(x, w2, padding=1))
y = cat([a, b, x], dim=1)
u, v = split(x, 8, dim=1)
p = sum(u)
q = amax(v)
output y, p, q`);
    const kinds = new Set(c.steps().map((s) => s.kind));
    assert.ok(kinds.has('destination'), [...kinds].join(' '));
    check(c);
  });

  it('… with long reductions in two dispatches', () => {
    const c = compiled(`
input x: f32[4, 1048576]
s = sum(relu(x), axis=-1)
t = mean(x * x)
u = exp(x - amax(x))
v = s * t
output u, v`);
    assert.ok(c.result.after.kernels.some((k) => k.template === 'split'));
    assert.ok(c.result.before.kernels.some((k) => k.template === 'split'));
    check(c);
  });

  for (let seed = 1; seed <= 40; seed++)
    it(`… of a random program, seed ${seed}`, () => check(compiled(randomProgram(seed))));
});
