// That the stage has a GPU at all: Dawn finds an adapter, and it computes.

import assert from 'node:assert/strict';
import { create, globals } from 'webgpu';

describe('Dawn', () => {
  before(() => {
    Object.assign(globalThis, globals);
  });

  it('finds an adapter that runs a shader', async () => {
    const gpu = create([]);
    const adapter = await gpu.requestAdapter();
    assert.ok(adapter, 'no adapter');
    const device = await adapter.requestDevice();
    const code = `@group(0) @binding(0) var<storage, read_write> data: array<f32>;
      @compute @workgroup_size(4) fn main(@builtin(global_invocation_id) id: vec3u) {
        data[id.x] = f32(id.x) * 2.0;
      }`;
    const pipeline = device.createComputePipeline({
      layout: 'auto',
      compute: { module: device.createShaderModule({ code }) },
    });
    const { STORAGE, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
    const data = device.createBuffer({ size: 16, usage: STORAGE | COPY_SRC });
    const result = device.createBuffer({ size: 16, usage: COPY_DST | MAP_READ });
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(
      0,
      device.createBindGroup({
        layout: pipeline.getBindGroupLayout(0),
        entries: [{ binding: 0, resource: { buffer: data } }],
      }),
    );
    pass.dispatchWorkgroups(1);
    pass.end();
    encoder.copyBufferToBuffer(data, 0, result, 0, 16);
    device.queue.submit([encoder.finish()]);
    await result.mapAsync(GPUMapMode.READ);
    assert.deepEqual([...new Float32Array(result.getMappedRange())], [0, 2, 4, 6]);
    device.destroy();
  });
});
