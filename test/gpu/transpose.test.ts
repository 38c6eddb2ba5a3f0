/** Operands that lie across the results, read through workgroup memory, against the reference. */
import assert from 'node:assert/strict';
import { DEFAULT_DEVICE } from '../../compiler/fusion/devices';
import { agreementAt } from './agreement';

/** Where memory takes all of the time: what crosses always pays. */
const SLOW_MEMORY = { ...DEFAULT_DEVICE, launchUs: 0.001, bytesPerUs: 100 };

const CASES: Readonly<Record<string, string>> = {
  'a transpose of whole squares': 'input x: f32[64, 96]\ny = transpose(x, 0, 1) * 2.0\noutput y',
  'a transpose of odd sizes': 'input x: f32[67, 41]\ny = transpose(x, 0, 1) + 1.0\noutput y',
  'one transposed operand of several': `input x: f32[270, 150]
input z: f32[150, 270]
input r: f32[270]
y = tanh(transpose(x, 0, 1) + z) * r
output y`,
  'two transposed operands': `input x: f32[70, 50]
input z: f32[70, 50]
y = transpose(x, 0, 1) * transpose(z, 0, 1)
output y`,
  'from channels first to channels last': `input x: f32[2, 40, 9, 7]
param s: f32[40]
y = relu(permute(x, [0, 2, 3, 1]) * s)
output y`,
  'from channels last to channels first': `input x: f32[2, 9, 7, 40]
y = permute(x, [0, 3, 1, 2]) - 0.5
output y`,
  'two results': `input x: f32[270, 150]
a = transpose(x, 0, 1)
y = a + 1.0
z = tanh(a)
output y, z`,
  'a part of a larger one, upside down': `input x: f32[280, 160]
y = transpose(flip(narrow(x, 0, 7, 250), [1]), 0, 1) + 2.0
output y`,
  'integers and truths': `input x: i32[50, 70]
input m: bool[50, 70]
y = where(transpose(m, 0, 1), transpose(x, 0, 1), 7)
output y`,
};

describe('transposes through workgroup memory', function () {
  this.timeout(600_000);
  const agrees = agreementAt();

  for (const [name, source] of Object.entries(CASES)) {
    it(name, async () => {
      const c = await agrees(source, { device: SLOW_MEMORY }, [{}]);
      assert.deepEqual(
        c.result.after.kernels.map((k) => k.template),
        ['transpose'],
      );
    });
  }

  it('of every size of the square and number of invocations', async () => {
    for (const [tile, workgroup] of [
      [8, 64],
      [16, 64],
      [16, 256],
      [32, 64],
      [32, 256],
    ] as const) {
      const source = `input x: f32[3, 67, 41]\ny = transpose(x, 1, 2) + 1.0\nschedule y { tile = ${tile}, workgroup = ${workgroup} }\noutput y`;
      const c = await agrees(source, { device: SLOW_MEMORY }, [{}]);
      const [k] = c.result.after.kernels;
      assert.deepEqual(k?.schedule, { tile, workgroup });
    }
  });

  it('of symbolic sizes, at several sizes', async () => {
    const source =
      'dim N = 90\ndim C = 40\ninput x: f32[2, N, C]\ny = permute(x, [0, 2, 1]) * 2.0\noutput y';
    const c = await agrees(source, { device: SLOW_MEMORY }, [
      {},
      { N: 1, C: 1 },
      { N: 33, C: 3 },
      { N: 5, C: 64 },
    ]);
    assert.equal(c.result.after.kernels[0]?.template, 'transpose');
  });
});
