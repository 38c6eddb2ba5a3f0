/** A short way to make elements. Text is always text: nothing here parses HTML. */

export type Child = Node | string | false | undefined;

export interface Attributes {
  readonly class?: string;
  readonly title?: string;
  readonly id?: string;
  readonly role?: string;
  readonly hidden?: boolean;
  readonly type?: string;
  readonly scope?: string;
  readonly tabindex?: number;
  readonly dataset?: Readonly<Record<string, string>>;
  readonly aria?: Readonly<Record<string, string>>;
  readonly onClick?: (event: MouseEvent) => void;
}

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const element: HTMLElementTagNameMap[K] = document.createElement(tag);
  const { class: className, hidden, dataset, aria, onClick, ...plain } = attributes;
  if (className !== undefined) element.className = className;
  if (hidden) element.hidden = true;
  for (const [name, value] of Object.entries(plain)) element.setAttribute(name, String(value));
  for (const [name, value] of Object.entries(dataset ?? {})) element.dataset[name] = value;
  for (const [name, value] of Object.entries(aria ?? {}))
    element.setAttribute(`aria-${name}`, value);
  if (onClick)
    element.addEventListener('click', (event) => {
      if (event instanceof MouseEvent) onClick(event);
    });
  append(element, children);
  return element;
}

export function append(parent: Node, children: readonly Child[]): void {
  for (const child of children)
    if (child !== undefined && child !== false)
      parent.appendChild(typeof child === 'string' ? document.createTextNode(child) : child);
}

/** A text button that looks like a link. */
export function link(text: string, onClick: () => void, title?: string): HTMLButtonElement {
  return h(
    'button',
    { class: 'link', type: 'button', onClick, ...(title === undefined ? {} : { title }) },
    text,
  );
}

export interface Column<T> {
  readonly title: string;
  readonly cell: (row: T) => Child;
  /** What it is sorted by; absent: not sortable. */
  readonly key?: (row: T) => number | string;
  readonly number?: boolean;
}

/** A data table: plain HTML, its headers sort. */
export function table<T>(
  caption: string,
  columns: readonly Column<T>[],
  rows: readonly T[],
  options: {
    readonly sort?: { readonly column: number; readonly down: boolean };
    readonly onRow?: (row: T) => void;
    readonly rowClass?: (row: T) => string;
    /** More rows than this are cut, and the table says so. */
    readonly most?: number;
  } = {},
): HTMLElement {
  let sort = options.sort;
  const body = h('tbody');
  const head = h('tr');
  const most = options.most ?? 200;
  const fill = (): void => {
    const key = sort && columns[sort.column]?.key;
    const sorted = [...rows];
    if (key && sort) {
      const sign = sort.down ? -1 : 1;
      sorted.sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        return sign * (x < y ? -1 : x > y ? 1 : 0);
      });
    }
    body.replaceChildren(
      ...sorted.slice(0, most).map((row) => {
        const { onRow, rowClass } = options;
        return h(
          'tr',
          {
            class: `${onRow ? 'clickable' : ''} ${rowClass?.(row) ?? ''}`.trim(),
            ...(onRow ? { onClick: () => onRow(row) } : {}),
          },
          ...columns.map(({ cell, number }, i) => {
            const content = cell(row);
            const inner =
              i === 0 && onRow && typeof content === 'string'
                ? link(content, () => onRow(row))
                : content;
            return h('td', number ? { class: 'number' } : {}, inner);
          }),
        );
      }),
    );
    head.replaceChildren(
      ...columns.map((column, i) => {
        const active = sort?.column === i;
        const direction = !active ? 'none' : sort?.down ? 'descending' : 'ascending';
        const sortable = column.key !== undefined;
        return h(
          'th',
          {
            scope: 'col',
            ...(column.number ? { class: 'number' } : {}),
            ...(sortable ? { aria: { sort: direction } } : {}),
          },
          sortable
            ? h(
                'button',
                {
                  type: 'button',
                  class: 'sorter',
                  onClick: () => {
                    sort = { column: i, down: active ? !sort?.down : column.number === true };
                    fill();
                  },
                },
                column.title,
                h('span', { aria: { hidden: 'true' } }, active ? (sort?.down ? ' ▾' : ' ▴') : ''),
              )
            : column.title,
        );
      }),
    );
  };
  fill();
  return h(
    'div',
    { class: 'table-scroll' },
    h('table', {}, h('caption', { class: 'sr-only' }, caption), h('thead', {}, head), body),
    rows.length > most && h('p', { class: 'hint' }, `The first ${most} of ${rows.length} rows.`),
  );
}
