/**
 * Rows whose invocations combine what they have within subgroups, against the reference: on adapters
 * that have them, with every number of invocations a row.
 */
import assert from 'node:assert/strict';
import path from 'node:path';
import type { DeviceProfile } from '../../compiler/result';
import { DEFAULT_DEVICE } from '../../compiler/fusion/devices';
import { createNodeRunner } from '../../runner/node';
import { agreementAt } from './agreement';

const CASES: Readonly<Record<string, string>> = {
  'sums and maxima': `input x: f32[37, 999]
y = softmax(x, axis=-1)
schedule y { threads = THREADS, rows = ROWS }
output y`,
  'a norm, and what follows it': `input x: f32[37, 256]
param g: f32[256]
y = layer_norm(x, axis=-1) * g
schedule y { threads = THREADS, rows = ROWS }
output y`,
  'positions of the greatest, the first of equals': `input x: f32[37, 515]
y = argmax(floor(x * 2.0), axis=1)
schedule y { threads = THREADS, rows = ROWS }
output y`,
  'products, truths and integers': `input x: f32[37, 300]
input i: i32[37, 300]
p = prod(1.0 + x * 0.01, axis=1)
a = any(x > 2.5, axis=1)
m = amin(i, axis=1)
schedule p { threads = THREADS, rows = ROWS }
schedule a { threads = THREADS, rows = ROWS }
schedule m { threads = THREADS, rows = ROWS }
output p, a, m`,
};

const LACKING = 'the adapter has no subgroups';

describe('rows in subgroups', function () {
  this.timeout(600_000);
  let device: DeviceProfile = DEFAULT_DEVICE;
  before(async () => {
    const runner = createNodeRunner({ childPath: path.resolve('dist/runnerChild.mjs') });
    try {
      const reply = await runner.adapter();
      assert.ok(reply.ok && reply.value.limits);
      // As for a graphics card: on a CPU most rows have one invocation.
      device = { ...DEFAULT_DEVICE, limits: reply.value.limits };
    } finally {
      runner.dispose();
    }
  });
  const agrees = agreementAt();

  for (const [name, source] of Object.entries(CASES))
    it(name, async function () {
      if (!device.limits.subgroups) {
        if (this.test) this.test.title += `: not run, ${LACKING}`;
        this.skip();
      }
      for (const [threads, rows] of [
        [2, 32],
        [4, 16],
        [8, 3],
        [16, 4],
        [32, 2],
        [64, 1],
        [128, 2],
        [256, 1],
      ] as const) {
        const text = source.replaceAll('THREADS', `${threads}`).replaceAll('ROWS', `${rows}`);
        const c = await agrees(text, { device }, [{}]);
        for (const k of c.result.after.kernels) {
          assert.equal(k.template, 'row');
          assert.equal(k.schedule['subgroups'], 1, JSON.stringify(k.schedule));
          assert.match(c.kernelCode(k.id)?.join() ?? '', /enable subgroups/);
        }
      }
    });
});
