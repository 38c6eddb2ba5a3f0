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
import { random, searched } from './fixture';

const options = { device: DEFAULT_DEVICE, f16: false };

function lower(text: string): Program {
  return lowerGraph(importFuse(text, 'test.fuse').graph).program;
}

/** Attention and normalisation, with numbers of their own in each block. */
function scaledBlocks(blocks: number): string {
  const lines = ['input x0: f32[64, 8192]', 'param v: f32[8192, 8192]'];
  const roll = random(7);
  const number = (): string =>
    ['0.25', '4', '1', '0', '-0.5', '0.3', '41', '1.000001'][roll(8)] ?? '2';
  for (let i = 0; i < blocks; i++) {
    // A maximum that is as much as its element, and one that isn't.
    const scale = i % 3 === 2 ? ['0.5', '0.25'] : i % 3 === 1 ? ['3', '3'] : ['0.125', '0.125'];
    lines.push(
      `t${i} = x${i} * ${number()}`,
      `h${i} = amax(t${i}, axis=-1, keepdim=true)`,
      `e${i} = exp(t${i} * ${scale[0] ?? ''} - h${i} * ${scale[1] ?? ''})`,
      `a${i} = e${i} / sum(e${i}, axis=-1, keepdim=true)`,
      `b${i} = (a${i} * ${number()} * ${number()}) @ v`,
      `m${i} = mean(b${i} * ${number()} - ${number()}, axis=-1, keepdim=true)`,
      `c${i} = b${i} - m${i}`,
      `d${i} = mean(c${i} * c${i} + ${number()}, axis=-1, keepdim=true)`,
      `x${i + 1} = c${i} / sqrt(d${i} + ${number()}) + relu(x${i} * ${number()})`,
    );
  }
  lines.push(`output x${blocks}`);
  return lines.join('\n');
}

describe('Schedules by structure', () => {
  const graphs = {
    ...{ transformer: generate('transformer', 90), convnet: generate('convnet', 90) },
    ...{ 'residual network': generate('residual', 80), 'fan of heads': generate('heads', 40) },
    'network of scaled blocks': scaledBlocks(4),
  };
  for (const [name, text] of Object.entries(graphs)) {
    it(`kernels of a ${name} have the schedules and prices of their own groups`, () => {
      const { program, search } = searched(text);
      const { kernels } = snapshot(search, 'k');
      assert.ok(kernels.length > 2);
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

  it('answers are the same whatever numbers the group has that was asked about first', () => {
    const { program, search, grouping } = searched(scaledBlocks(8));
    let shared = 0;
    let told = 0;
    for (const g of grouping.groups.values()) {
      for (const c of [g.id, ...grouping.consumers(g.id)]) {
        const members = union(g.members, grouping.group(c).members);
        const stored = grouping.stored(members);
        const spec = specOf(program, members, stored);
        const direct = scheduleGroup(spec, options);
        const { built } = search.memo.counts;
        const { result } = search.memo.ask(members, stored, true);
        if (search.memo.counts.built === built) shared++;
        if (spec.literals.read) told++;
        assert.equal(result.ok, direct.ok);
        if (!result.ok || !direct.ok) continue;
        const { bytesOf: _a, repeated: _b, ...features } = result.value.features;
        const { bytesOf: _c, repeated: _d, ...own } = direct.value.features;
        assert.deepEqual(features, own);
        assert.equal(result.value.cost, direct.value.cost);
      }
    }
    assert.ok(shared > 10 && told > 10, `${shared} shared, ${told} told apart by numbers`);
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
g = (x * 0.25) - 0.5
h = (y * 3.5) - 0.7
i = (y * 0.7) - 0.7
j = (y * 0.7) - 1
output g
output h
output i
output j
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
    // Other numbers: which are equal counts, and which are one.
    const two = (name: string): string => key([`${name}#mul`, `${name}#sub`], [false, true]);
    assert.equal(two('g'), two('h'));
    assert.notEqual(two('h'), two('i'));
    assert.notEqual(two('h'), two('j'));
    // Other outputs, another operand, another shape, another op.
    assert.notEqual(key([a, b], [false, true]), key([a, b], [true, true]));
    assert.notEqual(key([c, d], [true, true]), key([c, e], [true, true]));
    assert.notEqual(key([a], [true]), key([f], [true]));
    assert.notEqual(key([a], [true]), key([b], [true]));
  });
});
