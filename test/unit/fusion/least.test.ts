/** What is told of a kernel before it is built is never more than what it then takes. */
import assert from 'node:assert/strict';
import { generate } from '../../../bench/graphs';
import { DEVICES } from '../../../compiler/fusion/devices';
import { union } from '../../../compiler/fusion/grouping';
import { specOf } from '../../../compiler/fusion/memo';
import type { DeviceProfile } from '../../../compiler/result';
import { countFeatures } from '../../../compiler/schedule/features';
import type { GroupSpec } from '../../../compiler/schedule/group';
import {
  leastOf,
  leastRowMemory,
  leastRowPs,
  leastStreamPs,
} from '../../../compiler/schedule/least';
import { buildRow, type RowParams } from '../../../compiler/schedule/row';
import {
  onlineParams,
  placeRows,
  rowBlocks,
  rowParams,
  rowsAcross,
  symbolicRow,
} from '../../../compiler/schedule/rowParams';
import { scheduleGroup } from '../../../compiler/schedule/schedule';
import { buildStream } from '../../../compiler/schedule/stream';
import { planStream, streamParams } from '../../../compiler/schedule/streamPlan';
import { kernelTimeUs } from '../../../compiler/schedule/time';
import { searched } from './fixture';

/** A GPU and a CPU. */
const MODELS = DEVICES.filter((d) => d.name === 'integrated' || d.name === 'software');
const draft = { f16: false, draft: true };

const GRAPHS: Readonly<Record<string, string>> = {
  'layers of unlike widths': generate('shapes', 12),
  transformer: generate('transformer', 40),
  residual: generate('residual', 24),
  heads: generate('heads', 24),
  'depthwise convolutions and pooling': `
dim N = 2
input x: f32[N, 8, 40, 40]
param a: f32[8, 1, 3, 3]
param b: f32[8, 1, 5, 5]
param w: f32[16, 8, 1, 1]
y = conv2d(x, a, padding=1, groups=8)
z = conv2d(relu(y), b, padding=2, groups=8)
m = mean(z, axis=[2, 3], keepdim=true)
o = conv2d(z * sigmoid(m), w)
output o
`,
  'attention under a mask, and variances of rows': `
dim S = 300
input q: f32[4, S, 32]
input k: f32[4, S, 32]
input v: f32[4, S, 24]
s = q @ transpose(k, -1, -2) / 5.5
o = softmax(where(tril(ones([S, S])) > 0, s, -1e9), axis=-1) @ v
n = o - mean(o, axis=-1, keepdim=true)
d = n / sqrt(mean(n * n, axis=-1, keepdim=true) + 0.001)
output d
`,
};

/** Groups of a graph's plan, and those that it would have if neighbours were merged. */
function* groupsOf(text: string): Generator<GroupSpec> {
  const { program, grouping } = searched(text);
  for (const g of grouping.groups.values())
    for (const c of [g.id, ...grouping.consumers(g.id)]) {
      const members = union(g.members, grouping.group(c).members);
      yield specOf(program, members, grouping.stored(members));
    }
  for (let i = 0; i + 1 < program.computes.length; i++)
    for (const members of [[i], [i, i + 1]])
      yield specOf(
        program,
        members,
        members.map(() => true),
      );
}

/** Compares bounds with drafts; how many. */
function compared(spec: GroupSpec, device: DeviceProfile): number {
  const placement = placeRows(spec);
  if (!placement) return 0;
  const options = { device, f16: false };
  const least = leastOf(spec, false);
  const params = rowParams(spec, placement, options);
  const wide = { ...params, threads: 64, rows: 1, unrolled: 0 };
  const one = { ...params, threads: 1, rows: 64, unrolled: 0 };
  const tried = [
    ...[params, wide, one, { ...wide, block: 4 }, { ...one, vectors: 4 }],
    ...rowsAcross(spec, placement, params, device),
    ...rowBlocks(spec, placement, params, device),
  ];
  const all: RowParams[] = symbolicRow(spec, placement, params)
    ? []
    : tried.flatMap((p) => [p, onlineParams(spec, placement, p, device) ?? []].flat());
  for (const p of all) {
    const { ir, builder } = buildRow('k', spec, placement, p, draft);
    const f = countFeatures(spec, ir, builder, false, device.loadWork);
    const bound = leastRowPs(spec, placement, p, least, device);
    const text = `${spec.members.map((m) => m.value).join()} ${JSON.stringify(p)}`;
    assert.ok(bound <= kernelTimeUs(f, device).us * 1e6, text);
    assert.ok(leastRowMemory(placement, p, spec.program) <= f.sharedBytes, text);
  }
  const plan = planStream(spec, placement);
  const tiles = 'fault' in plan ? undefined : streamParams(spec, plan, device);
  if ('fault' in plan || !tiles) return all.length;
  const { ir, builder } = buildStream('k', spec, plan, tiles, draft);
  const f = countFeatures(spec, ir, builder, false, device.loadWork);
  const bound = leastStreamPs(spec, plan, tiles, least, device);
  assert.ok(bound <= kernelTimeUs(f, device).us * 1e6, spec.members.map((m) => m.value).join());
  return all.length + 1;
}

describe('Lower bounds of prices', () => {
  for (const [name, text] of Object.entries(GRAPHS)) {
    it(`are never above the price: ${name}`, () => {
      let count = 0;
      for (const spec of groupsOf(text))
        for (const device of MODELS) count += compared(spec, device);
      assert.ok(count > 10, `${count} compared`);
    });

    it(`refuse nothing that costs less than the budget: ${name}`, () => {
      for (const spec of groupsOf(text))
        for (const device of MODELS) {
          const options = { device, f16: false };
          const whole = scheduleGroup(spec, options);
          if (!whole.ok) continue;
          const { cost } = whole.value;
          for (const budget of [Math.round(cost / 3), cost, cost + 1, 2 * cost]) {
            const answer = scheduleGroup(spec, options, true, false, budget);
            if (answer.ok) assert.deepEqual(answer, whole);
            else assert.ok(answer.leastPs === budget && budget <= cost);
          }
        }
    });
  }
});
