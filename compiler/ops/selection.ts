/**
 * Ops whose result is as large as the contents of their operands say: positions that aren't zero,
 * distinct elements, boxes that survive.
 *
 * A kernel writes results of a size that is known before it runs. So these work where their operands'
 * contents are known when compiling, and their results are constants then; elsewhere they are
 * unsupported, by name.
 */
import * as I from '../ir/indexExpr';
import type { LowerContext, LTensor, OpDef } from './op';
import { at } from './products';

const DATA_SHAPE = "the size of its result depends on its operand's contents";

interface Contents {
  readonly shape: readonly number[];
  readonly values: readonly number[];
}

/** The operand's contents as numbers; unsupported where they aren't known. */
function contentsOf(ctx: LowerContext, operand: number): Contents {
  const x = ctx.input(operand);
  const shape = x.shape.map((d) => I.constOf(d) ?? ctx.unsupported(DATA_SHAPE));
  const { known } = x;
  if (!known) ctx.unsupported(DATA_SHAPE);
  const values = known.map((k) =>
    typeof k === 'number' ? k : (I.constOf(k) ?? ctx.unsupported(DATA_SHAPE)),
  );
  return { shape, values };
}

/** The positions that are not 0, one row a dim. */
function lowerNonZero(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const { known } = x;
  const sizes = x.shape.map((d) => I.constOf(d));
  if (!known || sizes.some((s) => s === undefined)) ctx.unsupported(DATA_SHAPE);
  const found: number[] = [];
  known.forEach((k, i) => {
    // A size that isn't known is at least 1.
    const n = typeof k === 'number' ? k : (I.constOf(k) ?? 1);
    if (n !== 0) found.push(i);
  });
  const rank = x.shape.length;
  const rows = Array.from({ length: rank }, (_, d) =>
    found.map((lin) => at(I.delinearise(I.num(lin), x.shape), d).c),
  );
  return ctx.constant({ dtype: 'i64', shape: [rank, found.length] }, rows.flat());
}

/** Distinct elements, or distinct slices along an axis; where each first stands, and how often. */
function lowerUnique(ctx: LowerContext): LTensor[] {
  const x = ctx.input(0);
  const { shape, values } = contentsOf(ctx, 0);
  const axis = ctx.has('axis') ? ctx.axis(ctx.int('axis'), shape.length) : undefined;
  const before = axis === undefined ? 1 : size(shape.slice(0, axis));
  const along = axis === undefined ? values.length : at(shape, axis);
  const after = axis === undefined ? 1 : size(shape.slice(axis + 1));
  const slice = (i: number): number[] => {
    const out: number[] = [];
    for (let b = 0; b < before; b++)
      for (let a = 0; a < after; a++) out.push(at(values, (b * along + i) * after + a));
    return out;
  };
  const groups = new Map<
    string,
    { readonly slice: number[]; readonly first: number; count: number }
  >();
  const keyOf: string[] = [];
  for (let i = 0; i < along; i++) {
    const s = slice(i);
    // -0 is 0; all that isn't a number is one value.
    const key = s.map((v) => String(v === 0 ? 0 : v)).join();
    keyOf.push(key);
    const g = groups.get(key);
    if (g) g.count++;
    else groups.set(key, { slice: s, first: i, count: 1 });
  }
  const entries = [...groups];
  if (ctx.bool('sorted', true)) entries.sort(([, a], [, b]) => lexical(a.slice, b.slice));
  const place = new Map(entries.map(([key], i) => [key, i]));
  const n = entries.length;
  const y: number[] = [];
  for (let b = 0; b < before; b++)
    for (const [, g] of entries) for (let a = 0; a < after; a++) y.push(at(g.slice, b * after + a));
  const yShape = axis === undefined ? [n] : shape.map((d, i) => (i === axis ? n : d));
  const integers = (list: readonly number[]): LTensor =>
    ctx.constant({ dtype: 'i64', shape: [list.length] }, list);
  return [
    ctx.constant({ dtype: x.dtype, shape: yShape }, y),
    integers(entries.map(([, g]) => g.first)),
    integers(keyOf.map((k) => place.get(k) ?? 0)),
    integers(entries.map(([, g]) => g.count)),
  ];
}

