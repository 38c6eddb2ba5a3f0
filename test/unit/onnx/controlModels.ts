/**
 * Random ONNX models with branches and loops inside each other, each with what it should give: an
 * evaluator that is as plain as the models are.
 *
 * All values are vectors of four floats. What decides (a sum against a bound, a count that is an
 * input) is known when compiling in some models and only at run time in others.
 */
import {
  attr,
  type Bytes,
  BOOL,
  FLOAT,
  floatBits,
  graph,
  INT64,
  int64Bits,
  model,
  node,
  raw,
  tensor,
  value,
} from './encoder';

export const SIZE = 4;
export type Vector = readonly number[];

type Statement =
  | {
      readonly kind: 'op';
      readonly op: 'Add' | 'Sub' | 'Max';
      readonly a: string;
      readonly b: string;
      readonly to: string;
    }
  | {
      readonly kind: 'map';
      readonly op: 'Relu' | 'Neg' | 'Abs';
      readonly a: string;
      readonly to: string;
    }
  | { readonly kind: 'scale'; readonly a: string; readonly by: number; readonly to: string }
  | {
      readonly kind: 'if';
      readonly by: string;
      readonly bound: number;
      readonly then: Block;
      readonly else: Block;
      readonly to: string;
    }
  | {
      readonly kind: 'loop';
      /** A number, or the name of a count that is an input. */
      readonly trips: number | string;
      /** It goes on while the sum of what it carries is below. */
      readonly bound: number | undefined;
      readonly initial: string;
      readonly formal: string;
      readonly body: Block;
      readonly to: string;
    };

interface Block {
  readonly statements: readonly Statement[];
  readonly result: string;
}

const sum = (v: Vector): number => v.reduce((s, x) => s + x, 0);

function evaluate(
  block: Block,
  outer: ReadonlyMap<string, Vector>,
  counts: ReadonlyMap<string, number>,
): Vector {
  const names = new Map(outer);
  const of = (name: string): Vector => names.get(name) ?? [];
  for (const s of block.statements) {
    switch (s.kind) {
      case 'op':
        names.set(
          s.to,
          of(s.a).map((x, i) => {
            const y = of(s.b)[i] ?? 0;
            return s.op === 'Add' ? x + y : s.op === 'Sub' ? x - y : Math.max(x, y);
          }),
        );
        break;
      case 'map':
        names.set(
          s.to,
          of(s.a).map((x) =>
            s.op === 'Relu' ? Math.max(0, x) : s.op === 'Neg' ? -x : Math.abs(x),
          ),
        );
        break;
      case 'scale':
        names.set(
          s.to,
          of(s.a).map((x) => x * s.by),
        );
        break;
      case 'if':
        names.set(s.to, evaluate(sum(of(s.by)) < s.bound ? s.then : s.else, names, counts));
        break;
      case 'loop': {
        const trips = typeof s.trips === 'number' ? s.trips : (counts.get(s.trips) ?? 0);
        let at = of(s.initial);
        for (let i = 0, on = true; i < trips && on; i++) {
          at = evaluate(s.body, new Map(names).set(s.formal, at), counts);
          on = s.bound === undefined || sum(at) < s.bound;
        }
        names.set(s.to, at);
        break;
      }
    }
  }
  return of(block.result);
}

const scalar = (name: string, v: number): Bytes => tensor(name, FLOAT, [], raw(...floatBits(v)));

