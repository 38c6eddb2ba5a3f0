/**
 * The one file that knows @vscode/webview-ui-toolkit: builders for the controls that the panel uses.
 * Another component library would replace this file and nothing else.
 */
import {
  provideVSCodeDesignSystem,
  vsCodeButton,
  vsCodeCheckbox,
  vsCodeProgressRing,
  vsCodeTextField,
} from '@vscode/webview-ui-toolkit';

export function registerComponents(): void {
  provideVSCodeDesignSystem().register(
    vsCodeButton(),
    vsCodeCheckbox(),
    vsCodeProgressRing(),
    vsCodeTextField(),
  );
}

export interface Control<T> {
  readonly element: HTMLElement;
  set(value: T): void;
}

export interface ButtonControl {
  readonly element: HTMLElement;
  setDisabled(disabled: boolean, why?: string): void;
  setText(text: string): void;
}

export function button(
  text: string,
  options: {
    readonly kind?: 'primary' | 'secondary' | 'icon';
    readonly label?: string;
    readonly onClick: () => void;
  },
): ButtonControl {
  const element = document.createElement('vscode-button');
  element.setAttribute('appearance', options.kind ?? 'secondary');
  element.textContent = text;
  const label = options.label;
  if (label !== undefined) {
    element.setAttribute('aria-label', label);
    element.title = label;
  }
  element.addEventListener('click', () => {
    if (!element.hasAttribute('disabled')) options.onClick();
  });
  return {
    element,
    setDisabled(disabled, why) {
      element.toggleAttribute('disabled', disabled);
      element.title = disabled && why !== undefined ? why : (label ?? '');
    },
    setText(next) {
      if (element.textContent !== next) element.textContent = next;
    },
  };
}

export function checkbox(
  text: string,
  options: { readonly title?: string; readonly onChange: (checked: boolean) => void },
): Control<boolean> {
  const element = document.createElement('vscode-checkbox');
  element.textContent = text;
  if (options.title !== undefined) element.title = options.title;
  // The component also reports changes that the program made.
  let current = false;
  element.addEventListener('change', () => {
    const checked = 'checked' in element && element.checked === true;
    if (checked === current) return;
    current = checked;
    options.onChange(checked);
  });
  return {
    element,
    set(value) {
      if (current === value) return;
      current = value;
      Object.assign(element, { checked: value });
    },
  };
}

export function searchField(options: {
  readonly placeholder: string;
  readonly label: string;
  readonly onInput: (text: string) => void;
  readonly onEnter: (backwards: boolean) => void;
  readonly onEscape: () => void;
}): Control<string> {
  const element = document.createElement('vscode-text-field');
  element.setAttribute('placeholder', options.placeholder);
  element.setAttribute('aria-label', options.label);
  const value = (): string =>
    'value' in element && typeof element.value === 'string' ? element.value : '';
  element.addEventListener('input', () => options.onInput(value()));
  element.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') options.onEnter(event.shiftKey);
    if (event.key === 'Escape') options.onEscape();
  });
  return {
    element,
    set(text) {
      if (value() !== text) Object.assign(element, { value: text });
    },
  };
}

export function progressRing(label: string): HTMLElement {
  const element = document.createElement('vscode-progress-ring');
  element.setAttribute('aria-label', label);
  return element;
}
