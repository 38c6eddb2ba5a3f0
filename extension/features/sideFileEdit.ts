/**
 * Adds a directive to a side file's text. Pure, so that a damaged file is refused rather than
 * overwritten: what stands in it is a person's work.
 */
export type SideFileEdit =
  { readonly ok: true; readonly text: string } | { readonly ok: false; readonly reason: string };

/** @param text undefined: there is no side file yet */
export function addFuseDirective(
  text: string | undefined,
  values: readonly [string, string],
): SideFileEdit {
  const directive = { kind: 'fuse', values };
  if (text === undefined || text.trim() === '')
    return { ok: true, text: print({ version: 1, directives: [directive] }) };
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch {
    return { ok: false, reason: 'it is not valid JSON' };
  }
  if (typeof file !== 'object' || file === null || Array.isArray(file))
    return { ok: false, reason: 'it is not a JSON object' };
  const fields = file as Record<string, unknown>;
  if (fields['version'] !== 1) return { ok: false, reason: 'it is not of version 1' };
  const { directives = [] } = fields;
  if (!Array.isArray(directives)) return { ok: false, reason: '"directives" is not a list' };
  return {
    ok: true,
    text: print({ ...fields, directives: [...(directives as unknown[]), directive] }),
  };
}

function print(file: unknown): string {
  return `${JSON.stringify(file, undefined, 2)}\n`;
}
