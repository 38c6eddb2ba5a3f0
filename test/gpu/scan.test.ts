/** Running reductions that walk along their rows once, against the reference. */
import assert from 'node:assert/strict';
import { agreementAt } from './agreement';

const CASES: Readonly<Record<string, string>> = {
  'a running sum along the last dim': 'input x: f32[9, 4096]\ny = cumsum(x, axis=1)\noutput y',
  'along the first, where rows lie side by side': `input x: f32[300, 70]
y = cumsum(x, axis=0)
output y`,
  'along one in the middle, of odd sizes':
    'input x: f32[5, 67, 9]\ny = cumprod(x * 0.1 + 1.0, axis=1)\noutput y',
  backwards: 'input x: f32[3, 1031]\ny = cumsum(x, axis=1, reverse=true)\noutput y',
  'without the place itself':
    'input x: f32[3, 260]\ny = cumsum(x, axis=1, exclusive=true)\noutput y',
  'backwards without it': `input x: f32[3, 2048]
y = cumsum(x, axis=1, exclusive=true, reverse=true)
output y`,
  'of integers, which wrap': `input x: i32[5, 1001]
y = cumsum(x * 2000000, axis=-1)
output y`,
  'with what feeds it and what follows': `input x: f32[8, 512]
input b: f32[512]
y = relu(cumsum(tanh(x + b), axis=1) * 0.25) + x
output y`,
  'two side by side': `input x: f32[6, 130]
w = cumsum(x, axis=1)
z = exp(cumprod(x * 0.01 + 1.0, axis=1)) * w
output z, w`,
  'through a transpose': `input x: f32[40, 36]
y = transpose(cumsum(transpose(x, 0, 1), axis=1), 0, 1) * 2.0
output y`,
  'of more rows than a grid has in one dim':
    'input x: f32[70000, 8, 1]\ny = cumsum(x, axis=1)\noutput y',
  'of one place': 'input x: f32[4, 1]\ny = cumsum(x, axis=1) + 1.0\noutput y',
  'written as a masked sum': `input x: f32[48, 64]
y = sum(where(tril(ones([64, 64])) > 0.5, unsqueeze(x, 1), 0.0), -1)
output y`,
};

describe('running reductions', function () {
  this.timeout(600_000);
  const agrees = agreementAt();

  for (const [name, source] of Object.entries(CASES)) {
    it(name, async () => {
      const c = await agrees(source, {}, [{}]);
      if (name !== 'of one place' && name !== 'written as a masked sum')
        assert.deepEqual(
          c.result.after.kernels.map((k) => k.template),
          ['scan'],
        );
    });
  }

  it('by any number of invocations and rows', async () => {
    for (const [threads, rows] of [
      [1, 1],
      [1, 64],
      [2, 8],
      [16, 3],
      [64, 4],
      [256, 1],
    ] as const)
      for (const n of [997, 1024]) {
        const source = `input x: f32[11, ${n}]\ny = cumsum(x, axis=1) + 1.0\nschedule y { threads = ${threads}, rows = ${rows} }\noutput y`;
        const c = await agrees(source, {}, [{}]);
        assert.deepEqual(c.result.after.kernels[0]?.schedule, { threads, rows });
      }
  });

  it('of symbolic sizes, at several sizes', async () => {
    const source =
      'dim N = 300\ndim B = 5\ninput x: f32[B, N]\ny = cumsum(x, axis=1) * 2.0\noutput y';
    const c = await agrees(source, {}, [{}, { N: 1, B: 1 }, { N: 77, B: 130 }, { N: 2050, B: 2 }]);
    assert.equal(c.result.after.kernels[0]?.template, 'scan');
  });
});
