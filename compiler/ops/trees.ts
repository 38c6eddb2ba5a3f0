/**
 * Ensembles of decision trees: TreeEnsemble, TreeEnsembleRegressor, TreeEnsembleClassifier.
 *
 * Vocabulary
 *  - *place*: a node's number among all nodes of all trees. A leaf's two successors are the leaf.
 *  - *step*: from place to place, by one comparison. After as many steps as the deepest tree is deep,
 *    every walk has come to its leaf; so a walk is straight-line code, all steps are one kernel, and
 *    the scores are a sum over the trees.
 */
import { decodeConst } from '../graph/constData';
import { binary, cast, constant, type Expr, select, unary } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { LowerContext, LTensor, OpDef } from './op';
import { at, clampedIndex, either, over, plus } from './products';
import {
  classified,
  featuresOf,
  floatsOf,
  labelsOf,
  postTransform,
  transformed,
  twoClasses,
} from './scores';

const MODES = ['LEQ', 'LT', 'GTE', 'GT', 'EQ', 'NEQ'] as const;
type Mode = (typeof MODES)[number];
const COMPARISON = { LEQ: 'le', LT: 'lt', GTE: 'ge', GT: 'gt', EQ: 'eq', NEQ: 'ne' } as const;

interface Place {
  feature: number;
  threshold: number;
  /** undefined: a leaf. */
  mode: Mode | undefined;
  yes: number;
  no: number;
  /** Where a missing value (NaN) goes: to `yes`. */
  missing: boolean;
}

interface Forest {
  readonly places: readonly Place[];
  readonly roots: readonly number[];
  /** What each leaf adds to each target. */
  readonly weights: readonly {
    readonly place: number;
    readonly target: number;
    readonly weight: number;
  }[];
  readonly targets: number;
}

function tensorNumbers(ctx: LowerContext, name: string): readonly number[] | undefined {
  const t = ctx.tensorAttr(name);
  if (!t) return undefined;
  const count = t.type.shape.reduce((n, d) => n * (I.constOf(d) ?? NaN), 1);
  return decodeConst(t.data, t.type.dtype, count);
}

function texts(ctx: LowerContext, name: string): readonly string[] {
  const v = ctx.node.attrs[name];
  return Array.isArray(v) ? v.map(String) : [];
}

/** The form of versions 1 to 3: nodes by tree and number, weights beside them under `prefix`. */
function olderForest(ctx: LowerContext, prefix: 'target' | 'class', targets: number): Forest {
  const trees = ctx.ints('nodes_treeids');
  const ids = ctx.ints('nodes_nodeids');
  const [yes, no] = [ctx.ints('nodes_truenodeids'), ctx.ints('nodes_falsenodeids')];
  const features = ctx.ints('nodes_featureids');
  const values = tensorNumbers(ctx, 'nodes_values_as_tensor') ?? ctx.ints('nodes_values');
  const modes = texts(ctx, 'nodes_modes');
  const missing = ctx.ints('nodes_missing_value_tracks_true', []);
  const key = (tree: number, id: number): string => `${tree}/${id}`;
  const placeOf = new Map(trees.map((t, i) => [key(t, at(ids, i)), i] as const));
  const successor = (tree: number, id: number): number =>
    placeOf.get(key(tree, id)) ??
    ctx.fail('BAD_ATTRIBUTE', `tree ${tree} has no node ${id}, which another leads to`);
  const places = trees.map((tree, i): Place => {
    const mode = MODES.find((m) => modes[i] === `BRANCH_${m}`);
    if (mode === undefined) {
      if (modes[i] !== 'LEAF') ctx.fail('BAD_ATTRIBUTE', `nodes_modes holds ${String(modes[i])}`);
      return { feature: 0, threshold: 0, mode, yes: i, no: i, missing: false };
    }
    return {
      feature: at(features, i),
      threshold: at(values, i),
      mode,
      yes: successor(tree, at(yes, i)),
      no: successor(tree, at(no, i)),
      missing: missing[i] === 1,
    };
  });
  // A tree's root is the node that no other leads to: the first of it, in every file that we know.
  const roots = [...new Set(trees)].map((tree) => trees.indexOf(tree));
  const weights =
    tensorNumbers(ctx, `${prefix}_weights_as_tensor`) ?? ctx.ints(`${prefix}_weights`);
  const [leafTrees, leafIds, leafTargets] = ['treeids', 'nodeids', 'ids'].map((n) =>
    ctx.ints(`${prefix}_${n}`),
  ) as [readonly number[], readonly number[], readonly number[]];
  return {
    places,
    roots,
    targets,
    weights: weights.map((weight, i) => ({
      place: successor(at(leafTrees, i), at(leafIds, i)),
      target: at(leafTargets, i),
      weight,
    })),
  };
}

