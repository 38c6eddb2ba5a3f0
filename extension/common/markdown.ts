/**
 * Markdown for hovers. Whatever comes from a user's file passes through {@link escapeMarkdown} or
 * {@link inlineCode}; links are made here and lead to our own commands alone.
 */

/** Text that shows as it is: no emphasis, links, tables, HTML or icons come of it. */
export function escapeMarkdown(text: string): string {
  return text
    .replace(/\s+/g, ' ')
    .replace(/[\\`*_{}[\]()#+\-.!|<>~$&:@]/g, (character) => `\\${character}`);
}

/** A code span whose fence is longer than any run of backticks in the text. */
export function inlineCode(text: string): string {
  const line = text.replace(/\s+/g, ' ');
  const longest = Math.max(0, ...[...line.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = '`'.repeat(longest + 1);
  const pad = longest > 0 ? ' ' : '';
  return `${fence}${pad}${line}${pad}${fence}`;
}

/** A link that runs a command; the title is our own wording. */
export function commandLink(
  title: string,
  command: string,
  args: readonly unknown[],
  tooltip: string,
): string {
  const query = encodeURIComponent(JSON.stringify(args)).replace(
    /[()']/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `[${title}](command:${command}?${query} "${tooltip.replace(/["\\]/g, '')}")`;
}

/** For notifications, which know no Markdown but links: what looks like one shows as it is written. */
export function withoutLinks(text: string): string {
  return text.replace(/\](?=\()/g, ']\u200b');
}
