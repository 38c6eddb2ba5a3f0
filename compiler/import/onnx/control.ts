/**
 * If, Loop and Scan: inlined where what decides is known when compiling, regions elsewhere.
 *
 * Vocabulary
 *  - *state*: the values that one iteration of a Loop or Scan hands to the next.
 *  - *unrolled*: each iteration's nodes stand in the graph, `n3/0/…`, `n3/1/…`, so that they fuse with
 *    each other and with what is around them.
 *  - *selected*: both branches of an If stand in the graph, where they are small and harmless, and each
 *    result is picked by the condition: so they fuse with what is around them, and nobody waits for the
 *    condition to be read back.
 *  - *region*: the bodies stand in the graph once, as `n3/body/…`, and run as often as the data says.
 *
 * A Loop is unrolled on trial: every iteration is taken to go on, then lowering says whether that can
 * be known, and where the loop ends.
 */
import { error } from '../../diagnostics';
import type { AttrValue, BodyId, Region, TensorId } from '../../graph/graph';
import { constOf } from '../../ir/indexExpr';
import type { NodeAttributes } from './attributes';
import { ASKED } from './knowledge';
import type { OnnxGraph, OnnxNode } from './proto';
import {
  type Builder,
  countNodes,
  describe,
  type Frame,
  freeNames,
  MISSING,
  quote,
  type Scope,
} from './scope';

/** Nodes that unrolling one loop may add, counted with those inside them: beyond it stays a region. */
export const UNROLL_LIMIT = 1024;
/** Above this a number of iterations is no limit: exporters write the greatest integer there is. */
const NO_LIMIT = 2 ** 31 - 1;

const TOO_LONG = `written out it would have more than ${UNROLL_LIMIT} nodes`;
const RUN_TIME = 'how it goes on is only known when the model runs';

/** One iteration's inputs to what it gives. */
type Iterate = (
  iteration: string,
  inputs: readonly (TensorId | undefined)[],
) => (TensorId | undefined)[];

export class ControlFlow {
  readonly regions: Region[] = [];

  constructor(
    private readonly builder: Builder,
    private readonly isSequence: (id: TensorId) => boolean,
  ) {}

  /** Whether the node was one of these. */
  add(n: OnnxNode, id: string, frame: Frame, attributes: NodeAttributes, opset: number): boolean {
    if (n.domain !== '') return false;
    if (n.opType === 'If') this.addIf(n, id, frame, attributes);
    else if (n.opType === 'Loop') this.addLoop(n, id, frame, attributes);
    else if (n.opType === 'Scan') this.addScan(n, id, frame, attributes, opset);
    else return false;
    return true;
  }

  // -- If ---------------------------------------------------------------------------------------

  private addIf(n: OnnxNode, id: string, frame: Frame, attributes: NodeAttributes): void {
    const { builder } = this;
    const [condition] = builder.operands(n, id, frame);
    const known = condition === undefined ? undefined : this.contents(condition);
    const thenGraph = attributes.graphs.get('then_branch');
    const elseGraph = attributes.graphs.get('else_branch');
    if (known === ASKED) {
      this.refuse(n, id, frame, attributes, RUN_TIME);
      return;
    }
    const taken = known?.[0];
    if (taken !== undefined) {
      const branch = taken === 0 ? elseGraph : thenGraph;
      if (!branch) {
        builder.plain(n, id, frame, attributes, 'the branch that it takes is missing');
        return;
      }
      const scope = builder.inline(branch, frame, `${id}/`, []);
      builder.alias(n, id, this.gives(n, id, branch, scope));
      return;
    }
    if (!thenGraph || !elseGraph || condition === undefined) {
      builder.plain(n, id, frame, attributes, 'one of its branches is missing');
      return;
    }
    if (builder.knowledge.selects(id) === true) {
      this.select(n, id, frame, condition, [thenGraph, elseGraph]);
      return;
    }
    const bodyOf = (g: OnnxGraph, name: string): { body: BodyId; gives: TensorId[] } => {
      const body = `${id}/${name}`;
      const scope = builder.inline(g, { ...frame, body }, `${body}/`, []);
      return { body, gives: this.gives(n, id, g, scope).flatMap((t) => t ?? []) };
    };
    const region = { then: bodyOf(thenGraph, 'then'), else: bodyOf(elseGraph, 'else') };
    const operands = [condition, ...region.then.gives, ...region.else.gives];
    const wanted = n.outputs.length;
    if (region.then.gives.length < wanted || region.else.gives.length < wanted) return;
    if (operands.some(this.isSequence)) {
      builder.plain(n, id, frame, attributes, NO_SEQUENCES, operands);
      return;
    }
    const control = { kind: 'exit', region: id } as const;
    const results = builder.make(n, id, frame, { op: 'if', operands, results: wanted, control });
    this.regions.push({
      kind: 'branch',
      id,
      ...(frame.body === undefined ? {} : { parent: frame.body }),
      condition,
      ...region,
      results,
    });
  }

