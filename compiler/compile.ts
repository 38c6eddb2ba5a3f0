/**
 * The pipeline: import → lower → plan without and with fusion → result.
 *
 * Each stage takes the one before as a value; the result is plain data, while code and execution
 * plans are made from the kept representations when asked for.
 */
import { type Diagnostic, error, info } from './diagnostics';
import { DEFAULT_DEVICE } from './fusion/devices';
import { stepsOf } from './fusion/decisionLog';
import { decide } from './fusion/decisions';
import { checkExpectations } from './fusion/expectations';
import type { CompileMemory } from './fusion/memory';
import { weighOverrides } from './fusion/weighed';
import { nearTies } from './fusion/nearTies';
import { planPart } from './fusion/part';
import {
  alone,
  classesOf,
  CodeCache,
  kernelNodes,
  labelOf,
  nodesOf,
  opNames,
  type Plan,
  planView,
  type ViewContext,
} from './fusion/plan';
import { makePlans } from './fusion/plans';
import { planAt } from './fusion/replay';
import { codeWith, kernelSpace } from './fusion/space';
import type { Search } from './fusion/search';
import { splitWideComputes } from './fusion/split';
import type { DType } from './graph/dtype';
import type { Graph, ImportResult, NodeId, TensorId } from './graph/graph';
import { importFuseKnowing } from './import/fuse';
import { graphOfOnnx, type OnnxFile, readOnnx } from './import/onnx';
import { selectable } from './ops/selectable';
import { Knowledge } from './import/onnx/knowledge';
import type { Compilation, CompileOptions, CompileSource } from './index';
import type { Program } from './ir/compute';
import type { ValueId } from './ir/expr';
import * as I from './ir/indexExpr';
import { type Lowered, lowerGraph } from './ops/lower';
import { type Import, settleSizes } from './sizes';
import type {
  CompileResult,
  ExecPlan,
  IndexClass,
  KernelView,
  NodeView,
  PlanPart,
  PlanView,
  RegionView,
  TensorView,
} from './result';
import { contentBytes, storageBytes, storageOf } from './graph/dtype';
import { emitWgsl } from './codegen/wgsl/emit';
import { makeExecPlan, withPreparing } from './schedule/exec';
import { buildKernel } from './schedule/build';

