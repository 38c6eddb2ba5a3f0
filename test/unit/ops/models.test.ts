/**
 * The classic models of ai.onnx.ml against walks and sums written out.
 */
import assert from 'node:assert/strict';
import { compile } from '../../../compiler';
import { num } from '../../../compiler/ir/indexExpr';
import { attr, FLOAT, model, node, value } from '../onnx/encoder';
import { close, type Operand, type Result, runNode } from './fixture';

const ROWS = [
  [0.5, -1],
  [-0.5, 2],
  [0.1, 0.3],
];
const X: Operand = { shape: [3, 2], values: ROWS.flat() };

/** Two trees: x0 <= 0 ? (x1 < 1 ? 1 : 2) : 3, and x1 <= 0 ? 10 : 20; the first also serves target 1. */
const FOREST = {
  nodes_treeids: [0, 0, 0, 0, 0, 1, 1, 1],
  nodes_nodeids: [0, 1, 2, 3, 4, 0, 1, 2],
  nodes_featureids: [0, 1, 0, 0, 0, 1, 0, 0],
  nodes_values: [0, 1, 0, 0, 0, 0, 0, 0],
  nodes_modes: ['BRANCH_LEQ', 'BRANCH_LT', 'LEAF', 'LEAF', 'LEAF', 'BRANCH_LEQ', 'LEAF', 'LEAF'],
  nodes_truenodeids: [1, 2, 0, 0, 0, 1, 0, 0],
  nodes_falsenodeids: [4, 3, 0, 0, 0, 2, 0, 0],
};
const leaves = (prefix: string) => ({
  [`${prefix}_treeids`]: [0, 0, 0, 1, 1],
  [`${prefix}_nodeids`]: [2, 3, 4, 1, 2],
  [`${prefix}_ids`]: [0, 0, 0, 0, 0],
  [`${prefix}_weights`]: [1, 2, 3, 10, 20],
});
const first = ([a = 0, b = 0]: readonly number[]): number => (a <= 0 ? (b < 1 ? 1 : 2) : 3);
const second = ([, b = 0]: readonly number[]): number => (b <= 0 ? 10 : 20);

const one = (results: readonly Result[]): readonly number[] => results[0]?.values ?? [];