  /** Both branches, inlined, and of each result the one that the condition picks. */
  private select(
    n: OnnxNode,
    id: string,
    frame: Frame,
    condition: TensorId,
    branches: readonly [OnnxGraph, OnnxGraph],
  ): void {
    const { builder } = this;
    const [first = [], second = []] = (['then', 'else'] as const).map((name, k) => {
      const g = branches[k === 0 ? 0 : 1];
      return this.gives(n, id, g, builder.inline(g, frame, `${id}/${name}/`, []));
    });
    const picked = n.outputs.map(
      (_, k) =>
        builder.make(n, `${id}/w${k}`, frame, {
          op: 'where',
          operands: [condition, first[k], second[k]],
          results: 1,
        })[0],
    );
    builder.alias(n, id, picked);
  }

  // -- Loop -------------------------------------------------------------------------------------

  private addLoop(n: OnnxNode, id: string, frame: Frame, attributes: NodeAttributes): void {
    const { builder } = this;
    const body = attributes.graphs.get('body');
    const operands = builder.operands(n, id, frame);
    const states = Math.max(0, operands.length - 2);
    const [trips, condition, ...initial] = operands;
    if (!body || body.inputs.length !== states + 2 || body.outputs.length < states + 1) {
      const has = body ? `${body.inputs.length} inputs and ${body.outputs.length} results` : 'none';
      const reason = `its body must have ${states + 2} inputs and at least ${states + 1} results, but has ${has}`;
      builder.plain(n, id, frame, attributes, body ? reason : 'it has no body');
      return;
    }
    const stacks = body.outputs.length - states - 1;
    const count = trips === undefined ? Infinity : this.number(trips);
    const starts = condition === undefined ? 1 : this.number(condition);
    if (count === ASKED || starts === ASKED) {
      this.refuse(n, id, frame, attributes, RUN_TIME);
      return;
    }
    if (count !== undefined && starts !== undefined && !builder.knowledge.stays(id)) {
      const limit = starts === 0 ? 0 : count > NO_LIMIT ? Infinity : Math.max(0, count);
      if (this.unrollLoop(n, id, frame, body, { limit, initial, stacks })) return;
    }
    const region = `${id}/body`;
    const inside: Frame = { ...frame, body: region };
    const enter = builder.make(n, `${id}/in`, frame, {
      op: 'loop_in',
      operands,
      results: body.inputs.length,
      names: body.inputs.map((v) => v.name),
      control: { kind: 'enter', region: id },
    });
    const scope = builder.inline(body, inside, `${region}/`, enter);
    const gives = this.gives(n, id, body, scope);
    if (gives.some((g) => g === undefined)) return;
    const given = gives.flatMap((g) => g ?? []);
    if ([...given, ...initial].some((t) => t !== undefined && this.isSequence(t))) {
      builder.plain(n, id, frame, attributes, NO_SEQUENCES, given);
      return;
    }
    const results = builder.make(n, id, frame, {
      op: 'loop',
      operands: given,
      results: states + stacks,
      control: { kind: 'exit', region: id },
    });
    const [iteration, running, ...formals] = enter;
    const [goesOn, ...values] = given;
    this.regions.push({
      kind: 'loop',
      id,
      ...(frame.body === undefined ? {} : { parent: frame.body }),
      body: region,
      ...(trips === undefined ? {} : { trips }),
      ...(condition === undefined ? {} : { condition }),
      ...(iteration === undefined ? {} : { iteration }),
      ...(running === undefined ? {} : { running }),
      ...(goesOn === undefined ? {} : { goesOn }),
      carried: carriedOf(initial, formals, values, results),
      sliced: [],
      stacked: values.slice(states).map((element, k) => ({
        element,
        result: results[states + k] ?? '',
        axis: 0,
        reverse: false,
      })),
    });
  }

