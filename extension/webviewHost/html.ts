/**
 * The page of a graph panel: our bundle and nothing else.
 *
 * Its content security policy allows one script (by nonce), our styles (inline ones too: the component
 * library sets them), and workers from blobs; `connect-src` lets the page fetch the layout worker's
 * script to make such a blob. Nothing is loaded from outside the extension.
 */
export interface PageParts {
  readonly cspSource: string;
  readonly script: string;
  readonly style: string;
  readonly layoutWorker: string;
  /** The graph's URI: the page keeps it in its state, so that a reloaded window finds the file. */
  readonly uri: string;
  readonly title: string;
}

export function graphPage(parts: PageParts): string {
  const nonce = makeNonce();
  const policy = [
    `default-src 'none'`,
    `script-src 'nonce-${nonce}'`,
    `style-src ${parts.cspSource} 'unsafe-inline'`,
    `img-src ${parts.cspSource} data: blob:`,
    `font-src ${parts.cspSource}`,
    `connect-src ${parts.cspSource}`,
    `worker-src blob:`,
    `form-action 'none'`,
    `base-uri 'none'`,
  ].join('; ');
  const attribute = (text: string) => escapeHtml(text);
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="UTF-8">
<meta http-equiv="Content-Security-Policy" content="${attribute(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${attribute(parts.title)}</title>
<link rel="stylesheet" href="${attribute(parts.style)}">
</head>
<body data-uri="${attribute(parts.uri)}" data-layout-worker="${attribute(parts.layoutWorker)}">
<main id="app"></main>
<script nonce="${nonce}" src="${attribute(parts.script)}"></script>
</body>
</html>`;
}

function makeNonce(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
