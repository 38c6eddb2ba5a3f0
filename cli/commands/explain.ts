/**
 * `explain`: what fuses, what doesn't and why, from the compiler alone. Needs no GPU.
 */
import {
  type CompileResult,
  type KernelView,
  opsOneByOne,
  type PlanView,
} from '../../compiler/result';
import { explainText } from '../format/explainText';
import { jsonPieces } from '../format/json';
import { ADAPTER_FLAG, NO_TUNING_FLAG } from '../tuningFile';
import {
  type Command,
  type Context,
  DEVICE_FLAG,
  DIM_FLAG,
  EXIT,
  type ExitCode,
  hasErrors,
  HELP_FLAG,
  JSON_FLAG,
} from './command';
import { openForEstimates } from './opened';

export const explain: Command = {
  name: 'explain',
  positional: 'FILE',
  summary: 'shows the kernels that a graph becomes, and for each edge why it was or was not fused',
  details: [
    'Exits with 1 when the graph has faults or an "expect" line of it does not hold.',
    'Times are estimates of the cost model for a device; "profile" measures.',
  ],
  flags: [
    JSON_FLAG,
    DIM_FLAG,
    DEVICE_FLAG,
    NO_TUNING_FLAG,
    ADAPTER_FLAG,
    { name: 'all', doc: 'list the fused edges too' },
    { name: 'steps', doc: 'list how the plan came about, step by step' },
    HELP_FLAG,
  ],
  run,
};

async function run(context: Context): Promise<ExitCode> {
  const { args, terminal } = context;
  const opened = await openForEstimates(context);
  if (!opened.ok) return opened.exit;
  const { compilation } = opened.value;
  const { result } = compilation;
  const steps = args.switches.has('steps') ? compilation.steps() : undefined;
  if (args.switches.has('json'))
    await terminal.printPieces(jsonPieces({ ...explainJson(result), ...(steps ? { steps } : {}) }));
  else
    terminal.print(
      explainText(result, {
        paint: terminal.paint,
        all: args.switches.has('all'),
        steps: steps ?? [],
        ...(steps ? { start: compilation.planAt(0).plan } : {}),
      }),
    );
  return hasErrors(compilation) || result.expectations.some((e) => !e.held)
    ? EXIT.fault
    : EXIT.held;
}

/** `fusion-lens/explain@1`. */
export function explainJson(result: CompileResult): Record<string, unknown> {
  const names = new Map(result.graph.tensors.map((t) => [t.id, t.name]));
  return {
    schema: 'fusion-lens/explain@1',
    file: result.file,
    format: result.format,
    diagnostics: result.diagnostics,
    dims: result.dims,
    device: result.device.name,
    before: {
      ...planJson(result.before),
      kernels: opsOneByOne(result),
      dispatched: result.before.kernels.length,
    },
    after: planJson(result.after),
    kernels: result.after.kernels.map((k) => kernelJson(k)),
    ...(result.after.prepared ? { prepared: result.after.prepared.map((k) => kernelJson(k)) } : {}),
    decisions: result.decisions.map((d) => ({
      from: d.from,
      to: d.to,
      tensor: d.tensor,
      name: names.get(d.tensor) ?? d.tensor,
      fused: d.fused,
      ...(d.kernel === undefined ? {} : { kernel: d.kernel }),
      ...(d.edgeClass === undefined ? {} : { edgeClass: d.edgeClass }),
      summary: d.summary,
      verdicts: d.verdicts,
    })),
    ...(result.regions ? { regions: result.regions } : {}),
    expectations: result.expectations,
    overrides: result.overrides,
    ...(result.tunedPlans.length > 0 ? { tunedPlans: result.tunedPlans } : {}),
    nodes: result.graph.nodes,
    tensors: result.graph.tensors,
    inputs: result.graph.inputs,
    outputs: result.graph.outputs,
    runnable: result.runnable,
    stages: result.stages,
  };
}

function planJson(p: PlanView): Record<string, number> {
  return {
    kernels: p.kernels.length,
    bytesRead: p.bytesRead,
    bytesWritten: p.bytesWritten,
    flops: p.flops,
    estimatedUs: p.estimatedUs,
    peakBytes: p.peakBytes,
    intermediateBytes: p.intermediateBytes,
    arenaBytes: p.arenaBytes,
  };
}

function kernelJson(k: KernelView): unknown {
  return {
    id: k.id,
    hash: k.hash,
    label: k.label,
    pattern: k.pattern,
    template: k.template,
    ...(k.region === undefined ? {} : { region: k.region }),
    nodes: k.nodes,
    inputs: k.inputs,
    outputs: k.outputs,
    bytesRead: k.bytesRead,
    bytesWritten: k.bytesWritten,
    flops: k.flops,
    estimatedUs: k.estimatedUs,
    estimatedUnfusedUs: k.estimatedUnfusedUs,
    savedBytes: k.savedBytes,
    savedLaunches: k.savedLaunches,
    bound: k.bound,
    dispatches: k.dispatches,
    workgroup: k.workgroup,
    grid: k.grid,
    schedule: k.schedule,
    ...(k.tuned ? { tuned: k.tuned } : {}),
    registers: k.registers,
    notes: k.notes,
  };
}
