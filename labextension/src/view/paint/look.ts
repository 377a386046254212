/** Colours, font and size of text of the page around the view, for what is drawn or measured here. */

import type { Theme } from './piece_style';

/** Size of the view's text, in pixels of the theme, as in the style sheet of the page. */
const TEXT = 13;

/** Return a size in pixels of the theme as CSS. */
export const px = (pixels: number): string => `calc(${pixels} * var(--nbdist-px))`;

export interface Look {
  readonly theme: Theme;
  /** Colours of text and of the background, as `rgb(…)`, and the colour of trouble. */
  readonly ink: string;
  readonly paper: string;
  readonly bad: string;
  /** CSS font family of code, and the width of one of its characters at 11 px. */
  readonly mono: string;
  readonly character: number;
  /**
   * CSS pixels in a pixel of the theme: 1 if its text is as large as JupyterLab's is at first.
   *
   * All sizes of the view are pixels of the theme, so they grow and shrink with its text.
   */
  readonly unit: number;
}

/** Return red, green and blue of a computed colour, 0 to 255; null if it is transparent. */
function channels(color: string): readonly [number, number, number] | null {
  const numbers = color.match(/[\d.]+/g)?.map(Number);
  if (!numbers || numbers.length < 3 || numbers[3] === 0) return null;
  const scale = color.startsWith('color(') ? 255 : 1;
  const [r = 0, g = 0, b = 0] = numbers.map(value => value * scale);
  return [r, g, b];
}

/** Return whether the background of the view is dark or light; if it has no colour, the system's preference. */
export function themeOf(root: HTMLElement): Theme {
  const paper = channels(getComputedStyle(root).backgroundColor);
  if (!paper) return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  const [r, g, b] = paper;
  return 0.299 * r + 0.587 * g + 0.114 * b < 128 ? 'dark' : 'light';
}

function characterWidth(mono: string): number {
  const g = document.createElement('canvas').getContext('2d');
  if (!g) return 6.6;
  g.font = `11px ${mono}`;
  return g.measureText('0000000000').width / 10;
}

/** Read the look from the style of the view's root, which names its theme to the style sheets. */
export function readLook(root: HTMLElement, theme: Theme): Look {
  const style = getComputedStyle(root);
  const mono = style.getPropertyValue('--nbdist-mono').trim() || 'monospace';
  return {
    theme,
    ink: style.color,
    paper: channels(style.backgroundColor) ? style.backgroundColor : 'transparent',
    bad: style.getPropertyValue('--nbdist-bad').trim(),
    mono,
    character: characterWidth(mono),
    unit: parseFloat(style.fontSize) / TEXT,
  };
}

/** Call `changed` when the page changes its theme. Return the function that stops this. */
export function watchTheme(changed: () => void): () => void {
  const observer = new MutationObserver(changed);
  // JupyterLab and VS Code name the theme in attributes of the body, other pages on the root element.
  const attributes = ['class', 'style', 'data-jp-theme-light', 'data-jp-theme-name', 'data-theme'];
  for (const node of [document.body, document.documentElement]) {
    observer.observe(node, { attributes: true, attributeFilter: attributes });
  }
  const preference = matchMedia('(prefers-color-scheme: dark)');
  preference.addEventListener('change', changed);
  return () => {
    observer.disconnect();
    preference.removeEventListener('change', changed);
  };
}

/** A size in pixels of the theme. */
interface Size {
  readonly width: number;
  readonly height: number;
}

/** Fit a canvas to a size and the screen. Return its context, cleared, which draws in pixels of the theme. */
export function prepare(
  canvas: HTMLCanvasElement,
  size: Size,
  { unit }: Look,
): CanvasRenderingContext2D | null {
  const density = devicePixelRatio || 1;
  const scale = density * unit;
  const [width, height] = [Math.ceil(size.width * scale), Math.ceil(size.height * scale)];
  if (canvas.width !== width || canvas.height !== height) {
    [canvas.width, canvas.height] = [width, height];
    // The canvas is exactly as large as its pixels; otherwise the browser blurs them.
    canvas.style.width = `${width / density}px`;
    canvas.style.height = `${height / density}px`;
  }
  const g = canvas.getContext('2d');
  g?.setTransform(scale, 0, 0, scale, 0, 0);
  g?.clearRect(0, 0, size.width, size.height);
  return g;
}
