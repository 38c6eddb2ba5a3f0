/**
 * Notifications. VS Code makes links of `[text](command:…)` in them, so a file or a tensor with such a
 * name could offer any command: what is shown passes through {@link withoutLinks}, and nothing else in
 * the extension shows notifications.
 */
import * as vscode from 'vscode';
import { withoutLinks } from '../common/markdown';

export type Severity = 'info' | 'warning' | 'error';

export interface Action {
  readonly title: string;
  run(): unknown;
}

/** Resolves when it is answered or closed, and the chosen action has run. */
export async function notify(
  severity: Severity,
  message: string,
  actions: readonly Action[] = [],
): Promise<void> {
  const { window } = vscode;
  const text = withoutLinks(message);
  const titles = actions.map(({ title }) => title);
  const show = {
    info: () => window.showInformationMessage(text, ...titles),
    warning: () => window.showWarningMessage(text, ...titles),
    error: () => window.showErrorMessage(text, ...titles),
  };
  const chosen = await show[severity]();
  await actions.find(({ title }) => title === chosen)?.run();
}
