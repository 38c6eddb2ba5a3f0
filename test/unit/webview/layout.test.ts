// The two-level layout: what a person would complain about in a drawing, on graphs big and odd.

import assert from 'node:assert/strict';
import { TwoLevelLayout } from '../../../webview/layout/twoLevel';
import type {
  InnerGraph,
  LayoutInput,
  LayoutResult,
  OuterEdge,
} from '../../../webview/layout/types';

type Pair = readonly [from: number, to: number];

function graph(count: number, pairs: readonly Pair[], sizes = { width: 100, height: 40 }) {
  return {
    boxes: Array.from({ length: count }, (_, i) => ({ id: `n${i}`, ...sizes })),
    edges: pairs.map(([from, to], i): OuterEdge => ({ id: `e${i}`, from, to, net: `v${from}` })),
  } satisfies LayoutInput;
}

/** Deterministic numbers in [0, n). */
function random(seed: number): (n: number) => number {
  let state = seed;
  return (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 4294967296) * n);
  };
}

/** A model-like graph: a long backbone with branches, skips and weights. */
function model(nodes: number): LayoutInput {
  const pick = random(7);
  const pairs: Pair[] = [];
  let last = 0;
  let skip = 0;
  for (let i = 1; i < nodes; i++) {
    if (i % 3 === 0) continue; // a weight, read by the op after it
    pairs.push([last, i]);
    if ((i - 1) % 3 === 0 && i > 1) pairs.push([i - 1, i]);
    if (pick(8) === 0) {
      pairs.push([skip, i]);
      skip = i;
    }
    last = i;
  }
  return graph(nodes, pairs);
}

function checkDrawing(input: LayoutInput, result: LayoutResult): void {
  const rows = [...result.boxes].sort((a, b) => a.y - b.y);
  rows.forEach((a, i) => {
    for (let j = i + 1; j < rows.length; j++) {
      const b = rows[j];
      if (!b || b.y >= a.y + a.height) break;
      const apart = a.x + a.width <= b.x + 0.2 || b.x + b.width <= a.x + 0.2;
      assert.ok(apart, `boxes overlap: ${JSON.stringify([a, b])}`);
    }
  });
  input.edges.forEach(({ from, to, id }, i) => {
    if (from === to) return;
    const [a, b] = [result.boxes[from], result.boxes[to]];
    assert.ok(a && b);
    assert.ok(a.y + a.height < b.y, `${id} doesn't point down`);
    const route = result.edges[i];
    assert.ok(route);
    if (route.kind === 'stub') {
      assert.ok(route.from[0] >= a.x && route.from[0] <= a.x + a.width);
      return;
    }
    assert.equal(route.kind, 'path');
    if (route.kind !== 'path') return;
    const p = route.points;
    for (let k = 3; k < p.length; k += 2)
      assert.ok((p[k] ?? 0) >= (p[k - 2] ?? 0) - 0.2, `${id} runs back up`);
    const [x0, y0, x1, y1] = [p[0] ?? NaN, p[1] ?? NaN, p.at(-2) ?? NaN, p.at(-1) ?? NaN];
    assert.ok(x0 >= a.x && x0 <= a.x + a.width, `${id} starts beside its node`);
    assert.ok(Math.abs(y0 - a.y - a.height) < 0.2, `${id} starts off its node`);
    assert.ok(x1 >= b.x && x1 <= b.x + b.width, `${id} ends beside its node`);
    assert.ok(Math.abs(y1 - b.y) < 0.2, `${id} ends off its node`);
  });
}

