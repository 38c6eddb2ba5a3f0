// The panel's state: what messages and clicks do to it; search, selection and the keyboard's walk.

import assert from 'node:assert/strict';
import type { HostToWebview } from '../../../extension/contracts/webview';
import { TwoLevelLayout } from '../../../webview/layout/twoLevel';
import { GraphIndex, type View } from '../../../webview/render/graphIndex';
import { placeScene, type PlacedScene } from '../../../webview/render/placed';
import { buildScene } from '../../../webview/render/scene';
import { search } from '../../../webview/state/search';
import {
  highlightIn,
  selectedNodes,
  selectionOf,
  type Selection,
} from '../../../webview/state/selection';
import {
  currentStep,
  initialState,
  isKernelFolded,
  toSave,
  update,
  weightsShown,
  type State,
} from '../../../webview/state/state';
import { Walker } from '../../../webview/state/walk';
import { tokenize } from '../../../webview/ui/wgsl';
import type { CompileResult, FusionStep, PlanAtStep } from '../../../compiler/result';
import { deep, mlp, odd, profileOf, transformer } from './fixture';

const host = (state: State, message: HostToWebview): State =>
  update(state, { type: 'host', message });
const loaded = (result: CompileResult): State =>
  host(initialState('file:///a.fuse', undefined), { type: 'result', result, stale: false });

function place(result: CompileResult, view: View, folded = false): PlacedScene {
  const scene = buildScene(new GraphIndex(result), { view, isFolded: () => folded, weights: true });
  return placeScene(scene, new TwoLevelLayout().layout(scene.layout));
}

