/**
 * Lowering of regions: branches and loops that stay, because only the data says how they go.
 *
 * Entering a loop gives its body formals, typed as what is handed to them; leaving it gives results.
 * Both are stored values of the role `region`, and so is what they are copied from: a view that is
 * handed over becomes a copy here. A kernel's buffers have fixed sizes, so a carried value must keep
 * its shape, both branches must give the same shapes, and rows can only be stacked where their number
 * is known; what breaks this is unsupported, with its reason.
 */
import type { DType } from '../graph/dtype';
import type {
  BodyId,
  BranchRegion,
  Graph,
  LoopRegion,
  Node,
  NodeId,
  RegionId,
  TensorId,
} from '../graph/graph';
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim } from '../ir/indexExpr';
import type { ProgramLoop, ProgramRegion } from '../ir/region';
import type { LTensor } from './op';

/** What the driver does for it. */
export interface RegionHost {
  handle(tensor: TensorId): LTensor | undefined;
  setHandle(tensor: TensorId, h: LTensor): void;
  /** A stored value that a region makes. */
  region(id: ValueId, name: string, dtype: DType, shape: readonly Dim[]): LTensor;
  /** The stored value that a handle is; a copy where it is none, or one that `mayBe` refuses. */
  store(
    h: LTensor,
    id: ValueId,
    name: string,
    origin: NodeId,
    body: BodyId | undefined,
    mayBe: (v: ValueId) => boolean,
  ): ValueId;
}

/** Above this a number of iterations is no limit. */
const NO_LIMIT = 2 ** 31 - 1;

const any = (_: ValueId): boolean => true;

/** A loop between its way in and its way out. */
interface Entered {
  readonly trips?: Dim;
  readonly tripsValue?: ValueId;
  readonly condition?: ValueId;
  readonly initial: readonly ValueId[];
  readonly sources: readonly ValueId[];
}

export class RegionLowering {
  readonly regions: ProgramRegion[] = [];
  private readonly byId: ReadonlyMap<RegionId, BranchRegion | LoopRegion>;
  private readonly entered = new Map<RegionId, Entered>();

  constructor(
    private readonly graph: Graph,
    private readonly host: RegionHost,
  ) {
    this.byId = new Map((graph.regions ?? []).map((r) => [r.id, r]));
  }

  private name(tensor: TensorId): string {
    return this.graph.tensors.get(tensor)?.name ?? tensor;
  }

  /** The reason when it can't be. */
  enter(n: Node): string | undefined {
    const r = this.byId.get(n.control?.region ?? '');
    if (r?.kind !== 'loop') return 'there is no such loop';
    const { host } = this;
    const stored = (tensor: TensorId, h: LTensor, key: string): ValueId =>
      host.store(h, `${n.id}:${key}`, this.name(tensor), n.id, r.parent, any);

    const limit = r.trips === undefined ? undefined : host.handle(r.trips);
    let trips: Dim | undefined;
    let tripsValue: ValueId | undefined;
    if (limit?.known?.[0] !== undefined) {
      const size = I.ix(limit.known[0]);
      const most = I.constOf(size);
      if (most === undefined || most <= NO_LIMIT) trips = size;
    } else if (limit && r.trips !== undefined) tripsValue = stored(r.trips, limit, 'trips');

    const start = r.condition === undefined ? undefined : host.handle(r.condition);
    const always = !start || start.known?.[0] === 1;
    const condition =
      always || r.condition === undefined ? undefined : stored(r.condition, start, 'condition');

    const initial: ValueId[] = [];
    for (const [k, c] of r.carried.entries()) {
      const h = host.handle(c.initial);
      if (!h) return `its operand ${this.name(c.initial)} could not be analysed`;
      initial.push(stored(c.initial, h, `initial${k}`));
      host.setHandle(c.formal, host.region(c.formal, this.name(c.formal), h.dtype, h.shape));
    }
    const sources: ValueId[] = [];
    for (const [k, s] of r.sliced.entries()) {
      const h = host.handle(s.source);
      const length = h?.shape[s.axis];
      if (!h || length === undefined) return `its operand ${this.name(s.source)} has no such axis`;
      if (trips && !I.same(trips, length))
        return `its operands have ${I.printIndex(trips)} and ${I.printIndex(length)} slices`;
      trips = length;
      const rest = h.shape.filter((_, i) => i !== s.axis);
      sources.push(stored(s.source, axisFirst(h, s.axis), `source${k}`));
      host.setHandle(s.formal, host.region(s.formal, this.name(s.formal), h.dtype, rest));
    }
    for (const [formal, dtype] of [
      [r.iteration, 'i64'],
      [r.running, 'bool'],
    ] as const)
      if (formal !== undefined)
        host.setHandle(formal, host.region(formal, this.name(formal), dtype, []));
    this.entered.set(r.id, {
      ...(trips ? { trips } : {}),
      ...(tripsValue === undefined ? {} : { tripsValue }),
      ...(condition === undefined ? {} : { condition }),
      initial,
      sources,
    });
    return undefined;
  }

  /** The reason when it can't be. */
  exit(n: Node): string | undefined {
    const r = this.byId.get(n.control?.region ?? '');
    if (!r) return 'there is no such region';
    return r.kind === 'loop' ? this.leaveLoop(n, r) : this.leaveBranch(n, r);
  }