  /** Whether the loop was unrolled, or is a draft; false when it stays a region. */
  private unrollLoop(
    n: OnnxNode,
    id: string,
    frame: Frame,
    body: OnnxGraph,
    loop: {
      readonly limit: number;
      readonly initial: readonly (TensorId | undefined)[];
      readonly stacks: number;
    },
  ): boolean {
    const { builder } = this;
    const { knowledge } = builder;
    const states = loop.initial.length;
    const most = Math.floor(UNROLL_LIMIT / Math.max(1, countNodes(body)));
    const before = builder.size;
    const yes = builder.constant(`${id}/c`, 'condition', 'bool', [], [1]);
    let state = loop.initial;
    const rows: TensorId[][] = Array.from({ length: loop.stacks }, () => []);
    let done = 0;
    let draft = false;
    const trial = knowledge.trial(id);
    while (done < loop.limit) {
      if (draft && done >= trial) break;
      if (done >= most || builder.size - before > UNROLL_LIMIT) {
        // On trial the end may come out later; known to go on, it is too long.
        if (draft && loop.limit > most) break;
        knowledge.leave(id, TOO_LONG);
        return true;
      }
      const prefix = `${id}/${done}/`;
      const number = builder.constant(`${prefix}i`, 'iteration', 'i64', [], [done]);
      const scope = builder.inline(body, frame, prefix, [number, yes, ...state]);
      const gives = this.gives(n, id, body, scope);
      if (gives.some((g) => g === undefined)) return true;
      done++;
      state = gives.slice(1, states + 1);
      gives.slice(states + 1).forEach((g, k) => rows[k]?.push(g ?? ''));
      const [goesOn] = gives;
      const known = goesOn === undefined ? [0] : this.contents(goesOn);
      if (known === ASKED) draft = true;
      else if (known === undefined) {
        // The last iteration's doesn't matter.
        if (done >= loop.limit) break;
        knowledge.leave(id, RUN_TIME);
        return true;
      } else if (known[0] === 0) break;
    }
    builder.alias(n, id, [...state, ...this.stackRows(n, id, frame, rows, states)]);
    return true;
  }

  /** What iterations gave, as one tensor each. */
  private stackRows(
    n: OnnxNode,
    id: string,
    frame: Frame,
    rows: readonly (readonly TensorId[])[],
    first: number,
    axes: readonly number[] = [],
  ): (TensorId | undefined)[] {
    return rows.map((list, k) => {
      if (list.length > 0)
        return this.builder.make(n, `${id}/s${k}`, frame, {
          op: 'stack',
          attrs: { axis: axes[k] ?? 0 },
          operands: list,
        })[0];
      // No row says what a row is like: the file may.
      const declared = frame.declared.get(n.outputs[first + k] ?? '');
      const dims = declared?.dims?.map((d) => d.value);
      const dtype = declared?.elemType === 1 ? 'f32' : declared?.elemType === 7 ? 'i64' : undefined;
      if (!dims || dtype === undefined || dims.slice(1).some((d) => d === undefined))
        return undefined;
      const shape = [0, ...dims.slice(1).map((d) => d ?? 0)];
      return this.builder.constant(`${id}/s${k}`, 'rows', dtype, shape, []);
    });
  }

  // -- Scan -------------------------------------------------------------------------------------

