/**
 * Features of data, as classic machine learning takes them: counts of n-grams, thresholds, scalings,
 * look-ups of labels. The ops of the domain ai.onnx.ml are named with it.
 */
import { decodeConst } from '../graph/constData';
import { type DType, isFloat } from '../graph/dtype';
import type { ConstTensor } from '../graph/graph';
import { binary, cast, constant, type Expr, indexValue, select, when } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import type { LowerContext, LTensor, OpDef } from './op';
import { gather } from './gather';
import { at, clampedIndex, equals, minus, times } from './products';
import { element, elementwise, like, reshapeView } from './shared';

// ---------------------------------------------------------------------------------------------
// TfIdfVectorizer

/** The n-grams of one length: their items one after the other, and the result's place for each. */
interface Grams {
  readonly length: number;
  readonly items: readonly number[];
  readonly places: readonly number[];
}

/**
 * How often each n-gram of a pool occurs in each row, its items up to `max_skip_count` places apart
 * (the same gap between all), as it is, as 0 or 1, or weighted.
 */
function lowerTfIdf(ctx: LowerContext): LTensor {
  if (ctx.has('pool_strings')) ctx.unsupported('strings have no place on a GPU');
  const x = ctx.input(0);
  const mode = ctx.str('mode');
  if (mode !== 'TF' && mode !== 'IDF' && mode !== 'TFIDF')
    ctx.fail('BAD_ATTRIBUTE', `mode '${mode}' is neither TF, IDF nor TFIDF`);
  const rank = x.shape.length;
  if (rank !== 1 && rank !== 2)
    ctx.fail('SHAPE_MISMATCH', `the operand must be [C] or [N, C], not ${I.printShape(x.shape)}`);
  const indexes = ctx.ints('ngram_indexes');
  const width = indexes.reduce((m, i) => Math.max(m, i + 1), 0);
  const grams = gramsOf(ctx, indexes);
  const lead = x.shape.slice(0, rank - 1);
  const length = at(x.shape, rank - 1);
  const gaps = ctx.int('max_skip_count') + 1;

  const counts = grams.map(({ length: n, items }) => {
    const pool = ctx.constant({ dtype: x.dtype, shape: [items.length / n, n] }, items);
    // A single item has no gaps: it counts once.
    const over = [n === 1 ? 1 : gaps, length];
    return ctx.reduce(
      { shape: [...lead, items.length / n], over, monoid: 'sum', dtype: 'f32' },
      (index, r) => {
        const row = index.slice(0, rank - 1);
        const step = I.add(at(r, 0), 1);
        const item = (j: number): IndexExpr => I.add(at(r, 1), I.mul(step, j));
        let same: Expr | undefined;
        for (let j = 0; j < n; j++) {
          const eq = equals(x.at([...row, item(j)]), pool.at([at(index, rank - 1), I.num(j)]));
          same = same ? binary('and', same, eq) : eq;
        }
        const found = cast(same ?? constant(0, 'bool'), 'f32');
        return when([{ index: item(n - 1), lo: I.num(0), hi: length }], found, like(found, 0));
      },
    );
  });
  const weights = weightsOf(ctx, indexes, width);
  return ctx.pointwise([...lead, width], 'f32', (index) => {
    const o = at(index, rank - 1);
    const row = index.slice(0, rank - 1);
    let count: Expr = constant(0, 'f32');
    grams.forEach(({ places }, g) => {
      const number = places.length;
      const inverse = Array.from({ length: width }, (_, p) => places.indexOf(p));
      const table = ctx.constant({ dtype: 'i32', shape: [width] }, inverse);
      const k = table.at([o]);
      const own = at(counts, g).at([...row, clampedIndex(k, I.num(number))]);
      count = select(binary('lt', k, like(k, 0)), count, own);
    });
    if (mode === 'TF') return count;
    const weight = weights ? weights.at([o]) : constant(1, 'f32');
    return mode === 'TFIDF'
      ? times(count, weight)
      : select(binary('gt', count, like(count, 0)), weight, like(weight, 0));
  });
}

/** The pool by length, those that `min_gram_length` and `max_gram_length` leave. */
function gramsOf(ctx: LowerContext, indexes: readonly number[]): Grams[] {
  const pool = ctx.ints('pool_int64s');
  const starts = ctx.ints('ngram_counts');
  const [shortest, longest] = [ctx.int('min_gram_length'), ctx.int('max_gram_length')];
  const out: Grams[] = [];
  let first = 0;
  starts.forEach((start, i) => {
    const length = i + 1;
    const end = starts[i + 1] ?? pool.length;
    const number = (end - start) / length;
    if (!Number.isInteger(number) || number < 0 || end > pool.length)
      ctx.fail(
        'BAD_ATTRIBUTE',
        `ngram_counts leaves ${end - start} items for n-grams of ${length}`,
      );
    const places = indexes.slice(first, first + number);
    if (places.length !== number)
      ctx.fail(
        'BAD_ATTRIBUTE',
        `ngram_indexes has ${indexes.length} elements, too few for the pool`,
      );
    first += number;
    if (number > 0 && length >= shortest && length <= longest)
      out.push({ length, items: pool.slice(start, end), places });
  });
  return out;
}