describe('panel state', () => {
  it('keeps the last good graph when the file breaks, and says that it is old', () => {
    const state = host(loaded(mlp()), { type: 'unavailable', message: 'The file has gone.' });
    assert.equal(state.index?.result.file, 'mlp.fuse');
    assert.equal(state.stale, true);
    const again = host(state, { type: 'result', result: mlp(), stale: false });
    assert.deepEqual([again.stale, again.unavailable], [false, undefined]);
  });

  it('replays the search: the drawing follows the step, and goes back to the finished plan', () => {
    const result = mlp();
    const step = (kernels: number): FusionStep => ({
      ...{ kind: 'vertical', left: ['n0'], right: ['n1'], gainUs: 1, weighed: true },
      ...{ alternatives: [], more: 0, kernels, estimatedUs: 9 },
    });
    const kernels = result.before.kernels.map((k, i) => ({ ...k, id: `s${i}` }));
    const planAt = (at: number): PlanAtStep => ({
      ...{ step: at, plan: { ...result.before, kernels }, decisions: [] },
    });
    const measured = host(loaded(result), { type: 'profile', profile: profileOf(result) });
    let state = update({ ...measured, shown: 'before' }, { type: 'replay', on: true });
    assert.equal(state.shown, 'after');
    state = update(state, { type: 'steps', steps: [step(3), step(2)] });
    state = update(state, { type: 'step', at: 7 });
    assert.equal(state.replay?.at, 2);
    assert.equal(currentStep(state)?.kernels, 2);
    // A plan that comes late is dropped.
    assert.equal(update(state, { type: 'planAt', planAt: planAt(1) }), state);
    state = update(state, { type: 'planAt', planAt: planAt(2) });
    assert.ok(state.index?.kernels.has('s0'));
    assert.equal(state.times?.current, false);
    state = update(state, { type: 'select', selection: { kind: 'kernel', kernel: 's0' } });
    state = update(state, { type: 'replay', on: false });
    assert.equal(state.index, measured.index);
    assert.equal(state.times?.current, true);
    assert.equal(state.selection.kind, 'none');
  });

  it('begins a replay again for a new plan of the same ops, and says when an edit ends it', () => {
    const result = mlp();
    const step: FusionStep = {
      ...{ kind: 'vertical', left: ['n0'], right: ['n1'], gainUs: 1, weighed: true },
      ...{ alternatives: [], more: 0, kernels: 1, estimatedUs: 9 },
    };
    let state = update(loaded(result), { type: 'replay', on: true });
    state = update(state, { type: 'steps', steps: [step, step] });
    state = update(state, { type: 'step', at: 2 });
    // The plan for another adapter has steps of its own, here fewer.
    const other = host(state, { type: 'result', result: mlp(), stale: false });
    assert.deepEqual(
      [other.replay?.finished === other.index, other.replay?.steps, other.replay?.at],
      [true, undefined, 2],
    );
    assert.equal(update(other, { type: 'steps', steps: [step] }).replay?.at, 1);
    assert.equal(other.replayLost, false);
    const edited = mlp();
    const graph = { ...edited.graph, nodes: edited.graph.nodes.slice(1) };
    const lost = host(state, { type: 'result', result: { ...edited, graph }, stale: false });
    assert.deepEqual([lost.replay, lost.replayLost], [undefined, true]);
    assert.equal(update(lost, { type: 'replay', on: true }).replayLost, false);
    assert.equal(update(lost, { type: 'replayLossSeen' }).replayLost, false);
  });

  it('is busy and stale until the next result', () => {
    const state = host(loaded(mlp()), { type: 'busy', message: 'Compiling…' });
    assert.deepEqual([state.busy, state.stale], ['Compiling…', true]);
  });

  it('forgets measurements when the host sends the same version without them', () => {
    const result = mlp();
    const measured = host(loaded(result), { type: 'profile', profile: profileOf(result) });
    assert.ok(measured.times?.of(result.after.kernels[0] ?? assert.fail()));
    assert.equal(host(measured, { type: 'result', result, stale: false }).times, undefined);
  });

  it('keeps the times of kernels that an edit leaves alone, and counts the whole as stale', () => {
    const result = mlp();
    const [first, ...others] = result.after.kernels;
    assert.ok(first && others[0]);
    const profile = profileOf(result);
    const shown = (next: CompileResult) =>
      host(loaded(result), { type: 'result', result: next, stale: false, profile }).times;
    assert.equal(shown(result)?.current, true);
    const changed = { ...first, hash: 'changed' };
    const edited = {
      ...result,
      version: 2,
      after: { ...result.after, kernels: [changed, ...others] },
    };
    const times = shown(edited);
    assert.equal(times?.current, false);
    assert.equal(times.of(changed), undefined);
    assert.ok(times.of(others[0]));
  });

  it('drops what an edit took away from the selection', () => {
    const kernel: Selection = { kind: 'kernel', kernel: 'k5' };
    const state = update(loaded(transformer()), { type: 'select', selection: kernel });
    assert.equal(
      host(state, { type: 'result', result: mlp(), stale: false }).selection.kind,
      'none',
    );
  });

  it('folds kernels by itself only in big graphs', () => {
    const small = loaded(transformer());
    const big = loaded(deep(40));
    const first = (state: State) => state.index?.result.after.kernels[0] ?? assert.fail();
    assert.equal(isKernelFolded(small, first(small)), false);
    assert.equal(isKernelFolded(big, first(big)), true);
    const opened = update(big, { type: 'fold', kernel: 'k0' });
    assert.equal(isKernelFolded(opened, first(opened)), false);
    assert.equal(isKernelFolded(opened, opened.index?.result.after.kernels[1] ?? first(big)), true);
    const all = update(opened, { type: 'foldAll', folded: false });
    assert.ok(all.index?.result.after.kernels.every((kernel) => !isKernelFolded(all, kernel)));
    assert.equal(weightsShown(small), true);
    assert.equal(weightsShown(big), false);
  });

  it('comes back after a reload of the window, for the same file only', () => {
    const shown = update(loaded(transformer()), { type: 'show', shown: 'both' });
    const selected = update(shown, { type: 'select', selection: { kind: 'kernel', kernel: 'k2' } });
    const saved = toSave(update(selected, { type: 'fold', kernel: 'k2' }), { x: 1, y: 2, k: 0.5 });
    assert.deepEqual(JSON.parse(JSON.stringify(saved)), saved);
    const back = initialState('file:///a.fuse', saved);
    assert.deepEqual([back.shown, back.selection], ['both', { kind: 'kernel', kernel: 'k2' }]);
    assert.equal(back.toggled.size, 1);
    assert.equal(initialState('file:///b.fuse', saved).shown, 'after');
  });
});

describe('search', () => {
  const index = new GraphIndex(transformer());
  const find = (query: string) => search(index, query).map(({ kind, id }) => `${kind} ${id}`);

  it('finds by name, op and kernel', () => {
    assert.deepEqual(find('softmax'), ['node n7']);
    assert.deepEqual(find('MASKED'), ['node n6']);
    assert.deepEqual(find('k2'), ['kernel k2']);
    assert.deepEqual(find('mlp.fc1'), ['tensor v7', 'tensor v8']);
    assert.deepEqual(find('  '), []);
  });

  it('finds by shape, however it is written', () => {
    for (const shape of ['1024x3072', '1024×3072', '[1024,3072]', '1024*3072'])
      assert.deepEqual(find(shape), ['tensor v3'], shape);
    assert.deepEqual(find('matmul 128x128'), ['node n5']);
    // 128×1024 isn't part of 128×10.
    assert.deepEqual(find('128x10'), []);
  });

  it('survives odd queries', () => {
    for (const query of ['(', '[', '\\', '.*', 'x'.repeat(5000)]) find(query);
  });
});

