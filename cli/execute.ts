/**
 * Running a model once on given tensors: matching them with the graph's inputs, binding sizes,
 * specialising on operands that ops must know when compiling, and reading results back.
 */
import type { Compilation } from '../compiler';
import type { Graph, NodeId, Tensor, TensorId } from '../compiler/graph/graph';
import { constOf, evaluate } from '../compiler/ir/indexExpr';
import type { BufferSpec, DeviceProfile, ExecPlan } from '../compiler/result';
import type {
  CancelSignal,
  ProfileOptions,
  RunJob,
  Runner,
  RunnerFault,
  RunOutput,
} from '../runner/core/types';
import { plain } from './format/table';
import { operandsToKnow } from './knownOperands';
import { compileModel, type Model, UNSUPPORTED_TYPES } from './load';
import { specialise } from './tensors/specialise';
import { bad, fromStorage, good, type HostTensor, type Outcome, toStorage } from './tensors/tensor';

export type GivenTensors = ReadonlyMap<TensorId, HostTensor>;

export interface Prepared {
  readonly compilation: Compilation;
  readonly exec: ExecPlan;
  readonly inputs: RunJob['inputs'];
  /** Names of inputs whose contents were compiled in. */
  readonly specialised: readonly string[];
}

export interface Refusal {
  readonly kind: 'unsupported' | 'fault';
  readonly code: string;
  readonly message: string;
  readonly compilation: Compilation;
}

/** Faults that say what the compiler lacks, not what is wrong with the file. */
const UNSUPPORTED: ReadonlySet<string> = new Set(['UNSUPPORTED_OP', ...UNSUPPORTED_TYPES]);

/**
 * Compiles the model for these tensors. `given` is keyed by the ids of the graph's inputs (and of
 * parameters that are to be replaced).
 */
export function prepare(
  model: Model,
  first: Compilation,
  given: GivenTensors,
  device: DeviceProfile | undefined,
):
  | { readonly ok: true; readonly value: Prepared }
  | { readonly ok: false; readonly refusal: Refusal } {
  let compilation = first;
  const specialised = new Map<TensorId, HostTensor>();
  const refuse = (
    kind: Refusal['kind'],
    code: string,
    message: string,
  ): { ok: false; refusal: Refusal } => ({
    ok: false,
    refusal: { kind, code, message, compilation },
  });
  const dims = bindSizes(first.graph, given);
  if (!dims.ok) return refuse('fault', 'SHAPE_MISMATCH', dims.message);
  const options = { dims: dims.value, ...(device ? { device } : {}) };
  if (Object.keys(dims.value).length > 0) compilation = compileModel(model, options);
  // Each round can make known what the next one needs.
  for (let round = 0; round < 4 && first.graph.format === 'onnx'; round++) {
    const wanted = operandsToKnow(compilation.graph, opaqueNodes(compilation)).filter(
      (id) => given.has(id) && !specialised.has(id),
    );
    if (wanted.length === 0) break;
    for (const id of wanted) {
      const t = given.get(id);
      const name = first.graph.tensors.get(id)?.name;
      if (t && name !== undefined) specialised.set(id, { ...t, name });
    }
    const bytes = specialise(model.bytes, [...specialised.values()]);
    compilation = compileModel({ ...model, bytes }, options);
  }
  const opaque = compilation.result.graph.nodes.find((n) => n.kind === 'opaque');
  const errors = compilation.result.diagnostics.filter((d) => d.severity === 'error');
  const wrong = errors.find((d) => !UNSUPPORTED.has(d.code));
  if (wrong) return refuse('fault', wrong.code, wrong.message);
  const missing = errors.find((d) => d.code !== 'UNSUPPORTED_OP');
  if (missing) return refuse('unsupported', missing.code, missing.message);
  if (opaque)
    return refuse(
      'unsupported',
      'UNSUPPORTED_OP',
      errors[0]?.message ?? `${opaque.sourceOp}: ${opaque.unsupported ?? 'not supported'}`,
    );
  const { runnable } = compilation.result;
  if (!runnable.ok) return refuse('unsupported', 'NOT_RUNNABLE', runnable.reason);
  const exec = compilation.execPlan('fused', dims.value);
  const inputs = bindInputs(exec.buffers, given);
  if (!inputs.ok) return refuse('fault', 'BAD_INPUT', inputs.message);
  const names = [...specialised.values()].map((t) => t.name);
  return { ok: true, value: { compilation, exec, inputs: inputs.value, specialised: names } };
}

