// Tables that are filled again and again.
'use strict';

// Fills a table, cell by cell, so that the focus and the scroll position stay.
// columns: {head, title, kind, value(row), mark(row)}; kind: '' numbers, 'left', 'text'.
function fillTable(table, columns, rows) {
  if (!table.tHead) {
    const line = table.createTHead().insertRow();
    for (const column of columns)
      line.append(element('th', {scope: 'col', class: column.kind ?? ''}, column.head));
    table.createTBody();
  }
  const body = table.tBodies[0];
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((row, n) => {
    const line = body.rows[n] ?? body.insertRow();
    columns.forEach((column, c) => {
      const cell = line.cells[c] ?? line.insertCell();
      const content = column.value(row);
      if (cell.dataset.head === undefined) cell.dataset.head = column.head;
      cell.className = [column.kind ?? '', column.mark ? column.mark(row) : ''].join(' ').trim();
      if (content instanceof Node) cell.replaceChildren(content);
      else setText(cell, String(content ?? ''));
    });
  });
}

// A card with a table that scrolls. `kind`: 'narrow', 'broad', 'wide', 'tall' (does not scroll), 'whole'
// (nor that, and in a narrow window a row is a block).
class TableCard {
  constructor(host, title, columns, kind = '') {
    this.columns = columns;
    this.card = element('section', {class: 'card ' + kind});
    this.note = element('p', {class: 'soft'});
    this.table = element('table');
    this.note.hidden = true;
    this.card.append(
      element('h2', {}, title),
      this.note,
      element(
        'div',
        {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': title},
        this.table,
      ),
    );
    host.append(this.card);
  }

  // `note`: a line above the table. Without rows the note is all, without both there is no card.
  show(rows, note = '') {
    this.card.hidden = rows.length === 0 && note === '';
    this.table.parentElement.hidden = rows.length === 0;
    this.note.hidden = note === '';
    setText(this.note, note);
    if (rows.length > 0) fillTable(this.table, this.columns, rows);
  }
}