describe('ops: models of ai.onnx.ml', () => {
  it('trees are walked, and their leaves summed, averaged or compared', () => {
    const of = (aggregate_function: string, more = {}) =>
      one(
        runNode('tree_ensemble_regressor', [X], {
          ...FOREST,
          ...leaves('target'),
          n_targets: 1,
          aggregate_function,
          ...more,
        }),
      );
    close(
      of('SUM'),
      ROWS.map((r) => first(r) + second(r)),
    );
    close(
      of('AVERAGE', { base_values: [0.5] }),
      ROWS.map((r) => (first(r) + second(r)) / 2 + 0.5),
    );
    close(
      of('MIN'),
      ROWS.map((r) => Math.min(first(r), second(r))),
    );
    close(
      of('MAX'),
      ROWS.map((r) => Math.max(first(r), second(r))),
    );
  });

  it('missing values go where the node says', () => {
    const x: Operand = { shape: [1, 2], values: [NaN, -1] };
    const at = (tracks: number): readonly number[] =>
      one(
        runNode('tree_ensemble_regressor', [x], {
          ...FOREST,
          ...leaves('target'),
          nodes_missing_value_tracks_true: [tracks, 0, 0, 0, 0, 0, 0, 0],
        }),
      );
    close(at(0), [13]);
    close(at(1), [11]);
  });

  it('one score tells two classes apart', () => {
    const shares = { ...leaves('class'), class_weights: [0.1, 0.2, 0.3, 0.1, 0.4] };
    const [label, scores] = runNode(
      'tree_ensemble_classifier',
      [X],
      { ...FOREST, ...shares, classlabels_int64s: [7, 9] },
      { results: 2 },
    );
    assert.deepEqual(label?.values, [7, 9, 9]);
    close(scores?.values ?? [], [0.6, 0.4, 0.4, 0.6, 0.3, 0.7], 1e-6);
  });

  it('sets of members, in the newest form', () => {
    const list = (values: number[]) => ({
      tensor: {
        type: { dtype: 'f32' as const, shape: [num(values.length)] },
        data: { kind: 'numbers' as const, values },
      },
    });
    const x: Operand = { shape: [4, 1], values: [1.5, 3, 7, 8] };
    const got = runNode('tree_ensemble', [x], {
      nodes_featureids: [0],
      nodes_splits: list([0]),
      nodes_modes: list([6]),
      nodes_truenodeids: [0],
      nodes_trueleafs: [1],
      nodes_falsenodeids: [1],
      nodes_falseleafs: [1],
      leaf_targetids: [0, 0],
      leaf_weights: list([5, -5]),
      tree_roots: [0],
      n_targets: 1,
      membership_values: list([1.5, 7, 9, NaN]),
    });
    close(one(got), [5, -5, 5, -5]);
  });

  it('a walk is one kernel, however deep', () => {
    const ints = (name: string, v: readonly number[]) => attr.ints(name, [...v]);
    const { nodes_values, nodes_modes, ...lists } = FOREST;
    const { target_weights, ...targets } = leaves('target') as Record<string, number[]>;
    const bytes = model({
      inputs: [value('x', FLOAT, [64, 2])],
      nodes: [
        node('TreeEnsembleRegressor', ['x'], ['y'], {
          domain: 'ai.onnx.ml',
          attrs: [
            ...Object.entries({ ...lists, ...targets }).map(([n, v]) => ints(n, v)),
            attr.floats('nodes_values', nodes_values),
            attr.floats('target_weights', target_weights ?? []),
            attr.strings('nodes_modes', nodes_modes),
          ],
        }),
      ],
      outputs: [value('y', FLOAT)],
    });
    const { result } = compile({ file: 'm.onnx', bytes });
    assert.deepEqual(
      result.diagnostics.filter((d) => d.severity === 'error'),
      [],
    );
    assert.equal(result.after.kernels.length, 1);
  });

  it('linear models', () => {
    const attrs = { coefficients: [1, 2, -1, 0.5], intercepts: [0.1, 0.2], targets: 2 };
    const want = ROWS.flatMap(([a = 0, b = 0]) => [a + 2 * b + 0.1, -a + 0.5 * b + 0.2]);
    close(one(runNode('linear_regressor', [X], attrs)), want);
    const [label, p] = runNode(
      'linear_classifier',
      [X],
      { ...attrs, classlabels_ints: [4, 5], post_transform: 'SOFTMAX' },
      { results: 2 },
    );
    assert.deepEqual(label?.values, [5, 4, 4]);
    const softmax = [0, 2, 4].flatMap((i) => {
      const e = want.slice(i, i + 2).map(Math.exp);
      return e.map((v) => v / ((e[0] ?? 0) + (e[1] ?? 0)));
    });
    close(p?.values ?? [], softmax, 1e-6);
  });

  it('support vectors with a radial kernel', () => {
    const support = [
      [0, 1],
      [1, -1],
    ];
    const got = runNode('svm_regressor', [X], {
      kernel_type: 'RBF',
      kernel_params: [0.5, 0, 0],
      n_supports: 2,
      support_vectors: support.flat(),
      coefficients: [2, -1],
      rho: [0.25],
    });
    const want = ROWS.map(([a = 0, b = 0]) => {
      const k = support.map(([p = 0, q = 0]) => Math.exp(-0.5 * ((a - p) ** 2 + (b - q) ** 2)));
      return 2 * (k[0] ?? 0) - (k[1] ?? 0) + 0.25;
    });
    close(one(got), want);
  });

  it('features are normalised, filled in, encoded and put side by side', () => {
    close(one(runNode('feature_normalizer', [X], { norm: 'L1' })), [
      1 / 3,
      -2 / 3,
      -0.2,
      0.8,
      0.25,
      0.75,
    ]);
    const gaps: Operand = { shape: [2, 2], values: [NaN, 1, 2, NaN] };
    const attrs = { imputed_value_floats: [8, 9], replaced_value_float: NaN };
    close(one(runNode('imputer', [gaps], attrs)), [8, 1, 2, 9]);
    const kinds: Operand = { dtype: 'i64', shape: [2], values: [7, 3] };
    close(one(runNode('one_hot_encoder', [kinds], { cats_int64s: [3, 5, 7] })), [0, 0, 1, 1, 0, 0]);
    const more: Operand = { shape: [3, 1], values: [7, 8, 9] };
    close(one(runNode('feature_vectorizer', [X, more], { inputdimensions: [2, 2] })), [
      ...[0.5, -1, 7, 0],
      ...[-0.5, 2, 8, 0],
      ...[0.1, 0.3, 9, 0],
    ]);
  });
});