describe('selection', () => {
  it('of a kernel after fusion shows its ops before fusion, and the other way round', () => {
    const result = mlp();
    const index = new GraphIndex(result);
    const before = place(result, 'before');
    const kernel: Selection = { kind: 'kernel', kernel: 'k0' };
    assert.deepEqual([...highlightIn(before, index, kernel).selected], ['b0/n0', 'b1/n1', 'b2/n2']);
    const after = place(result, 'after');
    const op: Selection = { kind: 'nodes', nodes: ['n1'] };
    assert.deepEqual([...highlightIn(after, index, op).selected], ['k0/n1']);
    assert.deepEqual([...highlightIn(place(result, 'after', true), index, op).selected], ['k0']);
  });

  it('of a refused edge carries its decisions', () => {
    const result = mlp();
    const index = new GraphIndex(result);
    const edge = place(result, 'after').edges.find((e) => e.edge.rejected !== undefined);
    assert.ok(edge);
    const selection = selectionOf(edge);
    assert.deepEqual(selection, { kind: 'edge', tensor: 'v5', from: 'n2', readers: ['n3'] });
    assert.deepEqual(selectedNodes(index, selection), ['n2', 'n3']);
    assert.equal(highlightIn(place(result, 'before'), index, selection).selected.size, 1);
  });
});

describe('walking by keyboard', () => {
  const placed = place(mlp(), 'after');
  const walker = new Walker(placed);

  it('follows edges through kernels', () => {
    const path = ['t:v0'];
    for (;;) {
      const next = walker.next(path.at(-1) ?? '', 'down');
      if (next === undefined) break;
      path.push(next);
    }
    assert.deepEqual(path, ['t:v0', 'k0/n0', 'k0/n1', 'k0/n2', 'k1', 'o:0']);
    assert.equal(walker.next('k1', 'up'), 'k0/n2');
  });

  it('goes into kernels, out of them, and onto edges', () => {
    assert.equal(walker.next('k0', 'into'), 'k0/n0');
    assert.equal(walker.next('k0/n1', 'outOf'), 'k0');
    const edge = walker.next('k0/n2', 'edgeDown');
    assert.equal(edge, 'k0>k1:v5');
    assert.equal(walker.next(edge ?? '', 'down'), 'k1');
    assert.equal(walker.next(edge ?? '', 'up'), 'k0/n2');
  });

  it('reaches every op of an odd graph from its input, without end', () => {
    const odds = place(odd(), 'after');
    const walk = new Walker(odds);
    let id: string | undefined = 't:v0';
    let steps = 0;
    while (id !== undefined && steps < 500) {
      id = walk.next(id, 'down');
      steps++;
    }
    assert.equal(steps, 102);
  });

  it('goes along a row', () => {
    const row = place(transformer(), 'after');
    const along = new Walker(row);
    const slices = row.leaves
      .filter(({ leaf }) => leaf.title === 'slice')
      .sort((a, b) => a.x - b.x);
    const [a, b, c] = slices.map(({ id }) => id);
    assert.ok(a && b && c);
    assert.deepEqual([along.next(a, 'right'), along.next(b, 'right')], [b, c]);
    assert.equal(along.next(b, 'left'), a);
  });
});

describe('WGSL colouring', () => {
  it('loses nothing and knows the kinds', () => {
    const code =
      '@compute @workgroup_size(64)\nfn main(@builtin(global_invocation_id) id: vec3<u32>) {\n' +
      '  // 1 / x\n  let a = 1.5e-3f * f32(id.x) / 0x1Fu; /* two\nlines */ out[0] = max(a, 2);\n}';
    const tokens = tokenize(code);
    assert.equal(tokens.map(({ text }) => text).join(''), code);
    const kinds = (kind: string) => tokens.filter((t) => t.kind === kind).map(({ text }) => text);
    assert.deepEqual(kinds('keyword'), ['fn', 'let']);
    assert.deepEqual(kinds('number'), ['64', '1.5e-3f', '0x1Fu', '0', '2']);
    assert.deepEqual(kinds('comment'), ['// 1 / x', '/* two\nlines */']);
    assert.deepEqual(kinds('function'), ['main', 'max']);
    assert.deepEqual(kinds('type'), ['vec3', 'u32', 'f32']);
  });
});
