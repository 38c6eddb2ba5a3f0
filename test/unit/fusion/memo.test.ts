/** Answers that are shared by groups of one structure are those that each group would have got. */
import assert from 'node:assert/strict';
import { generate } from '../../../bench/graphs';
import { DEFAULT_DEVICE } from '../../../compiler/fusion/devices';
import { union } from '../../../compiler/fusion/grouping';
import { specOf } from '../../../compiler/fusion/memo';
import { snapshot } from '../../../compiler/fusion/plan';
import { Signatures } from '../../../compiler/fusion/signature';
import { importFuse } from '../../../compiler/import/fuse';
import type { Program } from '../../../compiler/ir/compute';
import { lowerGraph } from '../../../compiler/ops/lower';
import { buildKernel } from '../../../compiler/schedule/build';
import { scheduleGroup } from '../../../compiler/schedule/schedule';
import { searched } from './fixture';

const options = { device: DEFAULT_DEVICE, f16: false };

function lower(text: string): Program {
  return lowerGraph(importFuse(text, 'test.fuse').graph).program;
}

describe('Schedules by structure', () => {
  for (const kind of ['transformer', 'convnet'] as const) {
    it(`kernels of a ${kind} have the schedules and prices of their own groups`, () => {
      const { program, search } = searched(generate(kind, 90));
      const { kernels } = snapshot(search, 'k');
      assert.ok(kernels.length > 10);
      for (const k of kernels) {
        const direct = scheduleGroup(k.spec, options);
        assert.ok(direct.ok);
        assert.deepEqual(k.scheduled.features, direct.value.features, k.id);
        assert.equal(k.scheduled.cost, direct.value.cost);
        assert.equal(k.scheduled.schedule.kind, direct.value.schedule.kind);
        // The code is that of the group itself: its own buffers.
        const [ir, ...more] = buildKernel(k.id, k.spec, k.ownSchedule(), false);
        assert.ok(ir && more.length === 0);
        for (const b of ir.buffers) assert.ok(program.values.has(b.value));
        const stored = ir.buffers.filter((b) => b.access === 'read_write').map((b) => b.value);
        assert.deepEqual(stored.sort(), [...k.spec.outputs].sort());
      }
    });
  }

  it('refusals are translated: the same reasons, with the nodes of the group that asked', () => {
    const { program, search, grouping } = searched(generate('transformer', 90));
    let compared = 0;
    for (const g of grouping.groups.values()) {
      for (const c of grouping.consumers(g.id)) {
        const members = union(g.members, grouping.group(c).members);
        const stored = grouping.stored(members);
        const direct = scheduleGroup(specOf(program, members, stored), options);
        if (direct.ok) continue;
        const answer = search.memo.ask(members, stored, true);
        assert.deepEqual(search.memo.translateVerdicts(answer, members), direct.verdicts);
        compared++;
      }
    }
    assert.ok(compared > 10, `${compared} compared`);
  });

  it('a screened answer refuses exactly what can’t be scheduled', () => {
    const { program, grouping } = searched(generate('convnet', 40));
    for (const g of grouping.groups.values()) {
      for (const c of grouping.consumers(g.id)) {
        const members = union(g.members, grouping.group(c).members);
        const spec = specOf(program, members, grouping.stored(members));
        const whole = scheduleGroup(spec, options);
        const screened = scheduleGroup(spec, options, true);
        assert.equal(screened.ok, whole.ok);
        if (screened.ok) assert.deepEqual(screened, whole);
      }
    }
  });

  it('keys tell structures apart, and nothing else', () => {
    const program = lower(`
input x: f32[64, 32]
input y: f32[64, 32]
input z: f32[32, 64]
a = relu(x)
b = a + x
c = relu(y)
d = c + y
e = c + x
f = relu(z)
output b
output d
output e
output f`);
    const signatures = new Signatures(program);
    const at = (value: string): number =>
      program.computes.findIndex((c) => c.value.startsWith(value));
    const key = (values: readonly string[], stored: readonly boolean[]): string =>
      signatures.key(values.map(at), stored);
    const [a, b, c, d, e, f] = ['a#', 'b#', 'c#', 'd#', 'e#', 'f#'];
    // Other names, the same structure.
    assert.equal(key([a, b], [false, true]), key([c, d], [false, true]));
    // Other outputs, another operand, another shape, another op.
    assert.notEqual(key([a, b], [false, true]), key([a, b], [true, true]));
    assert.notEqual(key([c, d], [true, true]), key([c, e], [true, true]));
    assert.notEqual(key([a], [true]), key([f], [true]));
    assert.notEqual(key([a], [true]), key([b], [true]));
  });
});
