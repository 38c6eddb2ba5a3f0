/** The generated code of a kernel as a read-only document, kept up to date while it is open. */
import * as vscode from 'vscode';
import { type Disposable, Emitter, Owner } from '../common/lifecycle';
import { indexOf } from '../common/resultIndex';
import { shorten } from '../common/format';
import { fileName, keyOf } from '../services/graphUris';
import type { GraphResults } from '../services/results';

const SCHEME = 'fusion-lens-kernel';

export class KernelCode extends Owner implements vscode.TextDocumentContentProvider {
  private readonly changes = this.register(new Emitter<vscode.Uri>());
  readonly onDidChange = this.changes.event;

  /** Code that is open keeps its graph compiled, whether or not the graph is shown as well. */
  private readonly shown = new Map<string, Disposable>();

  constructor(private readonly results: GraphResults) {
    super();
    this.register(vscode.workspace.registerTextDocumentContentProvider(SCHEME, this));
    this.register(
      vscode.workspace.onDidCloseTextDocument(({ uri }) => {
        this.shown.get(uri.toString())?.dispose();
        this.shown.delete(uri.toString());
      }),
    );
    this.register({ dispose: () => this.shown.forEach((retained) => retained.dispose()) });
    this.register(
      results.onDidChange((key) => {
        if (results.get(key)?.fresh !== true) return;
        for (const { uri } of vscode.workspace.textDocuments)
          if (uri.scheme === SCHEME && parse(uri)?.graph === key) this.changes.fire(uri);
      }),
    );
  }

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const target = parse(uri);
    if (!target) return '// This address names no kernel.\n';
    const { graph, kernel } = target;
    const address = uri.toString();
    if (!this.shown.has(address)) this.shown.set(address, this.results.retain(graph));
    const reply = await this.results.ask('code', graph, (at) => ({ ...at, kernel }));
    if (!reply.ok) return comment(reply.message);
    if (reply.value.length === 0)
      return comment(`The graph has no kernel ${kernel} any more, or it needs no code.`);
    const parts = reply.value.map(({ code }, i) =>
      reply.value.length > 1
        ? `${comment(`dispatch ${i + 1} of ${reply.value.length}`)}\n${code}`
        : code,
    );
    return parts.join('\n');
  }

  async open(graph: vscode.Uri, kernel: string): Promise<void> {
    const { result } = await this.results.fresh(keyOf(graph));
    const label = result && indexOf(result).kernels.get(kernel)?.label;
    const uri = kernelUri(graph, kernel, label);
    const document = await vscode.workspace.openTextDocument(uri);
    await vscode.window.showTextDocument(document, {
      preview: true,
      viewColumn: vscode.window.activeTextEditor?.viewColumn ?? vscode.ViewColumn.Active,
    });
  }
}

/** `k2 matmul + bias + relu.wgsl`: the tab shows what the kernel does. */
function kernelUri(graph: vscode.Uri, kernel: string, label: string | undefined): vscode.Uri {
  const words = label ? ` ${shorten(label, 48).replace(/[/\\?#%]/g, '∕')}` : '';
  return vscode.Uri.from({
    scheme: SCHEME,
    path: `/${fileName(graph)}/${kernel}${words}.wgsl`,
    query: JSON.stringify({ graph: keyOf(graph), kernel }),
  });
}

function parse(uri: vscode.Uri): { readonly graph: string; readonly kernel: string } | undefined {
  try {
    const target: unknown = JSON.parse(uri.query);
    if (typeof target !== 'object' || target === null) return undefined;
    const { graph, kernel } = target as { graph?: unknown; kernel?: unknown };
    return typeof graph === 'string' && typeof kernel === 'string' ? { graph, kernel } : undefined;
  } catch {
    return undefined;
  }
}

function comment(text: string): string {
  return text
    .split('\n')
    .map((line) => `// ${line}\n`)
    .join('');
}