/** Weights come by n-gram; the result wants them by place. */
function weightsOf(
  ctx: LowerContext,
  indexes: readonly number[],
  width: number,
): LTensor | undefined {
  const list = ctx.node.attrs['weights'];
  if (!Array.isArray(list)) return undefined;
  const weights: readonly unknown[] = list;
  const byPlace = new Array<number>(width).fill(1);
  indexes.forEach((p, i) => {
    const w = weights[i];
    if (typeof w === 'number') byPlace[p] = w;
  });
  return ctx.constant({ dtype: 'f32', shape: [width] }, byPlace);
}

// ---------------------------------------------------------------------------------------------
// ai.onnx.ml

/** Picked along the last axis. */
function lowerArrayFeatureExtractor(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  if (x.shape.length === 0) ctx.fail('SHAPE_MISMATCH', 'a number has no features');
  const data = x.shape.length === 1 ? reshapeView(ctx, x, [1, ...x.shape]) : x;
  const y = ctx.input(1);
  const flat = reshapeView(ctx, y, [I.product(y.shape)]);
  return gather(ctx, data, flat, data.shape.length - 1);
}

function lowerScaler(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const last = x.shape.length - 1;
  const row = (name: string, fallback: number): ((index: readonly IndexExpr[]) => Expr) => {
    const list = ctx.ints(name, []);
    const [only = fallback] = list;
    if (list.length <= 1) return () => constant(only, 'f32');
    const t = ctx.constant({ dtype: 'f32', shape: [list.length] }, list);
    return (index) => t.at([at(index, last)]);
  };
  const offset = row('offset', 0);
  const scale = row('scale', 1);
  return ctx.pointwise(x.shape, 'f32', (index) =>
    times(minus(cast(x.at(index), 'f32'), offset(index)), scale(index)),
  );
}

/** 1 above the threshold, 0 elsewhere. */
function lowerBinarizer(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const threshold = ctx.float('threshold', 0);
  return elementwise(ctx, [x], x.dtype, ([e]) => {
    const v = element(e);
    const limit = isFloat(v.dtype) ? threshold : Math.floor(threshold);
    return cast(binary('gt', v, like(v, limit)), x.dtype);
  });
}

/** The contents of an attribute's tensor. */
function knownNumbers(t: ConstTensor): readonly number[] | undefined {
  const count = t.type.shape.reduce((n, d) => n * (I.constOf(d) ?? NaN), 1);
  return decodeConst(t.data, t.type.dtype, count);
}

interface Table {
  readonly dtype: DType;
  readonly values: readonly number[];
}

/** A list of an encoder, in whichever attribute the file has it. */
function tableOf(ctx: LowerContext, stem: 'keys' | 'values'): Table {
  if (ctx.has(`${stem}_strings`)) ctx.unsupported('strings have no place on a GPU');
  if (ctx.has(`${stem}_int64s`)) return { dtype: 'i64', values: ctx.ints(`${stem}_int64s`) };
  if (ctx.has(`${stem}_floats`)) return { dtype: 'f32', values: ctx.ints(`${stem}_floats`) };
  const t = ctx.tensorAttr(`${stem}_tensor`);
  const values = t && knownNumbers(t);
  if (!t || !values) ctx.unsupported(`its ${stem} are in no form that is known here`);
  return { dtype: t.type.dtype, values };
}

/** Each element replaced by the value that its key has, or by a default. */
function lowerLabelEncoder(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const keys = tableOf(ctx, 'keys');
  const values = tableOf(ctx, 'values');
  if (keys.values.length !== values.values.length)
    ctx.fail(
      'BAD_ATTRIBUTE',
      `there are ${keys.values.length} keys, but ${values.values.length} values`,
    );
  const given = ctx.tensorAttr('default_tensor');
  const fallback =
    (given && knownNumbers(given)?.[0]) ??
    (values.dtype === 'f32' ? ctx.float('default_float', 0) : ctx.int('default_int64', -1));
  const count = keys.values.length;
  if (count === 0)
    return elementwise(ctx, [x], values.dtype, () => constant(fallback, values.dtype));
  const key = ctx.constant({ dtype: x.dtype, shape: [count] }, keys.values);
  const value = ctx.constant({ dtype: values.dtype, shape: [count] }, values.values);
  const place = ctx.reduce(
    { shape: x.shape, over: [count], monoid: 'max', dtype: 'i32' },
    (index, r) => {
      const k = at(r, 0);
      return select(equals(x.at(index), key.at([k])), indexValue(k, 'i32'), constant(-1, 'i32'));
    },
  );
  return ctx.pointwise(x.shape, values.dtype, (index) => {
    const p = place.at(index);
    const found = value.at([clampedIndex(p, I.num(count))]);
    return select(binary('lt', p, like(p, 0)), constant(fallback, values.dtype), found);
  });
}

export const extractionOps: readonly OpDef[] = [
  { name: 'tf_idf_vectorizer', onnx: ['TfIdfVectorizer'], lower: lowerTfIdf },
  {
    name: 'array_feature_extractor',
    onnx: ['ai.onnx.ml:ArrayFeatureExtractor'],
    lower: lowerArrayFeatureExtractor,
  },
  { name: 'scaler', onnx: ['ai.onnx.ml:Scaler'], lower: lowerScaler },
  { name: 'binarizer', onnx: ['ai.onnx.ml:Binarizer'], lower: lowerBinarizer },
  { name: 'label_encoder', onnx: ['ai.onnx.ml:LabelEncoder'], lower: lowerLabelEncoder },
];