  private addScan(
    n: OnnxNode,
    id: string,
    frame: Frame,
    attributes: NodeAttributes,
    opset: number,
  ): void {
    const { builder } = this;
    const body = attributes.graphs.get('body');
    const scans = intOf(attributes.attrs['num_scan_inputs'], 0);
    const all = builder.operands(n, id, frame);
    // Before operator set 9 there was a batch, and each sequence of it could be shorter.
    const batched = opset < 9;
    const operands = batched ? all.slice(1) : all;
    const states = operands.length - scans;
    const stacks = (body?.outputs.length ?? 0) - states;
    if (!body || scans < 1 || states < 0 || body.inputs.length !== operands.length || stacks < 0) {
      builder.plain(
        n,
        id,
        frame,
        attributes,
        'its body doesn’t have the inputs and results that it must',
      );
      return;
    }
    const initial = operands.slice(0, states);
    const sources = operands.slice(states);
    if (batched && all[0] !== undefined) {
      this.refuse(n, id, frame, attributes, 'sequences of different lengths aren’t supported');
      return;
    }
    const attr = (name: string): readonly number[] => intsOf(attributes.attrs[name]);
    const axesIn = batched ? [] : attr('scan_input_axes');
    const back = attr(batched ? 'directions' : 'scan_input_directions');
    const axesOut = batched ? [] : attr('scan_output_axes');
    const backOut = batched ? [] : attr('scan_output_directions');
    const lead = batched ? 1 : 0;
    const ranks = sources.map((s) => (s === undefined ? undefined : this.shape(s)));
    if (ranks.includes(ASKED)) {
      this.refuse(n, id, frame, attributes, RUN_TIME);
      return;
    }
    const axes = sources.map((_, k) => {
      const shape = ranks[k];
      const a = (axesIn[k] ?? 0) + lead;
      return a < 0 && typeof shape === 'object' ? a + shape.length : a;
    });
    const sizeAt = (k: number, axis: number): number | undefined => {
      const shape = ranks[k];
      const d = typeof shape === 'object' ? shape[axis] : undefined;
      return d && constOf(d);
    };
    const length = sizeAt(0, axes[0] ?? 0);
    const batch = batched ? sizeAt(0, 0) : 1;
    const inner = length === undefined ? Infinity : length * countNodes(body) * (batch ?? 1);
    const iterate: Iterate = (iteration, inputs) => {
      const scope = builder.inline(body, frame, `${id}/${iteration}/`, inputs);
      return this.gives(n, id, body, scope);
    };
    if (
      length !== undefined &&
      length > 0 &&
      batch !== undefined &&
      inner <= UNROLL_LIMIT &&
      !builder.knowledge.stays(id)
    ) {
      const unbind = (name: string, source: TensorId | undefined, axis: number, count: number) =>
        builder.make(n, `${id}/${name}`, frame, {
          op: 'unbind',
          attrs: { axis },
          operands: [source],
          results: count,
        });
      const before = builder.size;
      const scan = (
        prefix: string,
        start: readonly (TensorId | undefined)[],
        slices: readonly (readonly TensorId[])[],
      ): { state: readonly (TensorId | undefined)[]; rows: TensorId[][] } => {
        let state = start;
        const rows: TensorId[][] = Array.from({ length: stacks }, () => []);
        for (let t = 0; t < length; t++) {
          const inputs = slices.map((list, k) => list[back[k] === 1 ? length - 1 - t : t]);
          const gives = iterate(`${prefix}${t}`, [...state, ...inputs]);
          state = gives.slice(0, states);
          gives.slice(states).forEach((g, k) => {
            if (backOut[k] === 1) rows[k]?.unshift(g ?? '');
            else rows[k]?.push(g ?? '');
          });
        }
        return { state, rows };
      };
      if (!batched) {
        const slices = sources.map((s, k) => unbind(`u${k}`, s, axes[k] ?? 0, length));
        const { state, rows } = scan('', initial, slices);
        const stacked = this.stackRows(n, id, frame, rows, states, axesOut);
        builder.alias(n, id, [...state, ...stacked]);
      } else {
        const perState = initial.map((s, k) => unbind(`b${k}`, s, 0, batch));
        const perScan = sources.map((s, k) => unbind(`a${k}`, s, 0, batch));
        const out: TensorId[][] = Array.from({ length: states + stacks }, () => []);
        for (let b = 0; b < batch; b++) {
          const slices = perScan.map((list, k) => unbind(`u${b}_${k}`, list[b], 0, length));
          const { state, rows } = scan(
            `${b}/`,
            perState.map((l) => l[b]),
            slices,
          );
          const stacked = rows.map(
            (list, k) =>
              builder.make(n, `${id}/r${b}_${k}`, frame, {
                op: 'stack',
                attrs: { axis: 0 },
                operands: list,
              })[0],
          );
          [...state, ...stacked].forEach((v, k) => out[k]?.push(v ?? ''));
        }
        builder.alias(n, id, this.stackRows(n, id, frame, out, 0));
      }
      if (builder.size - before > UNROLL_LIMIT) builder.knowledge.leave(id, TOO_LONG);
      return;
    }
    if (batched) {
      this.refuse(
        n,
        id,
        frame,
        attributes,
        `${TOO_LONG}, and its form is that of an old operator set`,
      );
      return;
    }
    const region = `${id}/body`;
    const enter = builder.make(n, `${id}/in`, frame, {
      op: 'scan_in',
      operands,
      results: operands.length,
      names: body.inputs.map((v) => v.name),
      control: { kind: 'enter', region: id },
    });
    const scope = builder.inline(body, { ...frame, body: region }, `${region}/`, enter);
    const gives = this.gives(n, id, body, scope);
    if (gives.some((g) => g === undefined)) return;
    const given = gives.flatMap((g) => g ?? []);
    const results = builder.make(n, id, frame, {
      op: 'scan',
      operands: given,
      results: states + stacks,
      control: { kind: 'exit', region: id },
    });
    this.regions.push({
      kind: 'loop',
      id,
      ...(frame.body === undefined ? {} : { parent: frame.body }),
      body: region,
      carried: carriedOf(initial, enter, given, results),
      sliced: sources.flatMap((source, k) =>
        source === undefined
          ? []
          : [
              {
                source,
                formal: enter[states + k] ?? '',
                axis: axes[k] ?? 0,
                reverse: back[k] === 1,
              },
            ],
      ),
      stacked: given.slice(states).map((element, k) => ({
        element,
        result: results[states + k] ?? '',
        axis: axesOut[k] ?? 0,
        reverse: backOut[k] === 1,
      })),
    });
  }