function opaqueNodes(c: Compilation): Set<NodeId> {
  return new Set(c.result.graph.nodes.filter((n) => n.kind === 'opaque').map((n) => n.id));
}

/** Symbolic sizes by the shapes of the tensors given. */
function bindSizes(graph: Graph, given: GivenTensors): Outcome<Readonly<Record<string, number>>> {
  const dims = new Map<string, { size: number; by: string }>();
  for (const [id, t] of given) {
    const declared = graph.tensors.get(id);
    if (!declared?.type) continue;
    const shape = declared.type.shape;
    const says = `${plain(declared.name)} has shape [${t.shape.join(', ')}]`;
    if (shape.length !== t.shape.length)
      return bad(`${says}, but the graph declares rank ${shape.length}`);
    for (const [i, d] of shape.entries()) {
      const size = t.shape[i] ?? 0;
      const fixed = constOf(d);
      if (fixed !== undefined && fixed !== size)
        return bad(`${says}, but the graph declares ${fixed} for dimension ${i}`);
      const name = onlySymbol(declared, i);
      if (name === undefined) continue;
      const old = dims.get(name);
      if (old && old.size !== size)
        return bad(`${says}, but ${old.by} gives ${name} = ${old.size}`);
      dims.set(name, { size, by: plain(declared.name) });
    }
  }
  return good(Object.fromEntries([...dims].map(([name, { size }]) => [name, size])));
}

function onlySymbol(t: Tensor, axis: number): string | undefined {
  const d = t.type?.shape[axis];
  const term = d?.terms[0];
  const atom = term?.factors[0];
  const alone = d?.c === 0 && d.terms.length === 1 && term?.coef === 1 && term.factors.length === 1;
  return alone && atom?.kind === 'sym' ? atom.name : undefined;
}

function bindInputs(
  buffers: readonly BufferSpec[],
  given: GivenTensors,
): Outcome<RunJob['inputs']> {
  const out: RunJob['inputs'][number][] = [];
  for (const b of buffers) {
    const t = given.get(b.id);
    if (b.role !== 'input' && !(b.role === 'param' && t)) continue;
    const name = plain(b.name);
    if (!t) return bad(`there is no tensor for the input ${name}`);
    if (t.shape.join() !== b.shape.join())
      return bad(`${name} has shape [${t.shape.join(', ')}] instead of [${b.shape.join(', ')}]`);
    const data = toStorage(t, b.dtype, b.storage);
    if (!data.ok) return bad(`${name}: ${data.message}`);
    out.push({ buffer: b.id, data: data.value });
  }
  return good(out);
}

/** The outputs of the graph, in their own types and shapes. */
export function hostOutputs(prepared: Prepared, outputs: readonly RunOutput[]): HostTensor[] {
  const { program } = prepared.compilation;
  return outputs.map((o, i) => {
    const declared = program.outputs[i];
    const shape =
      declared?.name === o.name
        ? declared.shape.map((d) => evaluate(d, (s) => program.dims.get(s)))
        : o.buffer.shape;
    return fromStorage(o.name, o.buffer.dtype, shape, o.data, o.buffer.storage);
  });
}

export interface Executed {
  readonly prepared: Prepared;
  readonly outputs: readonly HostTensor[];
}

export type Execution =
  | { readonly ok: true; readonly value: Executed }
  | {
      readonly ok: false;
      readonly kind: Refusal['kind'] | 'runner';
      readonly code: string;
      readonly message: string;
      readonly compilation: Compilation;
      readonly fault?: RunnerFault;
    };

/** Prepares and runs. */
export async function execute(
  model: Model,
  compilation: Compilation,
  given: GivenTensors,
  runner: Runner,
  options: ProfileOptions,
  signal: CancelSignal,
  device?: DeviceProfile,
): Promise<Execution> {
  const p = prepare(model, compilation, given, device);
  if (!p.ok) return { ok: false, ...p.refusal };
  const job: RunJob = { exec: p.value.exec, inputs: p.value.inputs, options };
  const reply = await runner.run(job, () => undefined, signal);
  if (!reply.ok) {
    const { fault } = reply;
    const kernel = fault.kernel === undefined ? '' : ` (kernel ${fault.kernel})`;
    return {
      ok: false,
      kind: 'runner',
      code: fault.code,
      message: fault.message + kernel,
      compilation: p.value.compilation,
      fault,
    };
  }
  return { ok: true, value: { prepared: p.value, outputs: hostOutputs(p.value, reply.value) } };
}
