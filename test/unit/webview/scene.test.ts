// From a compile result to marks: what is shown, where, and how much of it.

import assert from 'node:assert/strict';
import { TwoLevelLayout } from '../../../webview/layout/twoLevel';
import { describe as say } from '../../../webview/render/describe';
import {
  fitShape,
  fitText,
  formatBytes,
  formatShape,
  formatUs,
  shapeText,
  textWidth,
} from '../../../webview/render/format';
import { GraphIndex, Times, type View } from '../../../webview/render/graphIndex';
import { ELEMENT_BUDGET, hit, visibleItems } from '../../../webview/render/lod';
import { edgeMarks, kernelMarks, leafMarks, overlayMarks } from '../../../webview/render/marks';
import {
  contrastRatio,
  DARK_THEME,
  LIGHT_THEME,
  makePalette,
  type ThemeColours,
} from '../../../webview/render/palette';
import { type Bounds, placeScene, type PlacedScene } from '../../../webview/render/placed';
import { buildScene } from '../../../webview/render/scene';
import { search } from '../../../webview/state/search';
import { svgText } from '../../../webview/render/svgText';
import { compile } from '../../../compiler';
import type { CompileResult } from '../../../compiler/result';
import { attr, BOOL, type Bytes, FLOAT, graph, INT64, model, node, value } from '../onnx/encoder';
import { deep, empty, mlp, odd, profileOf, transformer } from './fixture';

function draw(
  result: CompileResult,
  view: View,
  options: { folded?: boolean; weights?: boolean } = {},
): PlacedScene {
  const scene = buildScene(new GraphIndex(result), {
    view,
    isFolded: () => options.folded ?? false,
    weights: options.weights ?? true,
  });
  return placeScene(scene, new TwoLevelLayout().layout(scene.layout));
}

/** A loop that goes on while a sum is small, with a branch inside it, whose ways are too large to take both. */
function looping(): CompileResult {
  const size = [2 ** 18];
  const arm = (op: string): Bytes =>
    graph({ nodes: [node(op, ['h'], ['o'])], outputs: [value('o', FLOAT, size)] });
  const body = graph({
    nodes: [
      node('Add', ['v', 'x'], ['h']),
      node('ReduceSum', ['h'], ['s'], { attrs: [attr.int('keepdims', 0)] }),
      node('Less', ['s', 'limit'], ['on']),
      node('If', ['on'], ['w'], {
        attrs: [attr.graph('then_branch', arm('Exp')), attr.graph('else_branch', arm('Tanh'))],
      }),
    ],
    inputs: [value('i', INT64, []), value('_', BOOL, []), value('v', FLOAT, size)],
    outputs: [value('on', BOOL, []), value('w', FLOAT, size)],
  });
  const bytes = model(
    {
      nodes: [
        node('Relu', ['x'], ['x0']),
        node('Loop', ['', '', 'x0'], ['y'], { name: 'walk', attrs: [attr.graph('body', body)] }),
        node('Neg', ['y'], ['z']),
      ],
      inputs: [value('x', FLOAT, size), value('limit', FLOAT, [])],
      outputs: [value('z', FLOAT, size)],
    },
    13,
  );
  return compile({ file: 'walk.onnx', bytes }).result;
}

describe('frames of branches and loops', () => {
  const holds = (outer: Bounds, inner: Bounds): boolean =>
    inner.x >= outer.x &&
    inner.y >= outer.y &&
    inner.x + inner.width <= outer.x + outer.width &&
    inner.y + inner.height <= outer.y + outer.height;

  for (const view of ['before', 'after'] as const)
    it(`hold what is in the body, ${view} fusion`, () => {
      const result = looping();
      const placed = draw(result, view);
      assert.deepEqual(
        placed.frames.map((f) => f.title),
        ['Loop walk: body', 'If w: then', 'If w: else'],
      );
      const [loop, then] = placed.frames;
      assert.ok(loop && then && holds(loop, then));
      const inside = result.graph.nodes.filter((n) => n.region === 'n1/body/3/then');
      for (const n of inside) {
        const leaf = placed.leaves.find((l) => l.leaf.node === n.id);
        const kernel = placed.kernels.find((k) => k.box.kernel.nodes.includes(n.id));
        const item = leaf ?? kernel;
        assert.ok(item && holds(then, item), n.op);
      }
      const svg = svgText([{ title: 'walk', placed }], makePalette(DARK_THEME));
      assert.match(svg, /Loop walk: body/);
    });

  it('are not there without control flow', () => {
    assert.deepEqual(draw(mlp(), 'after').frames, []);
  });
});