/** The form of version 5: leaves apart from nodes, sets of members. */
function newerForest(ctx: LowerContext): Forest {
  const splits =
    tensorNumbers(ctx, 'nodes_splits') ?? ctx.fail('BAD_ATTRIBUTE', 'nodes_splits is missing');
  const modes =
    tensorNumbers(ctx, 'nodes_modes') ?? ctx.fail('BAD_ATTRIBUTE', 'nodes_modes is missing');
  const weights =
    tensorNumbers(ctx, 'leaf_weights') ?? ctx.fail('BAD_ATTRIBUTE', 'leaf_weights is missing');
  const members = [...(tensorNumbers(ctx, 'membership_values') ?? [])];
  const [features, yes, yesLeaf, no, noLeaf] = [
    'nodes_featureids',
    'nodes_truenodeids',
    'nodes_trueleafs',
    'nodes_falsenodeids',
    'nodes_falseleafs',
  ].map((n) => ctx.ints(n)) as [
    readonly number[],
    readonly number[],
    readonly number[],
    readonly number[],
    readonly number[],
  ];
  const missing = ctx.ints('nodes_missing_value_tracks_true', []);
  const count = splits.length;
  const leaf = (i: number): number => count + i;
  const places: Place[] = [];
  const extra: Place[] = [];
  const firstExtra = count + weights.length;
  for (let i = 0; i < count; i++) {
    const toYes = at(yesLeaf, i) === 1 ? leaf(at(yes, i)) : at(yes, i);
    const toNo = at(noLeaf, i) === 1 ? leaf(at(no, i)) : at(no, i);
    const common = { feature: at(features, i), yes: toYes, missing: missing[i] === 1 };
    const mode = at(modes, i);
    if (mode < MODES.length) {
      places.push({ ...common, threshold: at(splits, i), mode: at(MODES, mode), no: toNo });
      continue;
    }
    // One of a set: a chain of comparisons, up to the NaN that ends the set.
    const end = members.findIndex((m) => Number.isNaN(m));
    const set = members
      .splice(0, end < 0 ? members.length : end + 1)
      .filter((m) => !Number.isNaN(m));
    const chain = set.map((threshold): Place => ({ ...common, threshold, mode: 'EQ', no: toNo }));
    chain.forEach((p, k) => {
      if (k < chain.length - 1) p.no = firstExtra + extra.length + k;
    });
    places.push(chain[0] ?? { ...common, threshold: 0, mode: 'EQ', yes: toNo, no: toNo });
    extra.push(...chain.slice(1));
  }
  for (let i = 0; i < weights.length; i++) {
    const place = leaf(i);
    places.push({
      feature: 0,
      threshold: 0,
      mode: undefined,
      yes: place,
      no: place,
      missing: false,
    });
  }
  const targets = ctx.ints('leaf_targetids');
  return {
    places: [...places, ...extra],
    roots: ctx.ints('tree_roots'),
    targets: ctx.int('n_targets', 1),
    weights: weights.map((weight, i) => ({ place: leaf(i), target: at(targets, i), weight })),
  };
}

/** The longest way down; a file whose nodes lead back to themselves is faulty. */
function depthOf(ctx: LowerContext, f: Forest): number {
  let level = [...new Set(f.roots)];
  for (let depth = 0; depth <= f.places.length; depth++) {
    const next = new Set<number>();
    for (const i of level) {
      const p = f.places[i] ?? ctx.fail('BAD_ATTRIBUTE', `there is no node ${i}`);
      if (p.mode !== undefined) next.add(p.yes).add(p.no);
    }
    if (next.size === 0) return depth;
    level = [...next];
  }
  return ctx.fail('BAD_ATTRIBUTE', 'the nodes of a tree lead back to themselves');
}

/** The leaf that each row comes to in each tree: [N, trees]. */
function leavesOf(ctx: LowerContext, x: LTensor, f: Forest): LTensor {
  const { places, roots } = f;
  const n = I.num(places.length);
  const features = at(x.shape, 1);
  const table = ctx.constant(
    { dtype: 'i32', shape: [places.length, 3] },
    places.flatMap((p) => [p.feature, p.yes, p.no]),
  );
  const thresholds = ctx.constant(
    { dtype: x.dtype === 'f64' ? 'f64' : 'f32', shape: [places.length] },
    places.map((p) => p.threshold),
  );
  const used = [...new Set(places.flatMap((p) => p.mode ?? []))];
  const modes =
    used.length < 2
      ? undefined
      : ctx.constant(
          { dtype: 'i32', shape: [places.length] },
          places.map((p) => (p.mode === undefined ? 0 : used.indexOf(p.mode))),
        );
  const missing = places.some((p) => p.missing)
    ? ctx.constant(
        { dtype: 'bool', shape: [places.length] },
        places.map((p) => (p.missing ? 1 : 0)),
      )
    : undefined;
  const start = ctx.constant({ dtype: 'i32', shape: [roots.length] }, roots);
  let place: LTensor = ctx.view([at(x.shape, 0), roots.length], start, (index) => [at(index, 1)]);
  const depth = depthOf(ctx, f);
  for (let step = 0; step < depth; step++) {
    const before = place;
    place = ctx.pointwise(before.shape, 'i32', (index) => {
      const p = clampedIndex(before.at(index), n);
      const feature = clampedIndex(table.at([p, I.num(0)]), features);
      const v = cast(x.at([at(index, 0), feature]), thresholds.dtype);
      const t = thresholds.at([p]);
      const compared = used.map((m) => binary(COMPARISON[m], v, t));
      let holds: Expr = compared[0] ?? constant(0, 'bool');
      if (modes)
        for (let m = 1; m < compared.length; m++)
          holds = select(binary('eq', modes.at([p]), constant(m, 'i32')), at(compared, m), holds);
      if (missing) holds = either(holds, binary('and', unary('isnan', v), missing.at([p])));
      return select(holds, table.at([p, I.num(1)]), table.at([p, I.num(2)]));
    });
  }
  return place;
}