/** The nodes of a block, with the constants that they need. */
function encode(block: Block): { nodes: Bytes[]; constants: Bytes[] } {
  const nodes: Bytes[] = [];
  const constants: Bytes[] = [];
  const below = (v: string, bound: number, to: string): void => {
    constants.push(scalar(`${to}_bound`, bound));
    nodes.push(
      node('ReduceSum', [v], [`${to}_sum`], { attrs: [attr.int('keepdims', 0)] }),
      node('Less', [`${to}_sum`, `${to}_bound`], [to]),
    );
  };
  const inner = (b: Block, outputs: Bytes[], inputs: Bytes[] = [], more: Bytes[] = []): Bytes => {
    const { nodes: list, constants: initializers } = encode(b);
    return graph({ nodes: [...list, ...more], inputs, outputs, initializers });
  };
  for (const s of block.statements) {
    switch (s.kind) {
      case 'op':
        nodes.push(node(s.op, [s.a, s.b], [s.to]));
        break;
      case 'map':
        nodes.push(node(s.op, [s.a], [s.to]));
        break;
      case 'scale':
        constants.push(scalar(`${s.to}_by`, s.by));
        nodes.push(node('Mul', [s.a, `${s.to}_by`], [s.to]));
        break;
      case 'if': {
        below(s.by, s.bound, `${s.to}_c`);
        const arm = (b: Block): Bytes => inner(b, [value(b.result, FLOAT, [SIZE])]);
        nodes.push(
          node('If', [`${s.to}_c`], [s.to], {
            attrs: [attr.graph('then_branch', arm(s.then)), attr.graph('else_branch', arm(s.else))],
          }),
        );
        break;
      }
      case 'loop': {
        const trips = typeof s.trips === 'number' ? `${s.to}_n` : s.trips;
        if (typeof s.trips === 'number')
          constants.push(tensor(trips, INT64, [], raw(...int64Bits(s.trips))));
        const on = `${s.to}_on`;
        const test = encode({ statements: [], result: '' });
        if (s.bound === undefined) test.nodes.push(node('Identity', [`${s.to}_run`], [on]));
        else {
          test.constants.push(scalar(`${on}_bound`, s.bound));
          test.nodes.push(
            node('ReduceSum', [s.body.result], [`${on}_sum`], { attrs: [attr.int('keepdims', 0)] }),
            node('Less', [`${on}_sum`, `${on}_bound`], [on]),
          );
        }
        const { nodes: list, constants: initializers } = encode(s.body);
        const body = graph({
          nodes: [...list, ...test.nodes],
          initializers: [...initializers, ...test.constants],
          inputs: [
            value(`${s.to}_i`, INT64, []),
            value(`${s.to}_run`, BOOL, []),
            value(s.formal, FLOAT, [SIZE]),
          ],
          outputs: [value(on, BOOL, []), value(s.body.result, FLOAT, [SIZE])],
        });
        nodes.push(
          node('Loop', [trips, '', s.initial], [s.to], { attrs: [attr.graph('body', body)] }),
        );
        break;
      }
    }
  }
  return { nodes, constants };
}

export interface ControlModel {
  readonly bytes: Uint8Array;
  readonly vectors: Readonly<Record<string, Vector>>;
  readonly counts: Readonly<Record<string, number>>;
  readonly expected: Vector;
}

/** A model of its own for each seed. */
export function randomControlModel(random: () => number): ControlModel {
  const below = (n: number): number => Math.floor(random() * n);
  let next = 0;
  const fresh = (): string => `v${next++}`;
  const pick = (names: readonly string[]): string => names[below(names.length)] ?? '';
  const block = (outer: readonly string[], depth: number): Block => {
    const names = [...outer];
    const statements: Statement[] = [];
    const length = 1 + below(4);
    for (let i = 0; i < length; i++) {
      const to = fresh();
      const choice = below(depth > 0 ? 6 : 3);
      if (choice === 0) {
        const op = (['Add', 'Sub', 'Max'] as const)[below(3)] ?? 'Add';
        statements.push({ kind: 'op', op, a: pick(names), b: pick(names), to });
      } else if (choice === 1) {
        const op = (['Relu', 'Neg', 'Abs'] as const)[below(3)] ?? 'Relu';
        statements.push({ kind: 'map', op, a: pick(names), to });
      } else if (choice === 2) statements.push({ kind: 'scale', a: pick(names), by: 0.5, to });
      else if (choice === 3)
        statements.push({
          kind: 'if',
          by: pick(names),
          bound: below(5) - 2.25,
          then: block(names, depth - 1),
          else: block(names, depth - 1),
          to,
        });
      else {
        const formal = fresh();
        statements.push({
          kind: 'loop',
          trips: below(2) === 0 ? below(4) : 'n',
          bound: below(2) === 0 ? undefined : below(9) - 1.75,
          initial: pick(names),
          formal,
          body: block([...names, formal], depth - 1),
          to,
        });
      }
      names.push(to);
    }
    // A body may also give what it was given, or something from outside.
    return { statements, result: below(5) === 0 ? pick(names) : (names[names.length - 1] ?? '') };
  };
  const inputs = ['x', 'y'];
  const main = block(inputs, 2);
  const vector = (): Vector => Array.from({ length: SIZE }, () => below(17) / 4 - 2);
  const vectors = { x: vector(), y: vector() };
  const counts = { n: below(4) };
  const { nodes, constants } = encode(main);
  const bytes = model(
    {
      nodes: [...nodes, node('Identity', [main.result], ['out'])],
      initializers: constants,
      inputs: [value('x', FLOAT, [SIZE]), value('y', FLOAT, [SIZE]), value('n', INT64, [])],
      outputs: [value('out', FLOAT, [SIZE])],
    },
    13,
  );
  const expected = evaluate(
    main,
    new Map(Object.entries(vectors)),
    new Map(Object.entries(counts)),
  );
  return { bytes, vectors, counts, expected };
}