const printEdges = (placed: PlacedScene): string[] =>
  placed.edges.map(
    ({ edge }) =>
      `${edge.kind} ${edge.from} → ${edge.to}: ${edge.label}` +
      (edge.rejected === undefined ? '' : ` ✕ ${edge.rejected}`),
  );

describe('the scene', () => {
  it('after fusion: kernels as boxes, memory between them, free edges inside', () => {
    const placed = draw(mlp(), 'after');
    assert.deepEqual(
      placed.kernels.map(({ box }) => `${box.title} [${box.leaves.map((l) => l.title).join(' ')}]`),
      ['k0 · epilogue [matmul add relu]', 'k1 · single [layer_norm]'],
    );
    assert.deepEqual(printEdges(placed), [
      'free k0/n0 → k0/n1: B×1024',
      'free k0/n1 → k0/n2: B×1024',
      'leg t:v0 → k0/n0: ',
      'leg t:v1 → k0/n0: ',
      'leg t:v2 → k0/n1: ',
      'leg k0/n2 → k0: ',
      'memory t:v0 → k0: B×1024 f32 · 256 KiB',
      'memory t:v1 → k0: 1024×1024 f32 · 4.0 MiB',
      'memory t:v2 → k0: 1024 f32 · 4.0 KiB',
      'memory k0 → k1: B×1024 f32 · 256 KiB ✕ NEEDS_GLOBAL_SYNC',
      'memory k1 → o:0: B×1024 f32 · 256 KiB',
    ]);
  });

  it('before fusion: every op stands alone, marked with the kernel it will be in', () => {
    const placed = draw(mlp(), 'before');
    assert.equal(placed.kernels.length, 0);
    assert.deepEqual(
      placed.leaves.filter(({ leaf }) => leaf.node).map(({ leaf }) => [leaf.title, leaf.future]),
      [
        ['matmul', 'k0'],
        ['add', 'k0'],
        ['relu', 'k0'],
        ['layer_norm', 'k1'],
      ],
    );
    assert.ok(placed.edges.every(({ edge }) => edge.kind === 'memory' && !edge.rejected));
  });

  it('folded: boxes alone, and one edge per tensor', () => {
    const placed = draw(transformer(), 'after', { folded: true });
    assert.equal(placed.kernels.length, 7);
    assert.equal(placed.leaves.filter(({ leaf }) => leaf.node !== undefined).length, 0);
    // q, k and v are views on qkv inside the attention kernel: it is read once.
    assert.equal(placed.edges.filter(({ edge }) => edge.to === 'k2').length, 2);
  });

  it('without weights leaves inputs alone', () => {
    const placed = draw(transformer(), 'after', { weights: false });
    assert.deepEqual(
      placed.leaves.filter(({ leaf }) => leaf.id.startsWith('t:')).map(({ leaf }) => leaf.title),
      ['x', 'mask'],
    );
  });

  it('holds ops inside their kernel, and no two things upon each other', () => {
    for (const result of [mlp(), transformer(), odd(), deep(5)]) {
      const placed = draw(result, 'after');
      for (const { leaf, ...at } of placed.leaves) {
        const box = leaf.kernel === undefined ? undefined : placed.byId.get(leaf.kernel);
        if (!box) continue;
        assert.ok(at.x >= box.x && at.x + at.width <= box.x + box.width, leaf.id);
        assert.ok(at.y >= box.y && at.y + at.height <= box.y + box.height, leaf.id);
      }
      const solid = [...placed.leaves];
      solid.forEach((a, i) => {
        for (const b of solid.slice(i + 1))
          assert.ok(
            a.x + a.width <= b.x ||
              b.x + b.width <= a.x ||
              a.y + a.height <= b.y ||
              b.y + b.height <= a.y,
            `${a.id} lies upon ${b.id}`,
          );
      });
    }
  });

  it('survives empty graphs, empty and endless names, doubled operands', () => {
    assert.equal(draw(empty(), 'after').byId.size, 0);
    const placed = draw(odd(), 'after');
    const doubled = placed.edges.find(({ edge }) => edge.count === 2);
    assert.match(doubled?.edge.label ?? '', /2 times/);
    for (const { leaf } of placed.leaves) {
      assert.notEqual(leaf.title, '');
      assert.ok(leaf.width < 260, `${leaf.width}`);
    }
    const long = placed.leaves.find(({ leaf }) => leaf.tooltip.length > 500);
    assert.match(long?.leaf.subtitle ?? '', /^n+…$/);
  });

  it('says for a screen reader what the picture shows', () => {
    const result = transformer();
    const index = new GraphIndex(result);
    const placed = draw(result, 'after');
    const text = (id: string): string => {
      const item = placed.byId.get(id);
      assert.ok(item, id);
      return say(item, index, new Times(profileOf(result), result));
    };
    assert.match(
      text('k2'),
      /^Kernel k2, attention: .*unfolded; 7 ops; reads .*; measured .*predicted/,
    );
    assert.match(text('k2/n7'), /^softmax p; in kernel k2; gives f32 B×16×128×128$/);
    assert.match(text('k0>k1:v11'), /not fused, NEEDS_GLOBAL_SYNC: matmul reads/);
  });
});

