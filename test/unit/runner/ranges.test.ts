import assert from 'node:assert/strict';
import {
  appendFileSync,
  mkdtempSync,
  openSync,
  closeSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { compile } from '../../../compiler';
import { replyOf } from '../../../runner/core';
import { type OpenedModel, openModel, readModel } from '../../../runner/node/ranges';
import { writeSparseModel } from '../onnx/sparse';

describe('models on disk', () => {
  let base = '';
  before(() => {
    base = mkdtempSync(path.join(tmpdir(), 'models-'));
  });
  after(() => rmSync(base, { recursive: true }));

  const opened = async (file: string): Promise<OpenedModel> => {
    const r = await openModel(file);
    assert(r.ok);
    return r.value;
  };

  it('of 2.5 GiB open in the time that their graph takes, without their weights', async () => {
    const file = path.join(base, 'large.onnx');
    const { size, weights } = writeSparseModel(file, 40, 4096);
    assert(size > 2.5 * 2 ** 30);
    const cpu = process.cpuUsage();
    const buffers = process.memoryUsage().arrayBuffers;
    const { bytes, cuts, modelFile } = await opened(file);
    const { result, graph } = compile({ file, bytes, cuts });
    const { user, system } = process.cpuUsage(cpu);
    assert.deepEqual(result.diagnostics, []);
    assert.equal(result.graph.nodes.length, 40);
    assert.equal(modelFile.size, size);
    assert(bytes.length < 8192);
    const more = process.memoryUsage().arrayBuffers - buffers;
    assert(more < 16 * 2 ** 20, `${more} bytes of buffers`);
    // Generous: most of it is the compiler being compiled itself.
    assert(user + system < 3e6, `${(user + system) / 1e6} s`);
    const places = [...graph.tensors.values()].flatMap(({ data }) =>
      data?.kind === 'inModel' ? [data.offset] : [],
    );
    assert.deepEqual(places, weights);
  });

  it('have their contents read later, beyond 2 GiB too', async () => {
    const file = path.join(base, 'late.onnx');
    const { weights } = writeSparseModel(file, 34, 4096);
    const offset = weights[33] ?? 0;
    assert(offset > 2 ** 31);
    const handle = openSync(file, 'r+');
    writeSync(handle, Uint8Array.of(1, 2, 3, 4), 0, 4, offset);
    closeSync(handle);
    const { modelFile } = await opened(file);
    assert.deepEqual([...(await readModel(modelFile, { offset, length: 6 }))], [1, 2, 3, 4, 0, 0]);
  });

  it('that have changed since, or are gone, are refused', async () => {
    const file = path.join(base, 'changing.onnx');
    const { weights } = writeSparseModel(file, 1, 256);
    const { modelFile } = await opened(file);
    const range = { offset: weights[0] ?? 0, length: 4 };
    const says = async (): Promise<string> => {
      const r = await replyOf(() => readModel(modelFile, range));
      return r.ok ? 'read' : r.fault.message;
    };
    assert.equal(await says(), 'read');
    utimesSync(file, new Date(), new Date(modelFile.modified + 1000));
    assert.match(await says(), /has changed since it was compiled/);
    appendFileSync(file, 'x');
    utimesSync(file, new Date(), new Date(modelFile.modified));
    assert.match(await says(), /has changed since it was compiled/);
    rmSync(file);
    assert.match(await says(), /can’t be read any more/);
  });

  it('that were cut off say so, and how much is missing', async () => {
    const file = path.join(base, 'short.onnx');
    writeSparseModel(file, 2, 256);
    truncateSync(file, 300_000);
    const { bytes, cuts } = await opened(file);
    const [d] = compile({ file, bytes, cuts }).result.diagnostics;
    assert.equal(d?.code, 'MALFORMED');
    assert.match(d?.message ?? '', /field 7 says it has \d+ bytes, but \d+ are left/);
  });
});
