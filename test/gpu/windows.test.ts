/** Depthwise convolutions, pools and stencils in register tiles, against the reference. */
import assert from 'node:assert/strict';
import { DEFAULT_DEVICE, deviceByName } from '../../compiler/fusion/devices';
import { agreementAt } from './agreement';

const DEPTHWISE = (x: string, kernel: string, options: string, channels = 24): string =>
  `input x: f32[${x}]
param w: f32[${channels}, 1, ${kernel}]
param b: f32[${channels}]
y = relu(conv2d(x, w, b, ${options}, groups=${channels}))`;

const CASES: Readonly<Record<string, string>> = {
  '3×3, padded': DEPTHWISE('2, 24, 28, 28', '3, 3', 'padding=1'),
  '3×3 with stride 2, of odd sizes': DEPTHWISE('1, 24, 37, 45', '3, 3', 'padding=1, stride=2'),
  '5×5': DEPTHWISE('1, 24, 30, 32', '5, 5', 'padding=2'),
  '3×3, dilated': DEPTHWISE('1, 24, 33, 31', '3, 3', 'padding=2, dilation=2'),
  '3×3 with two results a channel': `input x: f32[1, 24, 20, 20]
param w: f32[48, 1, 3, 3]
y = conv2d(x, w, padding=1, groups=24)`,
  '3×3 of what comes before': `input x: f32[1, 24, 28, 28]
param w: f32[24, 1, 3, 3]
h = silu(x)
y = conv2d(h, w, padding=1, groups=24) + x`,
  'one dim': `input x: f32[3, 40, 129]
param w: f32[40, 1, 4]
y = conv1d(x, w, groups=40)`,
  'channels last': `input x: f32[1, 20, 22, 24]
param w: f32[24, 1, 3, 3]
y = permute(conv2d(permute(x, [0, 3, 1, 2]), w, padding=1, groups=24), [0, 2, 3, 1])`,
  'the greatest of 3×3': `input x: f32[1, 16, 57, 57]
y = max_pool2d(x, 3, stride=2, padding=1)`,
  'the mean of 2×2': `input x: f32[2, 16, 32, 40]
y = avg_pool2d(x, 2)`,
  'a blur of three rows': `input x: f32[66, 40]
y = x[:-2] + x[1:-1] * 2.0 + x[2:]
z = relu(y)`,
};

describe('windows', function () {
  this.timeout(600_000);
  const agrees = agreementAt();

  for (const [name, source] of Object.entries(CASES))
    it(name, async () => {
      for (const device of ['software', 'llvmpipe', 'integrated'])
        await agrees(
          `${source}\noutput ${source.includes('\nz = ') ? 'z' : 'y'}`,
          { device: deviceByName(device) ?? DEFAULT_DEVICE },
          [{}],
        );
    });

  it('have tiles of their own, and those that a line asks for', async () => {
    const source = DEPTHWISE('1, 96, 56, 56', '3, 3', 'padding=1', 96);
    const device = deviceByName('software') ?? DEFAULT_DEVICE;
    const own = await agrees(`${source}\noutput y`, { device }, [{}]);
    assert.equal(own.result.after.kernels[0]?.schedule['tile'], '1×1×2×4');
    for (const [rows, columns] of [
      [1, 1],
      [3, 5],
      [4, 8],
    ] as const) {
      const line = `schedule y { tile = ${columns}, tileRows = ${rows} }`;
      const c = await agrees(`${source}\n${line}\noutput y`, { device }, [{}]);
      assert.equal(c.result.after.kernels[0]?.schedule['tile'], `1×1×${rows}×${columns}`);
    }
  });

  it('of symbolic sizes, at several sizes', async () => {
    const source = `dim N = 2
dim H = 20
input x: f32[N, 24, H, 30]
param w: f32[24, 1, 3, 3]
y = conv2d(x, w, padding=1, groups=24)
output y`;
    await agrees(source, { device: DEFAULT_DEVICE }, [{}, { N: 1, H: 7 }, { N: 3, H: 33 }]);
  });
});