describe('graph layout', () => {
  it('draws nothing for an empty graph', () => {
    assert.deepEqual(new TwoLevelLayout().layout({ boxes: [], edges: [] }), {
      width: 0,
      height: 0,
      boxes: [],
      edges: [],
    });
  });

  it('draws a diamond symmetrically', () => {
    const input = graph(4, [
      [0, 1],
      [0, 2],
      [1, 3],
      [2, 3],
    ]);
    const { boxes, width } = new TwoLevelLayout().layout(input);
    checkDrawing(input, new TwoLevelLayout().layout(input));
    assert.equal(width, 236);
    assert.deepEqual(
      boxes.map(({ x }) => x),
      [68, 0, 136, 68],
    );
  });

  it('keeps a chain of 3,000 straight', function () {
    this.timeout(30_000);
    const input = graph(
      3000,
      Array.from({ length: 2999 }, (_, i): Pair => [i, i + 1]),
    );
    const result = new TwoLevelLayout().layout(input);
    checkDrawing(input, result);
    assert.equal(new Set(result.boxes.map(({ x }) => x)).size, 1);
  });

  it('draws a += a a hundred times, with both operands', () => {
    const pairs: Pair[] = [];
    for (let i = 0; i < 100; i++) pairs.push([i, i + 1], [i, i + 1]);
    const input = graph(101, pairs);
    const result = new TwoLevelLayout().layout(input);
    checkDrawing(input, result);
    assert.ok(result.width < 200);
  });

  it('survives self-loops, cycles and isolated nodes', () => {
    const input = graph(7, [
      [0, 0],
      [0, 1],
      [1, 2],
      [2, 0],
      [3, 2],
    ]);
    const result = new TwoLevelLayout().layout(input);
    assert.equal(result.edges[0]?.kind, 'none');
    assert.equal(result.edges[3]?.kind, 'path');
    assert.equal(new Set(result.boxes.map(({ x, y }) => `${x},${y}`)).size, 7);
  });

  it('packs 2,000 isolated nodes as a block, not as a row', function () {
    this.timeout(30_000);
    const result = new TwoLevelLayout().layout(graph(2000, []));
    assert.ok(result.width < 12_000 && result.height < 12_000, `${result.width}`);
  });

  it('sinks a weight, and the views on it, to the op that reads it', () => {
    // 0 → 1 → 2 → 3 → 4 → 5 with weight 6 → view 7 → 5
    const input = graph(8, [
      [0, 1],
      [1, 2],
      [2, 3],
      [3, 4],
      [4, 5],
      [6, 7],
      [7, 5],
    ]);
    const { boxes } = new TwoLevelLayout().layout(input);
    assert.equal(boxes[7]?.y, boxes[4]?.y);
    assert.equal(boxes[6]?.y, boxes[3]?.y);
  });

  it('stubs an edge that is too long to follow, and routes a shorter one around', () => {
    const chain = Array.from({ length: 59 }, (_, i): Pair => [i, i + 1]);
    const input = graph(60, [...chain, [0, 59], [10, 30]]);
    const result = new TwoLevelLayout().layout(input);
    checkDrawing(input, result);
    assert.equal(result.edges[59]?.kind, 'stub');
    const around = result.edges[60];
    assert.ok(around?.kind === 'path');
    // It passes beside every node between its ends.
    for (let i = 11; i < 30; i++) {
      const box = result.boxes[i];
      assert.ok(box);
      for (let k = 0; k < around.points.length; k += 2) {
        const [x, y] = [around.points[k] ?? 0, around.points[k + 1] ?? 0];
        const inside = x > box.x && x < box.x + box.width && y > box.y && y < box.y + box.height;
        assert.ok(!inside, `passes through node ${i}`);
      }
    }
  });

  it('lays out 10,000 nodes in time, the same each time', function () {
    this.timeout(90_000);
    const input = model(10_000);
    const started = process.cpuUsage();
    const result = new TwoLevelLayout().layout(input);
    const ms = process.cpuUsage(started).user / 1000;
    checkDrawing(input, result);
    assert.deepEqual(new TwoLevelLayout().layout(input), result);
    // Processor time, as the machine may be busy. The target is 1 s; the rest is for slow machines.
    assert.ok(ms < 4000, `took ${ms.toFixed(0)} ms`);
  });

  it('lays out a wide graph of 10,000 nodes in time', function () {
    this.timeout(90_000);
    const pick = random(3);
    const pairs: Pair[] = [];
    for (let i = 100; i < 10_000; i++)
      for (let k = 0; k < 2; k++) pairs.push([i - 1 - pick(100), i]);
    const input = graph(10_000, pairs);
    const started = process.cpuUsage();
    const result = new TwoLevelLayout().layout(input);
    const ms = process.cpuUsage(started).user / 1000;
    checkDrawing(input, result);
    assert.ok(ms < 6000, `took ${ms.toFixed(0)} ms`);
  });

  it('leaves the order alone when a node is added elsewhere', () => {
    const pairs: Pair[] = [];
    for (let i = 1; i < 40; i++) pairs.push([Math.floor((i - 1) / 2), i]);
    const first = new TwoLevelLayout().layout(graph(40, pairs));
    const seeds = Object.fromEntries(first.boxes.map((box, i) => [`n${i}`, box.x + box.width / 2]));
    const second = new TwoLevelLayout().layout(graph(41, [...pairs, [5, 40]]), seeds);
    const order = (result: LayoutResult, y: number) =>
      result.boxes
        .map((box, i) => ({ ...box, i }))
        .filter((box) => box.y === y && box.i !== 40)
        .sort((a, b) => a.x - b.x)
        .map(({ i }) => i);
    for (const y of new Set(first.boxes.map((box) => box.y)))
      assert.deepEqual(order(second, y), order(first, y));
  });
});