describe('level of detail', () => {
  const everything = { x: -1e9, y: -1e9, width: 2e9, height: 2e9 };

  it('never puts more on the page than the budget, whatever the graph', function () {
    this.timeout(60_000);
    for (const blocks of [2, 40, 150]) {
      for (const view of ['before', 'after'] as const) {
        const placed = draw(deep(blocks), view, { folded: blocks > 25 });
        for (const zoom of [0.01, 0.3, 0.5, 1]) {
          const seen = visibleItems(placed, everything, zoom);
          if (seen.detail === 'bulk') continue;
          const context = { detail: seen.detail, heat: true, totalUs: 1 };
          let elements = 0;
          const add = (marks: readonly unknown[]): void => {
            elements += 2 + marks.length;
          };
          for (const item of seen.kernels) add(kernelMarks(item, context));
          for (const item of seen.leaves) add(leafMarks(item, context));
          for (const item of seen.edges) {
            add(edgeMarks(item, context));
            const marks = overlayMarks(item, { ...context, label: seen.labels.has(item.id) });
            if (marks.length > 0) add(marks);
          }
          assert.ok(elements < ELEMENT_BUDGET * 1.8, `${elements} at ${zoom}`);
        }
      }
    }
  });

  it('shows names near, one word far, and only what is in view', () => {
    const placed = draw(transformer(), 'after');
    assert.equal(visibleItems(placed, everything, 1).detail, 'near');
    assert.equal(visibleItems(placed, everything, 0.2).detail, 'far');
    assert.equal(visibleItems(placed, everything, 0.2).labels.size, 0);
    const kernel = placed.kernels[3];
    assert.ok(kernel);
    const seen = visibleItems(placed, { ...kernel, width: 10, height: 10 }, 1);
    assert.deepEqual(
      seen.kernels.map(({ id }) => id),
      [kernel.id],
    );
  });

  it('labels do not lie upon each other', () => {
    const placed = draw(transformer(), 'after');
    const { labels } = visibleItems(placed, everything, 1);
    const boxes = placed.edges
      .filter(({ id }) => labels.has(id))
      .map(({ edge, labelAt: [x, y] }) => ({ x, y, w: textWidth(edge.label, 10.5) }));
    boxes.forEach((a, i) => {
      for (const b of boxes.slice(i + 1))
        assert.ok(Math.abs(a.y - b.y) > 13 || Math.abs(a.x - b.x) > (a.w + b.w) / 2);
    });
    assert.ok(labels.size > 15);
  });

  it('finds what is under the pointer: an op before its kernel, an edge nearby', () => {
    const placed = draw(mlp(), 'after');
    const op = placed.byId.get('k0/n1');
    const kernel = placed.byId.get('k0');
    assert.ok(op && kernel);
    assert.equal(hit(placed, op.x + 3, op.y + 3, 5)?.id, 'k0/n1');
    assert.equal(hit(placed, kernel.x + 3, kernel.y + 3, 1)?.id, 'k0');
    const edge = placed.byId.get('k0>k1:v5');
    assert.ok(edge?.kind === 'edge');
    const [x, y] = edge.markAt;
    assert.equal(hit(placed, x + 2, y, 6)?.id, edge.id);
    assert.equal(hit(placed, -500, -500, 6), undefined);
  });
});

