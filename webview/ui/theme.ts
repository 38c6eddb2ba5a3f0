/** The theme's colours, read from VS Code's variables, and their palette put where the styles find it. */
import { PATTERNS } from '../render/patterns';
import {
  DARK_THEME,
  LIGHT_THEME,
  makePalette,
  type Palette,
  type ThemeKind,
} from '../render/palette';
import { markSheet, paletteVariables, patternSheet } from '../render/styles';

export class Theme {
  palette: Palette = makePalette(DARK_THEME);

  constructor(private readonly onChange: (palette: Palette) => void) {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(`${markSheet()}\n${patternSheet(PATTERNS)}`);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    this.read();
    // VS Code changes the body's class and the root's variables.
    const observer = new MutationObserver(() => {
      this.read();
      this.onChange(this.palette);
    });
    observer.observe(document.body, { attributes: true, attributeFilter: ['class'] });
    observer.observe(document.documentElement, { attributes: true, attributeFilter: ['style'] });
  }

  private read(): void {
    const root = document.documentElement;
    const style = getComputedStyle(root);
    const kind = themeKind(document.body.classList);
    const base = kind === 'light' || kind === 'hc-light' ? LIGHT_THEME : DARK_THEME;
    const get = (name: string, otherwise: string): string =>
      style.getPropertyValue(`--vscode-${name}`).trim() || otherwise;
    const contrast = get('contrastBorder', '');
    this.palette = makePalette({
      kind,
      background: get('editor-background', base.background),
      foreground: get('editor-foreground', base.foreground),
      focus: get('focusBorder', base.focus),
      warning: get('editorWarning-foreground', base.warning),
      error: get('editorError-foreground', base.error),
      ...(contrast === '' ? {} : { contrast }),
    });
    // On the app, not on the root: a change there would be seen as one of the theme.
    const app = document.getElementById('app');
    for (const [name, value] of paletteVariables(this.palette)) app?.style.setProperty(name, value);
  }
}

function themeKind(classes: DOMTokenList): ThemeKind {
  if (classes.contains('vscode-high-contrast-light')) return 'hc-light';
  if (classes.contains('vscode-high-contrast')) return 'hc-dark';
  return classes.contains('vscode-light') ? 'light' : 'dark';
}
