// Plays 16-bit PCM while it arrives: one AudioContext, one source per piece, each starting exactly
// where the one before ends, so that nothing clicks at the joints.

const LEAD = 0.06; // seconds between the first piece and its sound: room for the second to arrive

export class Player {
  constructor(sampleRate) {
    this.sampleRate = sampleRate;
    this.context = new AudioContext({ sampleRate });
    this.next = 0; // when the next piece starts, on the context's clock
    this.start = 0; // when the first one did
    this.samples = 0;
    this.underruns = 0;
    this.sources = new Set();
    this.ended = false;
    this.whenDone = new Promise((resolve) => { this.resolve = resolve; });
  }

  /** Queue samples (Int16Array); they are heard right after those before them. */
  push(samples) {
    if (!samples.length || this.context.state === "closed") return;
    const buffer = this.context.createBuffer(1, samples.length, this.sampleRate);
    const channel = buffer.getChannelData(0);
    for (let i = 0; i < samples.length; i++) channel[i] = samples[i] / 32768;
    const source = this.context.createBufferSource();
    source.buffer = buffer;
    source.connect(this.context.destination);
    const now = this.context.currentTime;
    if (!this.samples) this.start = this.next = now + LEAD;
    else if (this.next < now) { this.underruns++; this.start += now + LEAD - this.next; this.next = now + LEAD; }
    source.start(this.next);
    this.next += samples.length / this.sampleRate;
    this.samples += samples.length;
    this.sources.add(source);
    source.onended = () => { this.sources.delete(source); this.finishIfDone(); };
  }

  /** Nothing more will come. */
  end() { this.ended = true; this.finishIfDone(); }

  /** Fall silent now. */
  stop() { this.ended = true; for (const s of this.sources) s.stop(); this.sources.clear(); this.finishIfDone(); }

  /** Seconds of the audio that have been heard. */
  position() {
    if (!this.samples) return 0;
    return Math.min(Math.max(0, this.context.currentTime - this.start), this.samples / this.sampleRate);
  }

  finishIfDone() {
    if (!this.ended || this.sources.size) return;
    if (this.context.state !== "closed") this.context.close();
    this.resolve();
  }
}
