// Draws the waveform as it grows, and where in it one is.

const PER_POINT = 240; // samples behind one point: 10 ms

export class Wave {
  constructor(canvas) { this.canvas = canvas; this.clear(0); }

  clear(sampleRate) { this.sampleRate = sampleRate; this.peaks = []; this.left = 0; this.max = 0; this.draw(0); }

  add(samples) {
    for (const sample of samples) {
      this.max = Math.max(this.max, Math.abs(sample));
      if (++this.left === PER_POINT) { this.peaks.push(this.max / 32768); this.left = 0; this.max = 0; }
    }
  }

  /** `position`: seconds heard so far. */
  draw(position) {
    const { canvas } = this;
    const ratio = window.devicePixelRatio || 1;
    const width = (canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio)));
    const height = (canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio)));
    const pen = canvas.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    const seconds = Math.max(2, (this.peaks.length * PER_POINT) / (this.sampleRate || 24000));
    const line = 16 * ratio; // the timeline's height
    const middle = (height - line) / 2;
    pen.fillStyle = pen.strokeStyle = style.getPropertyValue("--line");
    pen.font = `${11 * ratio}px system-ui, sans-serif`;
    const step = [0.5, 1, 2, 5, 10, 30, 60, 120, 300].find((s) => seconds / s <= 12) || 600;
    for (let t = 0; t <= seconds; t += step) {
      const x = (t / seconds) * width;
      pen.fillRect(x, height - line, ratio, 4 * ratio);
      pen.fillText(`${t} s`, x + 3 * ratio, height - 3 * ratio);
    }
    const heard = (position / seconds) * width;
    const each = (PER_POINT / (this.sampleRate || 24000) / seconds) * width;
    for (let i = 0; i < this.peaks.length; i++) {
      const x = i * each;
      pen.fillStyle = style.getPropertyValue(x < heard ? "--accent" : "--line");
      const size = Math.max(ratio / 2, this.peaks[i] * middle);
      pen.fillRect(x, middle - size, Math.max(each * 0.8, 0.5), 2 * size);
    }
    if (position > 0) {
      pen.fillStyle = style.getPropertyValue("--ink");
      pen.fillRect(heard, 0, ratio, height - line);
    }
  }
}