function size(shape: readonly number[]): number {
  return shape.reduce((n, d) => n * d, 1);
}

/** Ascending, what isn't a number last. */
function lexical(a: readonly number[], b: readonly number[]): number {
  for (let i = 0; i < a.length; i++) {
    const x = at(a, i);
    const y = at(b, i);
    if (x === y) continue;
    if (Number.isNaN(x)) {
      if (Number.isNaN(y)) continue;
      return 1;
    }
    return Number.isNaN(y) || x < y ? -1 : 1;
  }
  return 0;
}

interface Box {
  readonly top: number;
  readonly left: number;
  readonly bottom: number;
  readonly right: number;
}

/** Per batch and class: boxes by descending score, without those that overlap one that was taken. */
function lowerNonMaxSuppression(ctx: LowerContext): LTensor {
  const boxes = contentsOf(ctx, 0);
  const scores = contentsOf(ctx, 1);
  const [batch = 0, count = 0, four] = boxes.shape;
  const [scoreBatch, classes = 0, scoreCount] = scores.shape;
  if (boxes.shape.length !== 3 || scores.shape.length !== 3 || four !== 4)
    ctx.fail(
      'SHAPE_MISMATCH',
      'boxes must be [batch, boxes, 4] and scores [batch, classes, boxes]',
    );
  if (scoreBatch !== batch || scoreCount !== count)
    ctx.fail('SHAPE_MISMATCH', 'boxes and scores must have the same batch and number of boxes');
  const number = (operand: number): number | undefined =>
    operand < ctx.arity && ctx.optional(operand) ? ctx.numbers(operand)[0] : undefined;
  const most = number(2) ?? 0;
  const overlap = number(3) ?? 0;
  const least = number(4);
  const centred = ctx.int('center_point_box', 0) === 1;
  const boxAt = (b: number, i: number): Box => {
    const [p, q, r, s] = [0, 1, 2, 3].map((k) => at(boxes.values, (b * count + i) * 4 + k));
    const [a = 0, c = 0, d = 0, e = 0] = [p, q, r, s];
    if (centred) return { left: a - d / 2, right: a + d / 2, top: c - e / 2, bottom: c + e / 2 };
    return {
      top: Math.min(a, d),
      bottom: Math.max(a, d),
      left: Math.min(c, e),
      right: Math.max(c, e),
    };
  };
  const selected: number[] = [];
  for (let b = 0; b < batch; b++) {
    for (let c = 0; c < classes; c++) {
      const scoreOf = (i: number): number => at(scores.values, (b * classes + c) * count + i);
      const order = Array.from({ length: count }, (_, i) => i)
        .filter((i) => least === undefined || scoreOf(i) > least)
        .sort((i, j) => scoreOf(j) - scoreOf(i) || i - j);
      const taken: Box[] = [];
      for (const i of order) {
        if (taken.length >= most) break;
        const box = boxAt(b, i);
        if (taken.some((t) => shareOf(box, t) > overlap)) continue;
        taken.push(box);
        selected.push(b, c, i);
      }
    }
  }
  return ctx.constant({ dtype: 'i64', shape: [selected.length / 3, 3] }, selected);
}

/** Intersection over union. */
function shareOf(a: Box, b: Box): number {
  const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
  if (height <= 0 || width <= 0) return 0;
  const area = (x: Box): number => (x.bottom - x.top) * (x.right - x.left);
  const common = height * width;
  return common / (area(a) + area(b) - common);
}

export const selectionOps: readonly OpDef[] = [
  { name: 'non_zero', onnx: ['NonZero'], lower: lowerNonZero },
  { name: 'unique', onnx: ['Unique'], lower: lowerUnique },
  { name: 'non_max_suppression', onnx: ['NonMaxSuppression'], lower: lowerNonMaxSuppression },
];