export function compile(source: CompileSource, options: CompileOptions = {}): Compilation {
  const now = options.now ?? ((): number => 0);
  const stages: Record<string, number> = {};
  const timed = <T>(stage: string, f: () => T): T => {
    const start = now();
    const r = f();
    stages[stage] = now() - start;
    return r;
  };
  const device = options.device ?? DEFAULT_DEVICE;
  const f16 = device.limits.f16;

  let reading = 0;
  const read = importer(source, options.memory);
  const readTimed: Import = (fix) => {
    const start = now();
    const imported = read(fix);
    reading += now() - start;
    return imported;
  };
  const { settled, lowered } = timed('lower', () => {
    const settled = settleSizes(readTimed, options.dims ?? {}, options.memory);
    // One of the buffers is the result's.
    const most = device.limits.maxStorageBuffersPerShaderStage - 1;
    const program = splitWideComputes(settled.lowered.program, most);
    return { settled, lowered: { ...settled.lowered, program } };
  });
  // Reading and lowering take turns where the one needs to know what the other finds.
  stages['import'] = reading;
  stages['lower'] = (stages['lower'] ?? 0) - reading;
  const { imported, fixed: graph } = settled;
  const { program } = lowered;
  const diagnostics: Diagnostic[] = [
    ...imported.diagnostics,
    ...lowered.diagnostics,
    ...settled.diagnostics,
    ...storageDiagnostics(program, f16),
  ];

  const scheduling = { device, f16 };
  const recall = options.memory?.recall(contextOf(device, program));
  const plans = timed('fuse', () => makePlans(graph, lowered, scheduling, options.tuning, recall));
  diagnostics.push(...plans.diagnostics);
  const overrides = timed('weigh', () =>
    weighOverrides(graph, lowered, plans, options.tuning, recall),
  );
  const decisions = timed('decide', () => decide(graph, lowered, plans, plans.fused));
  if (recall) options.memory?.keep(recall);

  const code = new CodeCache(f16);
  const { loading } = plans;
  const tensorOf = tensorsByValue(graph, lowered);
  for (const [now, old] of loading?.prepared.scaled ?? [])
    tensorOf.set(now, tensorOf.get(old) ?? old);
  const names = opNames(graph);
  const planned = plans.search.program;
  const contextOfSearch = ({ program: p, memo }: Search): ViewContext => ({
    ...{ names, program: p, slices: memo.slices, device, f16, code, tensorOf },
    alike: new Map(),
  });
  const ctx = contextOfSearch(plans.search);
  const { before, after } = timed('describe', () => ({
    before: planView(contextOfSearch(plans.alone), plans.unfused, undefined),
    after: {
      ...planView(ctx, plans.fused, plans.unfused),
      ...(loading
        ? {
            prepared: planView(
              contextOfSearch(loading.search),
              loading.plan,
              undefined,
            ).kernels.map((k): KernelView => ({ ...k, atLoad: true })),
          }
        : {}),
    },
  }));
  const expectations = checkExpectations(graph, after, decisions);
  diagnostics.push(...expectations.diagnostics);
  const nodeById =
    plans.fused.impossible.length === 0 ? undefined : new Map(graph.nodes.map((n) => [n.id, n]));
  for (const i of plans.fused.impossible) {
    const nodes = nodesOf(program, i.members);
    const node = nodes[0] === undefined ? undefined : nodeById?.get(nodes[0]);
    diagnostics.push(
      error(
        'NO_KERNEL',
        `${labelOf(names, nodes)} can't be made a kernel on this adapter: ${i.verdicts.map((v) => v.message).join('; ')}`,
        node?.range,
        { subject: node?.id ?? '' },
      ),
    );
  }

  const result: CompileResult = {
    file: source.file,
    format: graph.format,
    version: options.version ?? 0,
    diagnostics,
    dims: Object.fromEntries(graph.dims),
    graph: {
      name: graph.name,
      nodes: nodeViews(
        graph,
        lowered,
        after,
        plans.unfused,
        classesOf(program, plans.search.memo.signatures),
      ),
      tensors: tensorViews(graph, lowered),
      inputs: graph.inputs,
      outputs: graph.outputs.map((o) => ({ name: o.name, tensor: o.tensor })),
    },
    before,
    after,
    decisions,
    ...(graph.regions || program.regions
      ? { regions: regionViews(graph, program, before, after) }
      : {}),
    expectations: expectations.views,
    overrides,
    runnable: runnable(graph, lowered, plans.fused, diagnostics, f16),
    device,
    tunedPlans: plans.tuned,
    stages,
  };
  const find = (plan: Plan, id: string): Plan['kernels'][number] | undefined =>
    plan.kernels.find((k) => k.id === id);
  return {
    result,
    graph: settled.graph,
    program,
    reference: loading?.prepared.reference ?? program,
    steps: () => stepsOf(plans),
    planAt(step) {
      const at = planAt(step, graph, lowered, plans, decisions, ctx);
      const { prepared } = after;
      return prepared ? { ...at, plan: { ...at.plan, prepared } } : at;
    },
    kernelCode(kernel) {
      return this.kernelIr(kernel)?.map((ir) => emitWgsl(ir));
    },
    kernelIr(kernel) {
      const k =
        find(plans.fused, kernel) ??
        find(plans.unfused, kernel) ??
        (loading && find(loading.plan, kernel));
      return k && code.code(k);
    },
    nearTies: () => nearTies(graph, plans.search, plans.fused, plans.steps),
    space(kernel) {
      const k = find(plans.fused, kernel);
      return k && kernelSpace(planned, k, scheduling);
    },
    part(kernels): PlanPart {
      const parts = kernels.map(({ id, settings }) => {
        const found = find(plans.fused, id);
        if (!found) throw new Error(`no kernel ${id} in the plan`);
        const k = alone(found);
        const own = k === found ? code.code(k) : buildKernel(id, k.spec, k.ownSchedule(), f16);
        const ir = settings ? codeWith(k, settings, scheduling) : own;
        const label = labelOf(names, kernelNodes(planned, k));
        return { id, label, code: ir, members: k.members, outputs: k.spec.outputs };
      });
      return planPart(planned, parts, program.dims, device.limits);
    },
    execPlan(which, dims): ExecPlan {
      const bound = new Map(program.dims);
      for (const [name, n] of Object.entries(dims ?? {})) bound.set(name, n);
      const execOf = (plan: Plan, { program: p, memo }: Search): ExecPlan =>
        makeExecPlan(
          p,
          code.planned(plan.kernels, (k) => labelOf(names, kernelNodes(p, k))),
          { slices: memo.slices, verified: this.reference },
          bound,
          device.limits,
        );
      if (which === 'unfused') return execOf(plans.unfused, plans.alone);
      const run = execOf(plans.fused, plans.search);
      return loading ? withPreparing(run, execOf(loading.plan, loading.search)) : run;
    },
  };
}

