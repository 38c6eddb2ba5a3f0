// Products through workgroup memory: what the code is, where it can be, and when it is chosen.

import assert from 'node:assert/strict';
import { compile, type Compilation } from '../../../compiler';
import { DEFAULT_DEVICE } from '../../../compiler/fusion/devices';
import type { DeviceProfile } from '../../../compiler/result';
import { printKernel } from '../../../compiler/schedule/kernelIr';
import { verifyKernel } from '../../../compiler/schedule/verifyKernel';

const compiled = (source: string, device: DeviceProfile = DEFAULT_DEVICE): Compilation =>
  compile({ file: 'test.fuse', bytes: new TextEncoder().encode(source) }, { device });

const tried = (c: Compilation): boolean =>
  c.space('k0')?.parameters.some((p) => p.name === 'staging') ?? false;

describe('products through workgroup memory', () => {
  const product =
    'input x: f32[256, 64]\nparam w: f32[64, 256]\nparam b: f32[256]\ny = relu(x @ w + b)\noutput y';

  it('read each operand once for a block, and multiply from there', () => {
    const c = compiled(product.replace('output', 'schedule y { staging = 1, tile = 4 }\noutput'));
    const [ir] = c.kernelIr('k0') ?? [];
    assert.ok(ir);
    assert.deepEqual(verifyKernel(ir), []);
    const text = printKernel(ir);
    // 8 × 8 invocations of 4 × 4 results, 16 positions of the sum, one more cell a line.
    assert.match(text, /workgroup 64x1x1 grid 64\n/);
    assert.match(text, /shared operand: f32\[528\]\n {2}shared operand_1: f32\[528\]/);
    assert.match(text, /for step in 0 \.\. 4 step 1/);
    assert.equal(text.match(/^ {4}barrier$/gm)?.length, 2);
    // 32 × 16 elements of each, by 64 invocations.
    assert.equal(text.match(/ = x\[/g)?.length, 8);
    assert.equal(text.match(/ = w\[/g)?.length, 8);
  });

  it('are a parameter where operands can be read for a block', () => {
    assert.ok(tried(compiled(product)));
    assert.ok(
      tried(
        compiled(
          'input x: f32[8, 64, 14, 14]\nparam w: f32[64, 64, 1, 1]\ny = conv2d(x, w)\noutput y',
        ),
      ),
    );
    assert.ok(!tried(compiled('input x: f32[64, 64]\ny = exp(x)\noutput y')));
    const set = compiled('input x: f32[64, 64]\ny = exp(x)\nschedule y { staging = 1 }\noutput y');
    assert.match(set.result.diagnostics.map((d) => d.message).join(), /staging is for products/);
  });

  it('are the default where the device’s rates say so', () => {
    const staging = (device: DeviceProfile): unknown =>
      compiled(product.replaceAll('256', '1024').replaceAll('64', '1024'), device).result.after
        .kernels[0]?.schedule['staging'];
    assert.equal(staging(DEFAULT_DEVICE), undefined);
    const near = { ...DEFAULT_DEVICE, sharedAccessWork: 0.2, barrierWork: 5, loadWork: 8 };
    assert.equal(staging(near), 1);
    assert.equal(staging({ ...near, software: true }), undefined);
  });
});
