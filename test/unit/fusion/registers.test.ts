/**
 * Registers: liveness counted on L3 against an interpreter of it, what spilling costs, and the verdict.
 */
import assert from 'node:assert/strict';
import { compile, type Compilation } from '../../../compiler';
import { DEFAULT_DEVICE } from '../../../compiler/fusion/devices';
import { priceUs } from '../../../compiler/fusion/price';
import * as I from '../../../compiler/ir/indexExpr';
import type { KExpr, Stmt } from '../../../compiler/schedule/kernelIr';
import { pressures } from '../../../compiler/schedule/liveness';
import { randomProgram } from '../../gpu/programs';

const ref = (name: string): KExpr => ({ k: 'ref', name, type: 'f32', depth: 0 });
const lit: KExpr = { k: 'lit', value: 1, type: 'f32', depth: 0 };
const add = (...names: string[]): KExpr =>
  names.map(ref).reduce((a, b) => ({ k: 'binary', fn: 'add', a, b, type: 'f32', depth: 0 }));
const set = (name: string, ...names: string[]): Stmt => ({ s: 'set', name, expr: add(...names) });
const one = (name: string): Stmt => ({ s: 'let', name, expr: lit });
const sum = (name: string, ...names: string[]): Stmt => ({ s: 'let', name, expr: add(...names) });
const store = (...names: string[]): Stmt => ({
  s: 'store',
  buffer: 'y',
  index: lit,
  value: add(...names),
  linear: I.num(0),
});
const loop = (trips: number, body: Stmt[]): Stmt => ({
  s: 'for',
  name: `i${trips}`,
  from: lit,
  to: lit,
  step: 1,
  trips: I.num(trips),
  body,
});
const vec = (name: string): Stmt => ({
  s: 'loadVec',
  name,
  type: 'f32',
  buffer: 'x',
  index: lit,
  linear: I.num(0),
});
const lane = (name: string): KExpr => ({ k: 'lane', vec: name, lane: lit, type: 'f32', depth: 0 });
const variable = (name: string): Stmt => ({ s: 'var', name, type: 'f32', init: lit });

const of = (body: Stmt[], per = 1): number[] =>
  pressures(body, 10, (e) => I.constOf(e) ?? 0, per).map((p) => p.registers);

const compiled = (source: string, device = DEFAULT_DEVICE): Compilation =>
  compile({ file: 'test.fuse', bytes: new TextEncoder().encode(source) }, { device });

/** A prologue that keeps several values of one input, in a product with few columns. */
const KEEPS = `input a: f32[8192, 512]
param w: f32[512, 16]
b = abs(a)
c = a * 0.5
d = a - 1.0
e = a + 3.0
p = (a * b + c) * (d + b * c) + (a - c) * (e + c) * (a - d) * (b + e)
y = p @ w
output y
`;

