/**
 * ONNX files to L0.
 *
 * `importOnnx` is total: whatever the bytes are, it returns a graph of what it could read and all
 * diagnostics. Weights stay views of the outline's bytes, or references to where they are: in the
 * model file, where the outline has left them out, or beside it.
 */
import { type Diagnostic, error } from '../../diagnostics';
import type { Graph, ImportResult } from '../../graph/graph';
import { buildGraph } from './importer';
import { Knowledge } from './knowledge';
import type { FileOutline } from './outline';
import { readModel } from './proto';
import { readSideFile } from './sideFile';
import { WireReader, type WireState } from './wire';

/** `knowledge`, when given, is asked what the file doesn't say; while it is open the graph is a draft. */
export function importOnnx(
  file: Uint8Array | FileOutline,
  fileName: string,
  sideFile?: string,
  knowledge = new Knowledge(),
): ImportResult {
  const diagnostics: Diagnostic[] = [];
  const outline = file instanceof Uint8Array ? { bytes: file, cuts: [] } : file;
  const state: WireState = {};
  const model = readModel(WireReader.of(outline, state));
  if (state.fault) {
    diagnostics.push(
      error(
        'MALFORMED',
        `this is no ONNX model, or a damaged one: at byte ${state.fault.offset} ${state.fault.message}`,
      ),
    );
    return { graph: emptyGraph(fileName), diagnostics };
  }
  if (!model.graph) {
    const message =
      outline.bytes.length === 0
        ? 'the file is empty'
        : 'this is no ONNX model: there is no graph in it';
    diagnostics.push(error('NO_GRAPH', message));
    return { graph: emptyGraph(fileName), diagnostics };
  }
  const graph = buildGraph(model, fileName, diagnostics, knowledge);
  if (sideFile === undefined) return { graph, diagnostics };
  const directives = readSideFile(sideFile, graph, diagnostics);
  return { graph: { ...graph, directives }, diagnostics };
}

function emptyGraph(name: string): Graph {
  return {
    format: 'onnx',
    name,
    nodes: [],
    tensors: new Map(),
    inputs: [],
    outputs: [],
    dims: new Map(),
    directives: [],
  };
}
