/** What memory moves in vain, found by trial on the addresses of neighbouring invocations. */
import { strict as assert } from 'node:assert';
import { compile } from '../../../compiler';
import { DEFAULT_DEVICE, deviceByName } from '../../../compiler/fusion/devices';
import * as I from '../../../compiler/ir/indexExpr';
import { wasteOf } from '../../../compiler/schedule/coalescing';

const program = {
  values: new Map(),
  computes: [],
  inputs: [],
  outputs: [],
  dims: new Map([['N', 512]]),
};
const thread = I.loopVar('thread', 4096);
const lanes = new Map([['thread', (lid: number) => lid]]);
const waste = (...linear: I.IndexExpr[]): number =>
  wasteOf(
    program,
    linear.map((e) => ({ value: 'x', linear: e })),
    lanes,
    64,
  ).get('x') ?? 0;

describe('coalescing', () => {
  it('wastes nothing on neighbours, one element for all, or four neighbours an invocation', () => {
    assert.equal(waste(thread), 0);
    assert.equal(waste(I.num(7)), 0);
    assert.equal(waste(...[0, 1, 2, 3].map((k) => I.add(I.mul(thread, 4), k))), 0);
  });

  it('wastes seven of eight bytes down a column', () => {
    assert.equal(waste(I.mul(thread, 1024)), 7);
    assert.equal(waste(I.mul(thread, I.sym('N'))), 7);
    assert.equal(waste(I.add(I.mul(thread, 1024), I.mul(I.loopVar('r0', 64), 64))), 7);
  });

  it('counts half of what every second element leaves', () => {
    assert.equal(waste(I.mul(thread, 2)), 1);
  });

  it('counts rows that invocations walk along, each its own, as moved twice', () => {
    assert.equal(waste(I.add(I.mul(thread, 1024), I.loopVar('r0', 1024))), 1);
  });
});

describe('coalescing in prices', () => {
  const kernel = (text: string, device: string) => {
    const c = compile(
      { file: 'a.fuse', bytes: new TextEncoder().encode(text) },
      { device: deviceByName(device) ?? DEFAULT_DEVICE },
    );
    const [k] = c.result.after.kernels;
    assert.ok(k);
    return k;
  };
  const transposed =
    'input x: f32[2048, 2048]\ninput z: f32[2048, 2048]\ny = transpose(x, 0, 1) + z\noutput y\n';

  it('a GPU reads a transposed operand through workgroup memory, a CPU as it lies', () => {
    const straight = transposed.replace('transpose(x, 0, 1)', 'x');
    const [k, plain] = [kernel(transposed, 'discrete'), kernel(straight, 'discrete')];
    assert.equal(k.template, 'transpose');
    assert.equal(k.counts?.wastedBytes, 0);
    assert.ok(k.estimatedUs < 1.2 * plain.estimatedUs);
    assert.equal(kernel(transposed, 'software').template, 'loop');
    // What only its launch takes time of isn't worth it.
    assert.equal(kernel(transposed.replaceAll('2048', '32'), 'discrete').template, 'loop');
  });

  it('a read of every eighth element costs a GPU more, and a CPU the same', () => {
    const strided =
      'input x: f32[2048, 16384]\ninput z: f32[2048, 2048]\ny = slice(x, 1, 0, 16384, 8) + z\noutput y\n';
    const straight = strided.replace('16384]', '2048]').replace('16384, 8', '2048, 1');
    assert.ok(
      kernel(strided, 'discrete').estimatedUs > 1.2 * kernel(straight, 'discrete').estimatedUs,
    );
    assert.equal(
      kernel(strided, 'software').notes.some((n) => n.code === 'UNCOALESCED'),
      false,
    );
  });

  it('a long product of one row goes along the columns of its weights', () => {
    const k = kernel(
      'input x: f32[1, 4096]\nparam w: f32[4096, 1024]\ny = relu(x @ w)\noutput y\n',
      'integrated',
    );
    assert.equal(k.counts?.wastedBytes, 0);
  });

  it('rows that lie across memory go side by side', () => {
    const k = kernel(
      'input x: f32[64, 4096, 32]\ny = softmax(x, axis=1)\noutput y\n',
      'integrated',
    );
    assert.equal(k.template, 'row');
    assert.equal(k.schedule['rows'], 32);
    assert.equal(k.counts?.wastedBytes, 0);
  });
});