describe('registers', function () {
  this.timeout(60_000);

  it('counts what is still to be read, not what was defined', () => {
    const chain = [one('a'), sum('b', 'a'), sum('c', 'b'), sum('d', 'c'), store('d')];
    assert.deepEqual(of(chain), [1]);
    const kept = [one('a'), one('b'), one('c'), sum('d', 'a', 'b', 'c'), store('d')];
    assert.deepEqual(of(kept), [3]);
    assert.deepEqual(of([one('a'), one('unread'), store('a')]), [1]);
  });

  it('counts a vector as four while any lane is to be read', () => {
    const s: Stmt[] = [
      vec('v'),
      one('a'),
      { s: 'let', name: 'x', expr: lane('v') },
      store('x', 'a'),
    ];
    assert.deepEqual(of(s), [5]);
  });

  it('keeps what a loop reads live through it, and its accumulators', () => {
    const s = [
      one('a'),
      one('idle'),
      variable('acc'),
      loop(7, [sum('t', 'a', 'acc'), set('acc', 'acc', 't')]),
      store('acc', 'idle'),
    ];
    // a, idle, acc, the counter and t; inside, idle can be put aside.
    assert.deepEqual(of(s), [5, 4]);
    assert.deepEqual(
      pressures(s, 10, (e) => I.constOf(e) ?? 0).map((p) => p.times),
      [10, 70],
    );
  });

  it('takes the worse of two branches', () => {
    const s: Stmt[] = [
      one('a'),
      one('b'),
      one('c'),
      { s: 'if', cond: ref('a'), then: [store('b')], else: [store('b', 'c')] },
    ];
    assert.deepEqual(of(s), [3]);
  });

  it('counts variables and what follows from them once for each element of a tile', () => {
    const s = [
      variable('acc'),
      loop(7, [set('acc', 'acc')]),
      sum('r', 'acc'),
      one('b'),
      store('r', 'b'),
    ];
    assert.deepEqual(of(s, 16), [17, 17]);
  });

  it('agrees with a forward count of each name’s last use, in straight code of random kernels', () => {
    let compared = 0;
    for (let seed = 0; seed < 240; seed++) {
      const c = compiled(randomProgram(seed));
      for (const k of c.result.after.kernels)
        for (const ir of c.kernelIr(k.id) ?? []) {
          if (ir.body.some((s) => s.s === 'for' || s.s === 'if' || s.s === 'parts')) continue;
          compared++;
          assert.equal(pressures(ir.body, 1, () => 1)[0]?.registers, byLastUse(ir.body));
        }
    }
    assert.ok(compared > 20, `${compared} kernels are straight`);
  });

  it('makes a kernel dearer with each value that does not fit', () => {
    const counts = {
      work: 1e6,
      sharedAccesses: 0,
      barriers: 0,
      threads: 1e6,
      workgroups: 1e4,
      dispatches: 1,
      wastedBytes: 0,
    };
    const us = (registers: number): number =>
      priceUs(
        {
          bytesRead: 4e6,
          bytesWritten: 4e6,
          flops: 1e6,
          counts: { ...counts, pressure: [{ registers, times: 1e6 }] },
        },
        DEFAULT_DEVICE,
      );
    assert.equal(us(100), us(128));
    assert.ok(us(129) > us(128));
    assert.ok(Math.abs(us(148) - us(128) - 2 * (us(138) - us(128))) < 1e-6);
  });

  it('keeps ops apart where one kernel would spill more than it saves, and says so', () => {
    // Where arithmetic is nearly free: each element of the prologue is needed by two tiles.
    const fast = { ...DEFAULT_DEVICE, flopsPerUs: 4 * DEFAULT_DEVICE.flopsPerUs };
    const few = compiled(KEEPS, { ...fast, registers: 32 }).result;
    assert.equal(few.after.kernels.length, 2);
    const cut = few.decisions.filter((d) => !d.fused);
    assert.equal(cut.length, 1);
    const [verdict] = cut[0]?.verdicts ?? [];
    assert.equal(verdict?.code, 'SPILL_RISK');
    assert.ok((verdict.quantity ?? 0) > 32);
    assert.equal(verdict.limit, 32);
    assert.match(verdict.limitSource ?? '', /registers/);
    assert.ok(verdict.counterfactual);
    // With more registers the same two are one kernel.
    const many = compiled(KEEPS, fast).result;
    assert.equal(many.after.kernels.length, 1);
    assert.ok((many.after.kernels[0]?.registers ?? 0) > 32);
  });

  it('notes on a kernel what it spills', () => {
    const gated =
      'input x: f32[512, 512]\nparam a: f32[512, 512]\nparam b: f32[512, 512]\ny = (x @ a) * (x @ b)\noutput y\n';
    const [k, more] = compiled(gated).result.after.kernels;
    assert.equal(more, undefined);
    const note = k?.notes.find((n) => n.code === 'SPILL_RISK');
    assert.equal(note?.quantity, k?.registers);
    // Two tiles of accumulators at once, and it is so in the code that runs.
    assert.ok((k?.registers ?? 0) > 128);
    const [ir] = compiled(gated).kernelIr('k0') ?? [];
    const real = pressures(ir?.body ?? [], 1, () => 1)[0]?.registers ?? 0;
    assert.ok(Math.abs(real / (k?.registers ?? 1) - 1) < 0.2, `${real} in the code`);
  });
});

/** Live names at each statement of straight code, from first and last mention. */
function byLastUse(body: readonly Stmt[]): number {
  const text = body.map((s) =>
    [...textOf(s).matchAll(/"(?:name|vec)":"(\w+)"/g)].map((m) => m[1] ?? ''),
  );
  const defined = body.map((s) =>
    s.s === 'let' || s.s === 'load' || s.s === 'loadVec' || s.s === 'var' ? s.name : undefined,
  );
  const size = new Map(body.flatMap((s) => (s.s === 'loadVec' ? [[s.name, 4] as const] : [])));
  const names = new Set(text.flat());
  for (const s of body)
    for (const m of textOf(s).matchAll(/"k":"(?:sym|shared)","name":"(\w+)"/g))
      names.delete(m[1] ?? '');
  let most = 0;
  for (let at = 0; at <= body.length; at++) {
    let live = 0;
    for (const n of names) {
      const from = defined.indexOf(n);
      const last = text.reduce((l, t, i) => (i !== from && t.includes(n) ? i : l), -1);
      // Between the statements at - 1 and at.
      if (from < at && last >= at) live += size.get(n) ?? 1;
    }
    most = Math.max(most, live);
  }
  return most;
}

/** A statement without the index expressions that the analyses keep beside the code. */
function textOf(s: Stmt): string {
  return JSON.stringify(s, (key, value: unknown) => (key === 'linear' ? undefined : value));
}
