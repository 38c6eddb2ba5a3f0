/** Values of flags. */
export function positive(text: string, flag: string): number {
  const n = Number(text);
  if (n > 0) return n;
  throw new Error(`${flag} must be a number above 0, not ${text}`);
}
