/**
 * Intermediates that share memory: no two live ones in one place, whatever the program; less memory
 * where lifetimes allow it; and the verifier finds plans that break this.
 */
import assert from 'node:assert/strict';
import { compile } from '../../../compiler';
import type { BufferSpec, ExecPlan } from '../../../compiler/result';
import { type MemoryStep, planMemory } from '../../../compiler/schedule/memoryPlan';
import { verifyExecPlan } from '../../../compiler/schedule/verifyKernel';
import { randomNumbers, randomProgram } from '../../gpu/programs';

const chain = (n: number): MemoryStep[] =>
  Array.from({ length: n }, (_, i) => ({ reads: [`v${i}`], writes: [`v${i + 1}`] }));

/** Layers of values, each read at random distances. */
function randomSteps(seed: number): { steps: MemoryStep[]; bytes: Map<string, number> } {
  const random = randomNumbers(1_000_003 * seed + 17);
  const below = (n: number): number => Math.floor(random() * n);
  const bytes = new Map<string, number>();
  const steps = Array.from({ length: 1 + below(40) }, (_, at): MemoryStep => {
    const known = [...bytes.keys()];
    const reads = Array.from({ length: below(4) }, () => known[below(known.length)] ?? 'x');
    const writes = Array.from({ length: 1 + below(2) }, (_, k) => `v${at}.${k}`);
    for (const v of writes) bytes.set(v, 16 * (1 + below(64)));
    return { reads: [...new Set(reads)], writes };
  });
  return { steps, bytes };
}

function planOf(source: string, which: 'fused' | 'unfused'): ExecPlan {
  const c = compile({ file: 'test.fuse', bytes: new TextEncoder().encode(source) });
  return c.execPlan(which);
}

const arenaOf = (plan: ExecPlan): number => {
  const places = new Map<number, number>();
  for (const { place, bytes } of plan.buffers)
    if (place !== undefined) places.set(place, Math.max(bytes, places.get(place) ?? 0));
  return [...places.values()].reduce((a, b) => a + b, 0);
};

const CHAIN =
  'input x: f32[64, 64]\nparam w: f32[64, 64]\na = x @ w\nb = a @ w\nc = b @ w\nd = c @ w\ny = d @ w\noutput y\n';

describe('memory shared between intermediates', function () {
  this.timeout(60_000);

  it('takes two places for a chain, however long', () => {
    const p = planMemory(
      chain(100),
      (v) => v !== 'v0' && v !== 'v100',
      () => 64,
    );
    assert.equal(p.places.length, 2);
    assert.equal(p.arenaBytes, 128);
    assert.equal(p.ownBytes, 99 * 64);
  });

  it('gives the smallest place that will do', () => {
    const size = new Map([
      ['big', 1024],
      ['small', 64],
      ['late', 48],
    ]);
    const steps: MemoryStep[] = [
      { reads: [], writes: ['big', 'small'] },
      { reads: ['big', 'small'], writes: ['y'] },
      { reads: [], writes: ['late'] },
    ];
    const p = planMemory(
      steps,
      (v) => size.has(v),
      (v) => size.get(v) ?? 0,
    );
    assert.equal(p.placeOf.get('late'), p.placeOf.get('small'));
    assert.equal(p.arenaBytes, 1024 + 64);
  });

  it('never puts two live values in one place', () => {
    let saved = 0;
    for (let seed = 0; seed < 400; seed++) {
      const { steps, bytes } = randomSteps(seed);
      const p = planMemory(
        steps,
        (v) => bytes.has(v),
        (v) => bytes.get(v) ?? 0,
      );
      // Step by step: who is live is told from first and last mention, the planner's code unseen.
      const touches = (v: string): number[] =>
        steps.flatMap((s, i) => (s.reads.includes(v) || s.writes.includes(v) ? [i] : []));
      let most = 0;
      steps.forEach((_, at) => {
        const live = [...bytes.keys()].filter((v) => {
          const t = touches(v);
          return (t[0] ?? Infinity) <= at && at <= (t[t.length - 1] ?? -1);
        });
        const places = live.map((v) => p.placeOf.get(v));
        assert.equal(new Set(places).size, live.length, `seed ${seed}, step ${at}`);
        most = Math.max(
          most,
          live.reduce((sum, v) => sum + (bytes.get(v) ?? 0), 0),
        );
      });
      for (const [v, place] of p.placeOf)
        assert.ok((p.places[place] ?? 0) >= (bytes.get(v) ?? 0), `seed ${seed}, ${v}`);
      assert.ok(most <= p.arenaBytes && p.arenaBytes <= p.ownBytes, `seed ${seed}`);
      if (p.arenaBytes < p.ownBytes) saved++;
    }
    assert.ok(saved > 200, `only ${saved} plans share anything`);
  });

  it('is what the compiler reports, and sound, in both plans of random programs', () => {
    let shared = 0;
    for (let seed = 0; seed < 300; seed++) {
      const source = randomProgram(seed);
      const c = compile({ file: 'test.fuse', bytes: new TextEncoder().encode(source) });
      for (const which of ['fused', 'unfused'] as const) {
        const plan = c.execPlan(which);
        const view = which === 'fused' ? c.result.after : c.result.before;
        assert.deepEqual(verifyExecPlan(plan), [], source);
        const own = plan.buffers.filter((b) => b.place !== undefined);
        assert.equal(arenaOf(plan), view.arenaBytes, source);
        assert.equal(
          own.reduce((sum, b) => sum + b.bytes, 0),
          view.intermediateBytes,
          source,
        );
        assert.ok(view.arenaBytes <= view.intermediateBytes);
        if (view.arenaBytes < view.intermediateBytes) shared++;
      }
    }
    assert.ok(shared > 50, `only ${shared} plans share anything`);
  });

  it('reuses two buffers along a chain of products', () => {
    const plan = planOf(CHAIN, 'fused');
    assert.equal(plan.dispatches.length, 5);
    assert.equal(arenaOf(plan), 2 * 64 * 64 * 4);
  });

  it('is checked: an overlap, a place of an output, two bindings of one place', () => {
    const plan = planOf(CHAIN, 'unfused');
    const placed = (change: (b: BufferSpec) => Partial<BufferSpec>): string[] =>
      verifyExecPlan({ ...plan, buffers: plan.buffers.map((b) => ({ ...b, ...change(b) })) });
    assert.deepEqual(
      placed(() => ({})),
      [],
    );
    const all = placed((b) => (b.place === undefined ? {} : { place: 0 }));
    assert.ok(
      all.some((p) => p.includes('in one place')),
      all.join('\n'),
    );
    const output = placed((b) => (b.role === 'output' ? { place: 9 } : {}));
    assert.ok(
      output.some((p) => p.includes('shares memory')),
      output.join('\n'),
    );
    // a is read after c is stored: c in a's place destroys it.
    const late = planOf(CHAIN.replace('y = d @ w', 'y = d @ w + a'), 'unfused');
    const placeOf = (plan: ExecPlan, name: string): number | undefined =>
      plan.buffers.find((b) => b.name === name)?.place;
    const c = placeOf(late, 'c');
    const broken = late.buffers.map((b) => (b.name === 'a' ? { ...b, place: c } : b));
    const problems = verifyExecPlan({ ...late, buffers: broken });
    assert.ok(
      problems.some((p) => /reads .* where .* lies/.test(p)),
      problems.join('\n'),
    );
  });
});
