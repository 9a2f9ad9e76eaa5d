// Elements and numbers as text. Text is only ever set as text, so names may hold anything.
'use strict';

const SVG = 'http://www.w3.org/2000/svg';
const HUES = 8;
const DASHES = ['', '6 3', '2 3'];

// An element with attributes and children; what is no element becomes text.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function shape(tag, attributes = {}) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// A number with `digits` decimals and groups of three; nothing where it is not known.
function fixed(value, digits = 0, factor = 1) {
  if (value === undefined || value === null || !Number.isFinite(value)) return '';
  return (factor * value).toLocaleString('en-US', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

// As many digits as a reader needs.
function short(value) {
  if (value === undefined || value === null) return '';
  const size = Math.abs(value);
  if (size >= 1e9) return fixed(value / 1e9, 2) + ' G';
  if (size >= 1e6) return fixed(value / 1e6, 2) + ' M';
  return fixed(
    value,
    size >= 100 || size === Math.round(size) ? 0 : size >= 10 ? 1 : size >= 0.01 ? 3 : 4,
  );
}

const percent = value => fixed(value, 2, 100);

// "0:42", "12:05", "3:07:00", "2 d 3:07:00".
function duration(seconds) {
  if (seconds === undefined || seconds === null || seconds < 0) return '';
  const s = Math.round(seconds),
    two = number => String(number).padStart(2, '0');
  const clock =
    s < 3600
      ? Math.floor(s / 60) + ':' + two(s % 60)
      : (Math.floor(s / 3600) % 24) + ':' + two(Math.floor(s / 60) % 60) + ':' + two(s % 60);
  return s < 86400 ? clock : Math.floor(s / 86400) + ' d ' + clock;
}

function count(number, one, many = one + 's') {
  return fixed(number) + ' ' + (number === 1 ? one : many);
}

// Sorted by name, server-2 before server-10.
function byName(members) {
  return [...members].sort((a, b) => a.name.localeCompare(b.name, 'en', {numeric: true}));
}