describe('words and numbers', () => {
  it('are short', () => {
    assert.equal(formatBytes(0), '0 B');
    assert.equal(formatBytes(1536), '1.5 KiB');
    assert.equal(formatBytes(12 * 1024 * 1024), '12.0 MiB');
    assert.equal(formatUs(0.84), '0.8 µs');
    assert.equal(formatUs(1250), '1.25 ms');
    assert.equal(formatShape([]), 'scalar');
    assert.equal(formatShape(['B', 1024]), 'B×1024');
  });

  it('fit their place', () => {
    const name = 'model.layers.31.self_attn.q_proj.weight'.repeat(20);
    const cut = fitText(name, 120, 12);
    assert.ok(cut.endsWith('…') && textWidth(cut, 12) <= 121, cut);
    assert.equal(fitText('relu', 120, 12), 'relu');
  });
});

describe('colours', () => {
  const high: ThemeColours = {
    ...DARK_THEME,
    kind: 'hc-dark',
    background: '#000000',
    foreground: '#ffffff',
    contrast: '#6fc3df',
  };

  it('stand out on the background of every theme', () => {
    for (const theme of [DARK_THEME, LIGHT_THEME, high]) {
      const palette = makePalette(theme);
      assert.ok(contrastRatio(palette.foreground, palette.background) >= 7);
      assert.ok(contrastRatio(palette.muted, palette.background) >= 4.5);
      for (const { accent, band } of Object.values(palette.patterns)) {
        assert.ok(contrastRatio(accent, palette.background) >= 3);
        assert.ok(contrastRatio(palette.foreground, band) >= 4.5);
      }
    }
  });
});

describe('the exported SVG', () => {
  it('stands alone: colours spelt out, text escaped', () => {
    const svg = svgText(
      [{ title: 'odd & <even>', placed: draw(odd(), 'after') }],
      makePalette(LIGHT_THEME),
    );
    assert.ok(!svg.includes('var(') && !svg.includes('<style') && !svg.includes('class='));
    assert.ok(!svg.includes('<b>'));
    assert.match(svg, /odd &#38; &#60;even&#62;/);
    assert.match(svg, /^<svg [^>]*xmlns=/);
    assert.ok(!svg.includes('NaN') && !svg.includes('undefined'));
  });

  it('is the same each time', () => {
    const make = (): string =>
      svgText([{ title: 't', placed: draw(transformer(), 'after') }], makePalette(DARK_THEME));
    assert.equal(make(), make());
  });
});

describe('shapes with names', () => {
  /** Exporters write names that no label has room for. */
  const result = (): CompileResult => {
    const dim = 'a_dynamic_dimension_that_an_exporter_named';
    const text = `dim ${dim} = 12\ndim B = 3\ninput x: f32[B, ${dim}]\ny = relu(x)\nz = y.sum(-1)\noutput z\n`;
    return compile({ file: 'names.fuse', bytes: new TextEncoder().encode(text) }).result;
  };

  it('are labelled with their sizes where there is no room for the names', () => {
    const index = new GraphIndex(result());
    const x = [...index.tensors.values()].find((t) => t.name === 'x');
    const z = [...index.tensors.values()].find((t) => t.name === 'z');
    assert.ok(x && z);
    assert.equal(fitShape(x, 110, 10.5), '3×12');
    assert.equal(fitShape(z, 110, 10.5), 'B');
    assert.equal(shapeText(z), 'B (now 3)');
    const labels = draw(result(), 'before').edges.map(({ edge }) => edge.label);
    assert.ok(
      labels.some((label) => label.startsWith('3×12 f32')),
      labels.join(' | '),
    );
    assert.ok(search(index, '3x12').some((h) => h.kind === 'tensor'));
  });

  it('are told apart where a dim is an expression', () => {
    assert.equal(formatShape(['N', '(H + 1) // 2', 8]), 'N×((H + 1) // 2)×8');
    assert.equal(formatShape(['(H + 1) // 2']), '(H + 1) // 2');
  });
});
