/**
 * Means and variances in one walk along a row, against the reference: numbers that lie far from zero
 * beside their spread, rows of any length, shares of several invocations, blocks of rows.
 */
import assert from 'node:assert/strict';
import type { Compilation } from '../../compiler';
import { deviceByName } from '../../compiler/fusion/devices';
import { agreementAt } from './agreement';

const NORM = (shape: string, x: string, line = ''): string => `input x: f32[${shape}]
param bias: f32[${shape.split(', ').pop() ?? ''}]
y = layer_norm(${x}, axis=-1)
output y
${line}`;

const CASES: Readonly<Record<string, string>> = {
  'a norm of small numbers': NORM('300, 1024', 'relu(x + bias)'),
  'far from zero': NORM('300, 1024', 'x + bias + 3000.0'),
  'far from zero, in rows of odd length': NORM('257, 1021', 'x * 0.01 + bias - 500.0'),
  'few rows, many invocations each': NORM('3, 8192', 'x + bias + 1000.0'),
  'few rows of odd length': NORM('3, 5001', 'x + bias + 1000.0'),
  'rows shorter than what an invocation takes in': NORM('5000, 65', 'x + bias - 77.0'),
  'vectors of four, four at once': NORM('300, 1024', 'x - 20.0', 'schedule y { vectors = 4 }'),
  'vectors by several invocations': NORM(
    '300, 2048',
    'x + 20.0',
    'schedule y { threads = 8, rows = 4, block = 1, vectors = 2 }',
  ),
  'rows in blocks': NORM(
    '307, 512',
    'relu(x + bias)',
    'schedule y { threads = 1, block = 4, rows = 8 }',
  ),
  'over two dims': `input x: f32[90, 33, 70]
m = mean(x, axis=[1, 2], keepdim=true)
v = mean((x + 5.0 - (m + 5.0)) ** 2, axis=[1, 2], keepdim=true)
output v, m`,
  'distances from the greatest': `input x: f32[300, 1000]
s = sum(x, axis=-1)
d = sum((x - amax(x, axis=-1, keepdim=true)) ** 2, axis=-1)
output s, d`,
};

/** Loops of the kernel's code that aren't inside others. */
function walks(c: Compilation): number[] {
  return c.result.after.kernels.map(
    (k) => c.kernelIr(k.id)?.[0]?.body.filter((s) => s.s === 'for').length ?? 0,
  );
}

describe('norms', function () {
  this.timeout(600_000);
  const agreesAt = agreementAt();

  for (const name of ['software', 'integrated']) {
    const device = deviceByName(name);
    assert.ok(device);
    for (const [what, source] of Object.entries(CASES))
      it(`${what}, as for ${name}`, async () => {
        const c = await agreesAt(source, { device }, [{}]);
        assert.equal(walks(c).length, 1);
      });
  }

  it('walk along the row twice, once for the moments and once for the results', async () => {
    const source = NORM('4096, 1024', 'relu(x + bias)');
    const c = await agreesAt(source, { device: deviceByName('software') }, [{}]);
    assert.deepEqual(walks(c), [2]);
    assert.deepEqual(
      c.result.after.kernels.map((k) => k.schedule),
      [{ threads: 1, rows: 64, block: 4, unrolled: 0, online: 1 }],
    );
  });

  it('of symbolic sizes, at several sizes', async () => {
    const source = `dim N = 600
input x: f32[200, N]
y = layer_norm(x + 100.0, axis=-1)
output y`;
    await agreesAt(source, { device: deviceByName('software') }, [{ N: 600 }, { N: 33 }, { N: 1 }]);
  });
});
