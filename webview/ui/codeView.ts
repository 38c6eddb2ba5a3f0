/** The code of a kernel: asked for when it is first shown, one block per dispatch. */
import type { CodeAnswer } from '../host';
import { button } from './components';
import { h } from './dom';
import { tokenize } from './wgsl';

/** Longer code is shown as plain text: colouring would cost more than it helps. */
const COLOUR_LIMIT = 60_000;

export function codeView(
  kernel: string,
  request: (kernel: string) => Promise<CodeAnswer>,
  onOpen: (kernel: string) => void,
  onFault: (message: string) => void,
): HTMLElement {
  const body = h('div', { class: 'code-body', aria: { busy: 'true' } }, 'Generating…');
  const open = button('Open in editor', { onClick: () => onOpen(kernel) });
  const tools = h('div', { class: 'row' }, open.element);
  const show = (answer: CodeAnswer): void => {
    body.removeAttribute('aria-busy');
    if ('error' in answer) {
      body.replaceChildren(h('p', { class: 'fault' }, answer.error));
      open.setDisabled(true, answer.error);
      return;
    }
    const copy = button('Copy', {
      label: `Copy the WGSL of ${kernel}`,
      onClick: () => {
        navigator.clipboard.writeText(answer.map(({ code }) => code).join('\n\n')).then(
          () => {
            copy.setText('Copied');
            setTimeout(() => copy.setText('Copy'), 1500);
          },
          (error: unknown) => onFault(`The code could not be copied: ${String(error)}`),
        );
      },
    });
    tools.prepend(copy.element);
    body.replaceChildren(
      ...answer.flatMap(({ code }, i) => [
        ...(answer.length > 1 ? [h('h4', {}, `Dispatch ${i + 1} of ${answer.length}`)] : []),
        h(
          'pre',
          { class: 'code', tabindex: 0, aria: { label: `WGSL of ${kernel}` } },
          h('code', {}, ...coloured(code)),
        ),
      ]),
    );
  };
  request(kernel).then(show, (error: unknown) => show({ error: String(error) }));
  return h('div', { class: 'code-view' }, tools, body);
}

function coloured(code: string): readonly (Node | string)[] {
  if (code.length > COLOUR_LIMIT) return [code];
  return tokenize(code).map(({ kind, text }) =>
    kind === 'plain' ? text : h('span', { class: `wgsl-${kind}` }, text),
  );
}
