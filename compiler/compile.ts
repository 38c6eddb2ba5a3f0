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
import type { Graph, ImportResult, TensorId } from './graph/graph';
import { importFuseKnowing } from './import/fuse';
import { graphOfOnnx, type OnnxFile, readOnnx } from './import/onnx';
import { GraphViews, regionViews } from './graphViews';
import { selectable } from './ops/selectable';
import { Knowledge } from './import/onnx/knowledge';
import type { Compilation, CompileOptions, CompileSource } from './index';
import type { Program } from './ir/compute';
import type { ValueId } from './ir/expr';
import * as I from './ir/indexExpr';
import { type Lowered, lowerGraph } from './ops/lower';
import { type Import, settleSizes } from './sizes';
import type { CompileResult, ExecPlan, KernelView, PlanPart } from './result';
import { storageBytes, storageOf } from './graph/dtype';
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

  const views = new GraphViews(options.memory?.views);
  const result: CompileResult = {
    file: source.file,
    format: graph.format,
    version: options.version ?? 0,
    diagnostics,
    dims: Object.fromEntries(graph.dims),
    graph: {
      name: graph.name,
      nodes: views.nodes(
        graph,
        lowered,
        after,
        plans.unfused,
        classesOf(program, plans.search.memo.signatures),
      ),
      tensors: views.tensors(graph, lowered),
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