  private leaveLoop(n: Node, r: LoopRegion): string | undefined {
    const { host } = this;
    const entered = this.entered.get(r.id);
    if (!entered) return 'what it starts from could not be analysed';
    const goesOn = r.goesOn === undefined ? undefined : host.handle(r.goesOn);
    const endless = !goesOn || goesOn.known?.[0] === 1;
    const formals = new Set<ValueId>(r.carried.map((c) => c.formal));
    const own = (tensor: TensorId, h: LTensor, key: string, mayBe = any): ValueId =>
      host.store(h, `${n.id}:${key}`, this.name(tensor), n.id, r.body, mayBe);

    const carried: ProgramLoop['carried'][number][] = [];
    for (const [k, c] of r.carried.entries()) {
      const [next, before] = [host.handle(c.next), host.handle(c.formal)];
      if (!next || !before) return `${this.name(c.next)} could not be analysed`;
      if (next.dtype !== before.dtype || !sameShape(next.shape, before.shape))
        return `${this.name(c.formal)} changes from ${typeText(before)} to ${typeText(next)} between iterations, while a buffer has one size`;
      // All are handed over at once: a value must not have been overwritten by then.
      const value = own(c.next, next, `next${k}`, (v) => v === c.formal || !formals.has(v));
      const result = host.region(c.result, this.name(c.result), next.dtype, next.shape);
      host.setHandle(c.result, result);
      carried.push({
        initial: entered.initial[k] ?? '',
        formal: c.formal,
        next: value,
        result: c.result,
      });
    }
    const stacked: ProgramLoop['stacked'][number][] = [];
    for (const [k, s] of r.stacked.entries()) {
      const h = host.handle(s.element);
      if (!h) return `${this.name(s.element)} could not be analysed`;
      const { trips } = entered;
      if (!trips || entered.condition !== undefined || !endless)
        return `the size of its result ${this.name(s.result)} is only known when it has run`;
      const element = own(s.element, h, `row${k}`);
      const axis = s.axis < 0 ? s.axis + h.shape.length + 1 : s.axis;
      const rows = axis === 0 ? s.result : `${n.id}:rows${k}`;
      const all = host.region(rows, this.name(s.result), h.dtype, [trips, ...h.shape]);
      host.setHandle(s.result, axisBack(all, axis));
      stacked.push({ element, result: rows, reverse: s.reverse });
    }
    const { initial: _initial, sources, ...start } = entered;
    this.regions.push({
      kind: 'loop',
      id: r.id,
      ...(r.parent === undefined ? {} : { parent: r.parent }),
      body: r.body,
      ...start,
      ...(r.iteration === undefined ? {} : { iteration: r.iteration }),
      ...(r.running === undefined ? {} : { running: r.running }),
      ...(endless || r.goesOn === undefined ? {} : { goesOn: own(r.goesOn, goesOn, 'goesOn') }),
      carried,
      sliced: r.sliced.map((s, k) => ({
        source: sources[k] ?? '',
        formal: s.formal,
        reverse: s.reverse,
      })),
      stacked,
    });
    return undefined;
  }

  private leaveBranch(n: Node, r: BranchRegion): string | undefined {
    const { host } = this;
    const condition = host.handle(r.condition);
    if (!condition) return 'its condition could not be analysed';
    const arms = [r.then, r.else].map((arm, a) => ({
      body: arm.body,
      handles: arm.gives.map((t) => host.handle(t)),
      key: `${n.id}:${a === 0 ? 'then' : 'else'}`,
      gives: arm.gives,
    }));
    const [first, second] = arms;
    if (!first || !second) return 'one of its branches is missing';
    for (const [k, result] of r.results.entries()) {
      const [a, b] = [first.handles[k], second.handles[k]];
      if (!a || !b) return `${this.name(result)} could not be analysed`;
      if (a.dtype !== b.dtype || !sameShape(a.shape, b.shape))
        return `its branches give ${typeText(a)} and ${typeText(b)} for ${this.name(result)}, while a buffer has one size`;
      host.setHandle(result, host.region(result, this.name(result), a.dtype, a.shape));
    }
    const given = (arm: typeof first): { body: BodyId; gives: ValueId[] } => ({
      body: arm.body,
      gives: r.results.map((_, k) => {
        const h = arm.handles[k];
        if (!h) throw new Error(`no result ${k} of ${arm.body}`);
        const name = this.name(arm.gives[k] ?? '');
        return host.store(h, `${arm.key}${k}`, name, n.id, arm.body, any);
      }),
    });
    const id = `${n.id}:condition`;
    this.regions.push({
      kind: 'branch',
      id: r.id,
      ...(r.parent === undefined ? {} : { parent: r.parent }),
      condition: host.store(condition, id, this.name(r.condition), n.id, r.parent, any),
      arms: [given(first), given(second)],
      results: r.results,
    });
    return undefined;
  }
}

function sameShape(a: readonly Dim[], b: readonly Dim[]): boolean {
  return a.length === b.length && a.every((d, i) => I.same(d, b[i] ?? I.num(-1)));
}

function typeText(h: LTensor): string {
  return `${h.dtype}${I.printShape(h.shape)}`;
}

/** A view with one axis moved to the front. */
function axisFirst(h: LTensor, axis: number): LTensor {
  if (axis === 0) return h;
  const shape = [h.shape[axis] ?? I.num(1), ...h.shape.filter((_, i) => i !== axis)];
  return {
    dtype: h.dtype,
    shape,
    at: ([first = I.num(0), ...rest]) => h.at([...rest.slice(0, axis), first, ...rest.slice(axis)]),
  };
}

/** A view with the first axis moved to the given place. */
function axisBack(h: LTensor, axis: number): LTensor {
  if (axis === 0) return h;
  const [first = I.num(1), ...rest] = h.shape;
  return {
    dtype: h.dtype,
    shape: [...rest.slice(0, axis), first, ...rest.slice(axis)],
    at: (index) => h.at([index[axis] ?? I.num(0), ...index.filter((_, i) => i !== axis)]),
  };
}