describe('unfolded boxes', () => {
  const size = { width: 80, height: 30 };
  const inner: InnerGraph = {
    nodes: ['mul', 'add', 'relu'].map((id) => ({ id, ...size })),
    edges: [
      { from: 0, to: 1, net: 'a' },
      { from: 1, to: 2, net: 'b' },
    ],
    ins: [
      { net: 'x', to: [0] },
      { net: 'bias', to: [1, 2] },
    ],
    outs: [{ net: 'y', from: 2 }],
    header: 44,
  };
  const input: LayoutInput = {
    boxes: [
      { id: 'x', ...size },
      { id: 'bias', ...size },
      { id: 'k0', width: 150, height: 44, inner },
      { id: 'out', ...size },
    ],
    edges: [
      { id: 'e0', from: 0, to: 2, net: 'x', in: 0 },
      { id: 'e1', from: 1, to: 2, net: 'bias', in: 1 },
      { id: 'e2', from: 2, to: 3, net: 'y', out: 0 },
    ],
  };

  it('hold their ops below the title, apart from each other', () => {
    const { boxes } = new TwoLevelLayout().layout(input);
    const box = boxes[2];
    assert.ok(box?.inner);
    const nodes = box.inner.nodes.map((at) => ({ ...at, ...size }));
    for (const node of nodes) {
      assert.ok(node.x >= box.x && node.x + node.width <= box.x + box.width);
      assert.ok(node.y >= box.y + 44 && node.y + node.height <= box.y + box.height);
    }
    assert.ok((nodes[0]?.y ?? 0) + 30 < (nodes[1]?.y ?? 0));
  });

  it('meet each tensor where its legs begin', () => {
    const { boxes, edges } = new TwoLevelLayout().layout(input);
    const inside = boxes[2]?.inner;
    [0, 1].forEach((port) => {
      const route = edges[port];
      assert.ok(route?.kind === 'path');
      for (const leg of inside?.ins[port] ?? []) {
        assert.ok(leg.kind === 'path');
        assert.ok(Math.abs((leg.points[0] ?? 0) - (route.points.at(-2) ?? 0)) < 0.2);
      }
    });
    const out = inside?.outs[0];
    assert.ok(out?.kind === 'path' && edges[2]?.kind === 'path');
    assert.ok(Math.abs((out.points.at(-2) ?? 0) - (edges[2].points[0] ?? 0)) < 0.2);
  });

  it('keep rows and order of the others when one is folded', () => {
    const layout = new TwoLevelLayout();
    const before = layout.layout(input);
    const folded: LayoutInput = {
      boxes: input.boxes.map(({ id, width, height }) => ({ id, width, height })),
      edges: input.edges.map(({ id, from, to, net }) => ({ id, from, to, net })),
    };
    const after = layout.layout(folded);
    const order = (r: LayoutResult) => Math.sign((r.boxes[0]?.x ?? 0) - (r.boxes[1]?.x ?? 0));
    assert.equal(order(after), order(before));
    assert.ok(after.height < before.height);
    checkDrawing(folded, after);
  });
});