/** What schedules and prices depend on, besides the structure that is asked about. */
function contextOf(device: CompileResult['device'], program: Program): string {
  return JSON.stringify([device, [...program.dims]]);
}

/** Rounds of importing and lowering, at most: each decides at least one branch or loop. */
const ROUNDS = 24;

/** Branches and loops of ONNX files are inlined where lowering knows what decides on them. */
function importKnowing(
  source: CompileSource,
  file: OnnxFile,
  fix: (graph: Graph) => Graph,
): ImportResult {
  const knowledge = new Knowledge();
  const read = (): ImportResult => graphOfOnnx(file, source.file, source.sideFile, knowledge);
  let imported = read();
  for (let round = 1; knowledge.open; round++) {
    const lowered = lowerGraph(fix(imported.graph));
    knowledge.answer(
      {
        contents: (t) => lowered.contents(t),
        shape: (t) => lowered.types.get(t)?.shape,
        selectable: (b) => selectable(lowered, b),
      },
      round >= ROUNDS,
    );
    imported = read();
    // Whoever asks on after the last answer goes without.
    if (round > 2 * ROUNDS) break;
  }
  return imported;
}

function importer(source: CompileSource, memory: CompileMemory | undefined): Import {
  const file = source.file.toLowerCase();
  if (file.endsWith('.onnx')) {
    let messages: OnnxFile | undefined;
    return (fix) => {
      messages ??= readOnnx({ bytes: source.bytes, cuts: source.cuts ?? [] });
      return importKnowing(source, messages, fix);
    };
  }
  let imported: ImportResult | undefined;
  return (fix) =>
    (imported ??= importFuseKnowing(
      source.bytes,
      source.file,
      (graph) => {
        const { types } = lowerGraph(fix(graph));
        return (t) => types.get(t)?.shape;
      },
      memory?.fuse,
    ));
}

/** Types that WGSL can't store as they are: said once per type. */
function storageDiagnostics(program: Program, f16: boolean): Diagnostic[] {
  const seen = new Set<DType>();
  for (const v of program.values.values()) seen.add(v.dtype);
  const out: Diagnostic[] = [];
  const say = (types: readonly DType[], text: (t: DType) => string): void => {
    for (const t of types) if (seen.has(t)) out.push(info('STORAGE_TYPE', text(t)));
  };
  say(
    ['i64', 'u64'],
    (t) =>
      `${t} tensors are stored in 32 bits on the GPU, which has no 64-bit integers: half the memory, and values beyond 32 bits wrap`,
  );
  say(
    ['f64'],
    (t) =>
      `${t} tensors are stored as f32 on the GPU, which has no 64-bit floats: half the memory, and about 7 significant digits`,
  );
  say(
    ['i4', 'u4'],
    (t) => `${t} tensors are stored in 32 bits an element on the GPU: eight times the memory`,
  );
  say(
    ['i8', 'u8', 'bool'],
    (t) => `${t} tensors are stored in 32 bits an element on the GPU: four times the memory`,
  );
  say(
    ['i16', 'u16'],
    (t) => `${t} tensors are stored in 32 bits an element on the GPU: twice the memory`,
  );
  say(
    ['bf16'],
    (t) =>
      `${t} tensors are stored and computed as f32 on the GPU: twice the memory, and more precise than on hardware that has ${t}`,
  );
  if (!f16)
    say(
      ['f16'],
      (t) =>
        `${t} tensors are stored and computed as f32 here: this adapter (or device profile) lacks shader-f16; twice the memory`,
    );
  return out;
}

/** The tensors that values stand for; a value that isn't here is a tensor by its own name. */
function tensorsByValue(graph: Graph, lowered: Lowered): Map<ValueId, TensorId> {
  const out = new Map<ValueId, TensorId>();
  for (const t of graph.tensors.keys()) {
    const v = lowered.base.get(t);
    // The first tensor, in the file's order, that the value stands for: views of it come later.
    if (v !== undefined && !graph.tensors.has(v) && !out.has(v)) out.set(v, t);
  }
  for (const o of graph.outputs) out.set(`${o.tensor}.out`, o.tensor);
  return out;
}

