import assert from 'node:assert/strict';
import { addFuseDirective } from '../../../extension/features/sideFileEdit';
import { kernelTree, type TreeItem } from '../../../extension/features/treeModel';
import { nodesForCursor } from '../../../extension/common/locate';
import { node, profile, result } from './fixture';

const print = (items: readonly TreeItem[], indent = ''): string[] =>
  items.flatMap(({ label, description, children }) => [
    `${indent}${label} | ${description}`,
    ...print(children, `${indent}  `),
  ]);

describe('the kernel tree', () => {
  it('lists kernels, their ops and what keeps them apart', () => {
    assert.deepEqual(print(kernelTree(result(), profile())), [
      'k0  matmul + add + relu | epilogue · 41 µs measured',
      '  a = matmul | f32[B, 1024]',
      '  b = add | f32[B, 1024]',
      '  c = relu | f32[B, 1024]',
      '    not fused with y | MODEL_SLOWER',
      '    not fused with y | NEEDS_GLOBAL_SYNC',
      'k1  softmax | single · 7.0 µs measured',
      '  y = softmax | f32[B, 1024]',
      '    not fused with c | MODEL_SLOWER',
      '    not fused with c | NEEDS_GLOBAL_SYNC',
    ]);
  });

  it('names what is in no kernel', () => {
    const base = result();
    const view = node('reshape', 'v', ['x'], 9, { kind: 'view' });
    const graph = { ...base.graph, nodes: [...base.graph.nodes, view] };
    const lines = print(kernelTree({ ...base, graph }, undefined));
    assert.deepEqual(lines.slice(-2), [
      'In no kernel | 1 op',
      '  reshape | a view: folded into index maps, costs nothing',
    ]);
  });

  it('gives every item an id of its own', () => {
    const ids: string[] = [];
    const visit = (items: readonly TreeItem[]) => {
      for (const { id, children } of items) {
        ids.push(id);
        visit(children);
      }
    };
    visit(kernelTree(result(), undefined));
    assert.equal(new Set(ids).size, ids.length);
  });
});

describe('the cursor', () => {
  it('stands for the op under it, or for the ops of its line', () => {
    const ids = (line: number, column: number) =>
      nodesForCursor(result(), { line, column }).map(({ id }) => id);
    assert.deepEqual(ids(3, 0), ['a#matmul']);
    assert.deepEqual(ids(4, 0), ['b#add', 'c#relu']);
    assert.deepEqual(ids(5, 6), ['y#softmax']);
    assert.deepEqual(ids(8, 0), []);
  });
});

describe('side files', () => {
  it('get a directive added and keep what they have', () => {
    const first = addFuseDirective(undefined, ['n1', 'n2']);
    assert.ok(first.ok);
    const second = addFuseDirective(first.text.replace('"version"', '"note": "mine", "version"'), [
      'n2',
      'n3',
    ]);
    assert.ok(second.ok);
    assert.deepEqual(JSON.parse(second.text), {
      note: 'mine',
      version: 1,
      directives: [
        { kind: 'fuse', values: ['n1', 'n2'] },
        { kind: 'fuse', values: ['n2', 'n3'] },
      ],
    });
  });

  it('are left alone when they can’t be read', () => {
    for (const text of ['{ not json', '[]', '{"version": 2}', '{"version": 1, "directives": 3}'])
      assert.equal(addFuseDirective(text, ['a', 'b']).ok, false, text);
  });
});
