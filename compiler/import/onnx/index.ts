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
import { type OnnxModel, readModel } from './proto';
import { readSideFile } from './sideFile';
import { WireReader, type WireState } from './wire';

/** A file's messages, or what is wrong with it. */
export type OnnxFile =
  | { readonly ok: true; readonly model: OnnxModel }
  | { readonly ok: false; readonly fault: Diagnostic };

/** Reads the messages of a file, once for however many graphs are made of it. */
export function readOnnx(outline: FileOutline): OnnxFile {
  const state: WireState = {};
  const model = readModel(WireReader.of(outline, state));
  const bad = (code: string, message: string): OnnxFile => ({
    ok: false,
    fault: error(code, message),
  });
  if (state.fault)
    return bad(
      'MALFORMED',
      `this is no ONNX model, or a damaged one: at byte ${state.fault.offset} ${state.fault.message}`,
    );
  if (model.graph) return { ok: true, model };
  return bad(
    'NO_GRAPH',
    outline.bytes.length === 0
      ? 'the file is empty'
      : 'this is no ONNX model: there is no graph in it',
  );
}

export function importOnnx(
  file: Uint8Array | FileOutline,
  fileName: string,
  sideFile?: string,
): ImportResult {
  const outline = file instanceof Uint8Array ? { bytes: file, cuts: [] } : file;
  return graphOfOnnx(readOnnx(outline), fileName, sideFile);
}

/** `knowledge`, when given, is asked what the file doesn't say; while it is open the graph is a draft. */
export function graphOfOnnx(
  file: OnnxFile,
  fileName: string,
  sideFile?: string,
  knowledge = new Knowledge(),
): ImportResult {
  if (!file.ok) return { graph: emptyGraph(fileName), diagnostics: [file.fault] };
  const diagnostics: Diagnostic[] = [];
  const graph = buildGraph(file.model, fileName, diagnostics, knowledge);
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