function tensorViews(graph: Graph, lowered: Lowered): TensorView[] {
  const bind = (s: string): number | undefined => graph.dims.get(s);
  const out: TensorView[] = [];
  for (const t of graph.tensors.values()) {
    const type = lowered.types.get(t.id) ?? t.type;
    const shape = type?.shape ?? [];
    const sizes = shape.map((d) => I.evaluate(d, bind));
    const elements = type ? sizes.reduce((p, n) => p * n, 1) : 0;
    out.push({
      id: t.id,
      name: t.name,
      dtype: type?.dtype ?? 'f32',
      shape: type ? shape.map((d) => I.constOf(d) ?? I.printIndex(d)) : ['?'],
      ...(shape.some((d) => I.constOf(d) === undefined) ? { sizes } : {}),
      elements,
      bytes: type ? contentBytes(type.dtype, elements) : 0,
      role: t.role,
      ...(t.range ? { range: t.range } : {}),
    });
  }
  return out;
}

function nodeViews(
  graph: Graph,
  lowered: Lowered,
  after: PlanView,
  unfused: Plan,
  computeClasses: readonly IndexClass[],
): NodeView[] {
  const kernelOf = new Map<NodeId, string>();
  for (const k of after.kernels)
    for (const n of k.nodes) if (!kernelOf.has(n)) kernelOf.set(n, k.id);
  // What no run computes.
  for (const k of after.prepared ?? [])
    for (const n of k.nodes) if (!kernelOf.has(n)) kernelOf.set(n, k.id);
  const flops = new Map<NodeId, number>();
  for (const k of unfused.kernels) {
    let n: NodeId | undefined;
    for (let i = 0; i < k.members.length && n === undefined; i++)
      n = lowered.program.computes[k.members[i] ?? -1]?.origin[0];
    if (n !== undefined) flops.set(n, (flops.get(n) ?? 0) + k.scheduled.features.flops);
  }
  const classes = new Map<NodeId, NodeView['indexClass']>();
  const rank = [
    'elementwise',
    'broadcast',
    'injective',
    'gather',
    'stencil',
    'reduction',
    'contraction',
  ];
  lowered.program.computes.forEach((c, i) => {
    const k = computeClasses[i] ?? 'elementwise';
    for (const o of c.origin) {
      const old = classes.get(o);
      if (old === undefined || rank.indexOf(k) > rank.indexOf(old)) classes.set(o, k);
    }
  });
  return graph.nodes.map((n) => {
    const kernel = kernelOf.get(n.id);
    const indexClass = classes.get(n.id);
    const unsupported = lowered.unsupported.get(n.id);
    return {
      id: n.id,
      op: n.op,
      sourceOp: n.sourceOp,
      name: n.name,
      kind: lowered.kinds.get(n.id) ?? 'opaque',
      operands: n.operands,
      results: n.results,
      attrs: attrText(n.attrs),
      flops: flops.get(n.id) ?? 0,
      ...(n.range ? { range: n.range } : {}),
      ...(n.body !== undefined ? { region: n.body } : {}),
      ...(kernel !== undefined ? { kernel } : {}),
      ...(indexClass !== undefined ? { indexClass } : {}),
      ...(unsupported !== undefined ? { unsupported } : {}),
    };
  });
}

