/** Pointwise kernels whose invocations take turns, against the reference. */
import assert from 'node:assert/strict';
import { DEFAULT_DEVICE, deviceByName } from '../../compiler/fusion/devices';
import { agreementAt } from './agreement';

const CPU = deviceByName('software') ?? DEFAULT_DEVICE;

/** Large enough that turns are the default on a CPU, with the dim along which the invocations go. */
const LARGE: Readonly<Record<string, { source: string; turns: number }>> = {
  'a bias along the rows': {
    source: 'input x: f32[2000, 1000]\nparam b: f32[1000]\ny = relu(x + b)',
    turns: 50,
  },
  'rows of a prime number': {
    source: 'input x: f32[2003, 1000]\nparam b: f32[1000]\ny = relu(x + b)',
    turns: 61,
  },
  'a bias for each channel': {
    source: 'input x: f32[2, 16, 256, 256]\nparam b: f32[16, 1, 1]\ny = tanh(x * b)',
    turns: 64,
  },
  'one dim, not a multiple of four': {
    source: 'input x: f32[2000003]\ny = exp(x) - x',
    turns: 61,
  },
};

describe('pointwise kernels that take turns', function () {
  this.timeout(600_000);
  const agrees = agreementAt();

  for (const [name, { source, turns }] of Object.entries(LARGE))
    it(name, async () => {
      const c = await agrees(`${source}\noutput y`, { device: CPU }, [{}]);
      const [k] = c.result.after.kernels;
      assert.equal(k?.schedule['turns'], turns);
    });

  it('as many as a schedule line says, on any device', async () => {
    for (const turns of [2, 3, 7, 64]) {
      const source = `input x: f32[7, 33]\nparam b: f32[33]\nparam c: f32[7, 1]\nz = x + b\ny = z * c\nschedule y { turns = ${turns} }\noutput y, z`;
      const c = await agrees(source, { device: DEFAULT_DEVICE }, [{}]);
      const [k] = c.result.after.kernels;
      assert.equal(k?.schedule['turns'], turns);
      assert.match(c.kernelCode(k.id)?.join() ?? '', /for \(var turn = 0/);
    }
  });

  it('of symbolic sizes, at several sizes', async () => {
    const source =
      'dim N = 40\ninput x: f32[N, 12]\nparam b: f32[12]\ny = sigmoid(x + b)\nschedule y { turns = 8 }\noutput y';
    await agrees(source, { device: DEFAULT_DEVICE }, [{}, { N: 1 }, { N: 9 }, { N: 64 }]);
  });
});
