/** Timing of drawings: on animation frames, only while in sight, and calmly if reduced motion is asked for. */

/** Least time between drawings of new data if reduced motion is asked for, in milliseconds. */
const CALM_MS = 1000;

export class Painter {
  private frame = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private inSight = false;
  private due = false;
  private drawnAt = -Infinity;
  private readonly observer: IntersectionObserver;
  private readonly calm = matchMedia('(prefers-reduced-motion: reduce)');
  private readonly onVisibility = (): void => {
    if (this.due) this.request();
  };

  constructor(
    private readonly node: Element,
    private readonly draw: () => void,
  ) {
    this.observer = new IntersectionObserver(entries => {
      this.inSight = entries[entries.length - 1]?.isIntersecting ?? false;
      if (this.inSight && this.due) this.request();
    });
    this.observer.observe(node);
    document.addEventListener('visibilitychange', this.onVisibility);
  }

  /** Ask for a drawing at once, after something the person did. */
  request(): void {
    this.due = true;
    if (this.frame || !this.inSight || document.hidden) return;
    this.frame = requestAnimationFrame(() => {
      this.paint();
    });
  }

  /** Draw now if a drawing is due: the next key applies to what the last key has changed. */
  flush(): void {
    if (!this.frame) return;
    cancelAnimationFrame(this.frame);
    this.paint();
  }

  /** Ask for a drawing of new data: at most one a second if reduced motion is asked for. */
  requestForData(): void {
    const wait = this.calm.matches ? this.drawnAt + CALM_MS - performance.now() : 0;
    if (wait <= 0) this.request();
    else {
      this.due = true;
      this.timer ??= setTimeout(() => {
        this.timer = undefined;
        this.request();
      }, wait);
    }
  }

  /** Whether somebody can see the view now. */
  get seen(): boolean {
    return this.inSight && !document.hidden && this.node.isConnected;
  }

  private paint(): void {
    this.frame = 0;
    this.due = false;
    this.drawnAt = performance.now();
    this.draw();
  }

  dispose(): void {
    this.observer.disconnect();
    document.removeEventListener('visibilitychange', this.onVisibility);
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
  }
}