function regionViews(
  graph: Graph,
  program: Program,
  before: PlanView,
  after: PlanView,
): RegionView[] {
  const byId = new Map(graph.nodes.map((n) => [n.id, n]));
  const bodyView = (id: string, title: string): RegionView['bodies'][number] => ({
    id,
    title,
    nodes: graph.nodes.filter((x) => x.body === id).map((x) => x.id),
    kernelsBefore: before.kernels.filter((k) => k.region === id).map((k) => k.id),
    kernels: after.kernels.filter((k) => k.region === id).map((k) => k.id),
  });
  const bound = (d: I.Dim): number => I.evaluate(d, (s) => graph.dims.get(s));
  const own = new Set((graph.regions ?? []).map((r) => r.id));
  // Loops that an op made of itself.
  const made = (program.regions ?? []).flatMap((r): RegionView[] => {
    if (r.kind !== 'loop' || own.has(r.id)) return [];
    const first = program.computes.find((c) => c.region === r.body)?.origin[0] ?? '';
    const n = byId.get(first);
    const name = n?.name || (n?.results[0] && graph.tensors.get(n.results[0])?.name) || first;
    return [
      {
        id: r.id,
        kind: 'loop',
        ...(r.parent === undefined ? {} : { parent: r.parent }),
        ...(r.trips ? { trips: bound(r.trips) } : {}),
        bodies: [bodyView(r.body, `${n?.sourceOp ?? 'loop'} ${name}: steps`)],
      },
    ];
  });
  const written = (graph.regions ?? []).map((r): RegionView => {
    const n = byId.get(r.id);
    const result = n?.results[0] === undefined ? undefined : graph.tensors.get(n.results[0])?.name;
    const whole = `${n?.sourceOp ?? 'region'} ${n?.name || result || r.id}`;
    const body = (id: string): RegionView['bodies'][number] =>
      bodyView(id, `${whole}: ${id.slice(id.lastIndexOf('/') + 1)}`);
    const lowered = program.regions?.find((x) => x.id === r.id);
    const trips = lowered?.kind === 'loop' ? lowered.trips : undefined;
    return {
      id: r.id,
      kind: r.kind,
      ...(r.parent === undefined ? {} : { parent: r.parent }),
      ...(trips ? { trips: bound(trips) } : {}),
      bodies: r.kind === 'loop' ? [body(r.body)] : [body(r.then.body), body(r.else.body)],
    };
  });
  return [...written, ...made];
}

function attrText(attrs: Graph['nodes'][number]['attrs']): string {
  const parts: string[] = [];
  for (const [k, v] of Object.entries(attrs)) {
    if (v === undefined || k === 'opset') continue;
    if (typeof v === 'object' && 'tensor' in v) parts.push(`${k}=<tensor>`);
    else if (typeof v === 'object' && 'dims' in v) parts.push(`${k}=${I.printShape(v.dims)}`);
    else if (typeof v === 'object')
      parts.push(`${k}=[${v.slice(0, 8).join(', ')}${v.length > 8 ? ', …' : ''}]`);
    else
      parts.push(
        `${k}=${typeof v === 'number' && !Number.isInteger(v) ? Number(v.toPrecision(6)) : v}`,
      );
  }
  return parts.join(', ');
}

/** Faults of what was asked of the plan: the graph itself runs all the same. */
const REQUESTS: ReadonlySet<string> = new Set([
  'EXPECTATION_FAILED',
  'REQUIRED_BUT',
  'BAD_SCHEDULE',
]);

function runnable(
  graph: Graph,
  lowered: Lowered,
  plan: Plan,
  diagnostics: readonly Diagnostic[],
  f16: boolean,
): CompileResult['runnable'] {
  const ops = [...lowered.unsupported.keys()];
  if (ops.length > 0) {
    const opOf = new Map(graph.nodes.map((n) => [n.id, n.sourceOp]));
    const names = [...new Set(ops.map((id) => opOf.get(id) ?? id))];
    return {
      ok: false,
      reason: `${ops.length === 1 ? 'one op is' : `${ops.length} ops are`} not analysed (${names.slice(0, 5).join(', ')}${names.length > 5 ? '…' : ''})`,
    };
  }
  const slice = oddSlice(lowered.program, f16);
  if (slice !== undefined)
    return {
      ok: false,
      reason: `${slice} is handed to a loop in slices of an odd number of f16 elements, which can't be copied`,
    };
  if (plan.impossible.length > 0)
    return { ok: false, reason: 'some ops can’t be made kernels on this adapter' };
  const fault = diagnostics.find((d) => d.severity === 'error' && !REQUESTS.has(d.code));
  if (fault) return { ok: false, reason: fault.message };
  if (graph.outputs.length === 0) return { ok: false, reason: 'the graph has no outputs' };
  return { ok: true };
}

/** Buffers are copied in multiples of 4 bytes, and slices lie one after the other. */
function oddSlice(program: Program, f16: boolean): string | undefined {
  const odd = (part: ValueId): boolean => {
    const v = program.values.get(part);
    if (!v || storageBytes(storageOf(v.dtype, f16)) !== 2) return false;
    return v.shape.reduce((n, d) => n * I.evaluate(d, (s) => program.dims.get(s)), 1) % 2 === 1;
  };
  for (const r of program.regions ?? []) {
    if (r.kind !== 'loop') continue;
    const part = [...r.sliced.map((s) => s.formal), ...r.stacked.map((s) => s.element)].find(odd);
    if (part !== undefined) return program.values.get(part)?.name ?? part;
  }
  return undefined;
}
