/** Which files and documents are graphs. */
import * as vscode from 'vscode';

export const FUSE_LANGUAGE = 'fuse';

/** For the language features: the editor itself matches by language. */
export const FUSE_SELECTOR: vscode.DocumentSelector = { language: FUSE_LANGUAGE };

/** Every graph file of the workspace. */
export const GRAPH_GLOB = '**/*.{fuse,onnx}';

/** A side file holds the directives for a graph in a binary format. */
const SIDE_FILE_SUFFIX = '.fusion.json';
export const SIDE_FILE_GLOB = `**/*${SIDE_FILE_SUFFIX}`;

/** Old versions of a file, as diff editors show them: readable, but nothing to compile or report. */
const PAST_SCHEMES: ReadonlySet<string> = new Set(['git', 'gitfs', 'vscode-local-history']);

export function isGraphUri(uri: vscode.Uri): boolean {
  return /\.(fuse|onnx)$/i.test(uri.path) && !PAST_SCHEMES.has(uri.scheme);
}

export function isGraphDocument(document: vscode.TextDocument): boolean {
  return document.languageId === FUSE_LANGUAGE && !PAST_SCHEMES.has(document.uri.scheme);
}

export function isBinaryGraph(uri: vscode.Uri): boolean {
  return /\.onnx$/i.test(uri.path);
}

export function sideFileOf(graph: vscode.Uri): vscode.Uri {
  return graph.with({ path: graph.path + SIDE_FILE_SUFFIX });
}

export function graphOfSideFile(sideFile: vscode.Uri): vscode.Uri {
  return sideFile.with({ path: sideFile.path.slice(0, -SIDE_FILE_SUFFIX.length) });
}

export function fileName(uri: vscode.Uri): string {
  return uri.path.slice(uri.path.lastIndexOf('/') + 1);
}

/** What everything keys by. */
export function keyOf(uri: vscode.Uri): string {
  return uri.toString();
}

export function openDocument(key: string): vscode.TextDocument | undefined {
  return vscode.workspace.textDocuments.find(
    (document) => document.uri.toString() === key && isGraphDocument(document),
  );
}
