/** Rows put in order in workgroup memory, against the reference, which counts. */
import assert from 'node:assert/strict';
import { compile } from '../../compiler';
import { DEFAULT_DEVICE } from '../../compiler/fusion/devices';
import { agreementAt } from './agreement';

/** Where arithmetic takes all of the time, however many invocations there are: fewer comparisons pay. */
const SLOW = {
  ...DEFAULT_DEVICE,
  launchUs: 0.001,
  saturatingThreads: 1,
  flopsPerUs: 10,
  sharedAccessWork: 0.1,
  barrierWork: 0.1,
};

const CASES: Readonly<Record<string, string>> = {
  'the largest of a row': 'input x: f32[5, 300]\nv, i = topk(x, 7)\noutput v\noutput i',
  'the least, in a row that is a power of two':
    'input x: f32[3, 256]\nv, i = topk(x, 256, largest=false)\noutput v, i',
  'a whole row, ascending': 'input x: f32[4, 129]\nv, i = sort(x)\noutput v, i',
  'down a column': `input x: f32[2, 70, 9]
v, i = sort(x, axis=1, descending=true)
output v, i`,
  'integers with many ties, which keep their order': `input x: f32[6, 100]
k = floor(x * 3.0).to(i32)
v, i = sort(k)
output v, i`,
  'keys that are computed, and what follows the order': `input x: f32[8, 90]
input b: f32[90]
v, i = topk(relu(tanh(x + b)), 20)
y = v * 2.0 + 1.0
output y, i`,
  'positions alone': 'input x: f32[3, 40]\ni = argsort(x, descending=true)\noutput i',
  'many short rows': 'input x: f32[501, 6]\nv, i = topk(x, 2)\noutput v, i',
  'the largest, equal ones among the cells beyond the end': `input x: f32[3, 37]
v, i = sort(where(x > 0.0, exp(x * 0.0 + 200.0), x))
output v, i`,
};

describe('rows in order', function () {
  this.timeout(600_000);
  const agrees = agreementAt();

  for (const [name, source] of Object.entries(CASES))
    it(name, async () => {
      const c = await agrees(source, { device: SLOW }, [{}]);
      assert.ok(
        c.result.after.kernels.some((k) => k.template === 'sort'),
        c.result.after.kernels.map((k) => k.template).join(),
      );
    });

  it('by any number of invocations', async () => {
    for (const threads of [4, 32, 64]) {
      const source = `input x: f32[11, 100]\nv, i = topk(x, 5)\nschedule v { threads = ${threads} }\noutput v, i`;
      const c = await agrees(source, { device: SLOW }, [{}]);
      assert.equal(c.result.after.kernels[0]?.schedule['threads'], threads);
    }
  });

  it('refuses more invocations than a row has work for, and fewer than can be written out', () => {
    for (const [n, threads, says] of [
      [6, 256, 'from 1 to 4'],
      [100, 128, 'from 4 to 64'],
      [100, 2, 'from 4 to 64'],
    ] as const) {
      const text = `input x: f32[11, ${n}]\nv, i = topk(x, 5)\nschedule v { threads = ${threads} }\noutput v, i`;
      const c = compile(
        { file: 'sort.fuse', bytes: new TextEncoder().encode(text) },
        { device: SLOW },
      );
      const said = c.result.diagnostics.filter((d) => d.code === 'BAD_SCHEDULE');
      assert.ok(
        said.some((d) => d.message.includes(says)),
        JSON.stringify(said),
      );
    }
  });

  it('of a symbolic number of rows, at several', async () => {
    const source = 'dim B = 5\ninput x: f32[B, 64]\nv, i = topk(x, 3)\noutput v, i';
    await agrees(source, { device: SLOW }, [{}, { B: 1 }, { B: 130 }]);
  });
});