  // -- Common -----------------------------------------------------------------------------------

  private contents(id: TensorId): readonly number[] | undefined | typeof ASKED {
    return this.builder.known(id) ?? this.builder.knowledge.contentsOf(id);
  }

  private number(id: TensorId): number | undefined | typeof ASKED {
    const known = this.contents(id);
    return known === ASKED ? ASKED : known?.[0];
  }

  private shape(id: TensorId): ReturnType<Builder['knowledge']['shapeOf']> {
    return this.builder.tensor(id)?.type?.shape ?? this.builder.knowledge.shapeOf(id);
  }

  /** The results of an inner graph; a fault for each that nothing defines. */
  private gives(n: OnnxNode, id: string, g: OnnxGraph, scope: Scope): (TensorId | undefined)[] {
    return g.outputs.map((o) => {
      const found = this.builder.resolve(scope.find(o.name));
      if (found === undefined)
        this.builder.report(
          error(
            'UNKNOWN_VALUE',
            `${describe(n, id)}: nothing inside it defines its result ${quote(o.name)}`,
            undefined,
            { subject: id },
          ),
        );
      return found;
    });
  }

  /** One op without lowering: what the inner graphs use from outside is an operand too. */
  private refuse(
    n: OnnxNode,
    id: string,
    frame: Frame,
    attributes: NodeAttributes,
    reason: string,
  ): void {
    const captured = new Set<TensorId>();
    for (const g of attributes.graphs.values())
      for (const name of freeNames(g)) {
        const found = frame.scope.find(name);
        if (found !== MISSING && found !== undefined) captured.add(found);
      }
    this.builder.plain(n, id, frame, attributes, `${n.opType} isn't supported: ${reason}`, [
      ...captured,
    ]);
  }
}

const NO_SEQUENCES =
  'sequences are only followed where each step is known when compiling, and here one is not';

function carriedOf(
  initial: readonly (TensorId | undefined)[],
  formals: readonly TensorId[],
  next: readonly TensorId[],
  results: readonly TensorId[],
): { initial: TensorId; formal: TensorId; next: TensorId; result: TensorId }[] {
  return initial.map((t, k) => ({
    initial: t ?? '',
    formal: formals[k] ?? '',
    next: next[k] ?? '',
    result: results[k] ?? '',
  }));
}

function intOf(v: AttrValue | undefined, fallback: number): number {
  return typeof v === 'number' ? v : fallback;
}

function intsOf(v: AttrValue | undefined): readonly number[] {
  if (!Array.isArray(v)) return [];
  return (v as readonly unknown[]).filter((x): x is number => typeof x === 'number');
}
