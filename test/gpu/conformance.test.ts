/**
 * The conformance command on folders as the ONNX project writes them: what agrees passes, what differs
 * fails, and a wrong shape is no rounding error.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { cli } from '../harness/cli';
import { FLOAT, floatBits, model, node, raw, tensor, value } from '../unit/onnx/encoder';

/** A tensor in a file of its own: the message without the field that it would be in. */
function tensorFile(dims: number[], values: number[]): Uint8Array {
  const whole = tensor('t', FLOAT, dims, raw(...floatBits(...values)));
  return Uint8Array.from(whole);
}

interface Written {
  readonly x: readonly number[];
  readonly shape: number[];
  readonly want: number[];
}

describe('conformance', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'fusion-lens-conformance-'));
  after(() => {
    rmSync(folder, { recursive: true });
  });

  function write(name: string, w: Written): void {
    const data = path.join(folder, name, 'test_data_set_0');
    mkdirSync(data, { recursive: true });
    const n = w.x.length;
    writeFileSync(
      path.join(folder, name, 'model.onnx'),
      model({
        nodes: [node('Relu', ['x'], ['y'])],
        inputs: [value('x', FLOAT, [n])],
        outputs: [value('y', FLOAT, [n])],
      }),
    );
    writeFileSync(path.join(data, 'input_0.pb'), tensorFile([n], [...w.x]));
    writeFileSync(path.join(data, 'output_0.pb'), tensorFile(w.shape, w.want));
  }

  it('passes what agrees and fails what differs, also where nothing is to be compared', async () => {
    const x = [-1.5, 2.25, 3];
    write('a_right', { x, shape: [3], want: [0, 2.25, 3] });
    write('b_numbers', { x, shape: [3], want: [0, 2.25, 4] });
    write('c_shape', { x: [], shape: [2, 0], want: [] });
    const r = await cli(['conformance', folder]);
    assert.equal(r.code, 1, r.err);
    assert.match(r.out, /1 passed, 2 failed, 0 unsupported/);
    assert.match(r.out, /elements differ/);
    assert.match(r.out, /its shape is \[0\], expected is \[2, 0\]/);
  });
});