type Aggregate = 'SUM' | 'AVERAGE' | 'MIN' | 'MAX';

/** The scores of each row for each target: [N, targets]. */
function scoresOf(ctx: LowerContext, x: LTensor, f: Forest, how: Aggregate): LTensor {
  const leaves = leavesOf(ctx, x, f);
  const [count, trees] = [f.places.length, f.roots.length];
  const none = how === 'MIN' ? Infinity : how === 'MAX' ? -Infinity : 0;
  const dense = new Array<number>(count * f.targets).fill(none);
  for (const { place, target, weight } of f.weights) {
    const k = place * f.targets + target;
    const old = dense[k] ?? none;
    dense[k] = how === 'MIN' || how === 'MAX' ? weight : old + weight;
  }
  const weights = ctx.constant({ dtype: 'f32', shape: [count, f.targets] }, dense);
  const base = floatsOf(ctx, 'base_values');
  const bases =
    base.length === 0 ? undefined : ctx.constant({ dtype: 'f32', shape: [base.length] }, base);
  const monoid = how === 'MIN' ? 'min' : how === 'MAX' ? 'max' : 'sum';
  const total = ctx.reduce(
    { shape: [at(x.shape, 0), f.targets], over: [trees], monoid, dtype: 'f32' },
    (index, r) => {
      const p = clampedIndex(leaves.at([at(index, 0), at(r, 0)]), I.num(count));
      return weights.at([p, at(index, 1)]);
    },
  );
  if (how !== 'AVERAGE' && !bases) return total;
  return ctx.pointwise(total.shape, 'f32', (index) => {
    const s = how === 'AVERAGE' ? over(total.at(index), trees) : total.at(index);
    return bases ? plus(s, bases.at([base.length === 1 ? I.num(0) : at(index, 1)])) : s;
  });
}

function aggregate(ctx: LowerContext): Aggregate {
  const given = ctx.node.attrs['aggregate_function'] ?? 'SUM';
  const name = typeof given === 'number' ? ['AVERAGE', 'SUM', 'MIN', 'MAX'][given] : given;
  if (name === 'SUM' || name === 'AVERAGE' || name === 'MIN' || name === 'MAX') return name;
  return ctx.fail('BAD_ATTRIBUTE', 'aggregate_function is none of SUM, AVERAGE, MIN, MAX');
}

function lowerRegressor(ctx: LowerContext): LTensor {
  const x = featuresOf(ctx);
  const forest = olderForest(ctx, 'target', ctx.int('n_targets', 1));
  return transformed(ctx, scoresOf(ctx, x, forest, aggregate(ctx)), postTransform(ctx));
}

function lowerEnsemble(ctx: LowerContext): LTensor {
  const x = featuresOf(ctx);
  const scores = scoresOf(ctx, x, newerForest(ctx), aggregate(ctx));
  const y = transformed(ctx, scores, postTransform(ctx));
  return y.dtype === x.dtype ? y : ctx.pointwise(y.shape, x.dtype, (i) => cast(y.at(i), x.dtype));
}

function lowerClassifier(ctx: LowerContext): readonly LTensor[] {
  const x = featuresOf(ctx);
  const labels = labelsOf(ctx, 'classlabels_int64s');
  const how = postTransform(ctx);
  const forest = olderForest(ctx, 'class', labels.length);
  const named = new Set(forest.weights.map((w) => w.target));
  if (labels.length !== 2 || named.size > 1 || !named.has(0))
    return classified(ctx, scoresOf(ctx, x, forest, 'SUM'), labels, how);
  // One score tells two classes apart: a share where all weights are positive.
  const one: Forest = {
    ...forest,
    targets: 1,
    weights: forest.weights.map((w) => ({ ...w, target: 0 })),
  };
  const positive = forest.weights.every((w) => w.weight >= 0);
  const scores = scoresOf(ctx, x, one, 'SUM');
  const score = ctx.view([at(scores.shape, 0)], scores, (index) => [at(index, 0), I.num(0)]);
  return twoClasses(ctx, score, labels, how, positive ? 0.5 : 0, positive);
}

const ML = 'ai.onnx.ml';

export const treeOps: readonly OpDef[] = [
  { name: 'tree_ensemble', onnx: [`${ML}:TreeEnsemble`], lower: lowerEnsemble },
  { name: 'tree_ensemble_regressor', onnx: [`${ML}:TreeEnsembleRegressor`], lower: lowerRegressor },
  {
    name: 'tree_ensemble_classifier',
    onnx: [`${ML}:TreeEnsembleClassifier`],
    lower: lowerClassifier,
  },
];
