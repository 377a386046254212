/** Canvases at the screen's resolution. */

export interface Size {
  /** CSS pixels. */
  readonly width: number;
  readonly height: number;
}

/** Fit a canvas to a size. Return its context, cleared, which draws in CSS pixels. */
export function prepare(canvas: HTMLCanvasElement, size: Size): CanvasRenderingContext2D | null {
  const scale = devicePixelRatio || 1;
  const [width, height] = [Math.ceil(size.width * scale), Math.ceil(size.height * scale)];
  if (canvas.width !== width || canvas.height !== height) {
    [canvas.width, canvas.height] = [width, height];
    // The canvas is exactly as large as its pixels; otherwise the browser blurs them.
    canvas.style.width = `${width / scale}px`;
    canvas.style.height = `${height / scale}px`;
  }
  const g = canvas.getContext('2d');
  g?.setTransform(scale, 0, 0, scale, 0, 0);
  g?.clearRect(0, 0, size.width, size.height);
  return g;
}
