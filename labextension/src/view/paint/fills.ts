/** Fills of pieces; made by `make types` from `nbdist/contract/page.py`. */

export const FILLS = {
  light: ['#73d0dc', '#ecccb8', '#a9bffc', '#abcf8e', '#f2a9c4', '#e7e694', '#d3e6ff', '#9ff0d8'],
  dark: ['#00506a', '#874e17', '#4a2478', '#144a02', '#7e1f48', '#1d5fa3', '#7c4a80', '#04724f'],
} as const;
