// The page: reads the form, asks the server for events with raw PCM, plays and draws them as they come.

import { Player } from "./player.js";
import { Wave } from "./wave.js";

const $ = (id) => document.getElementById(id);
const NUMBERS = ["speed", "temperature", "top_k", "top_p", "repetition_penalty", "max_frames"];
const LINKED = ["input", "voice", "language", "seed", "instructions", ...NUMBERS];

const form = $("form");
const wave = new Wave($("wave"));
let speech = null; // the one that is spoken, or was last
let model = null;

function headers() {
  const key = $("key").value.trim();
  return { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

async function ask(path) {
  const reply = await fetch(path, { headers: headers() });
  if (!reply.ok) throw new Error((await reply.json()).error.message);
  return reply.json();
}

function fill(select, names) {
  const wanted = select.value || new URLSearchParams(location.hash.slice(1)).get(select.name);
  select.replaceChildren(...names.map((name) => new Option(name, name)));
  if (names.includes(wanted)) select.value = wanted;
}

/** What there is to choose from; asked again when an API key is given. */
async function describe() {
  try {
    const [models, voices] = [await ask("v1/models"), await ask("v1/audio/voices")];
    model = models.data[0];
    fill($("voice"), voices.data.map((voice) => voice.id));
    fill($("language"), voices.languages);
    $("noise").hidden = !model.random;
    // A link may bring some for a model that takes none: then one has to see what is refused.
    $("instructions-field").hidden = !model.takes_instructions && $("instructions").value === "";
    fail("");
  } catch (error) { fail(error.message); }
}

/** The request that the form describes; numbers stay the text that was typed, for seeds reach 2⁶⁴. */
function requestBody() {
  const fields = { model: model ? model.id : "tts-1", response_format: "pcm", stream_format: "sse" };
  for (const name of LINKED) {
    const value = form.elements[name] ? form.elements[name].value.trim() : "";
    if (name === "seed" || value === "") continue;
    fields[name] = NUMBERS.includes(name) ? Number(value) : value;
  }
  const seed = $("seed").value.trim();
  const json = JSON.stringify(fields);
  return seed === "" ? json : `${json.slice(0, -1)},"seed":${/^0*$/.test(seed) ? 0 : seed.replace(/^0+/, "")}}`;
}

function fail(message) { $("error").textContent = message; }
function tell(message) { $("status").textContent = message; }

function buttons(busy) {
  $("speak").disabled = busy;
  $("stop").disabled = !busy;
  $("download").disabled = $("link").disabled = busy || !speech || !speech.done;
}

/** Decoded server-sent events of a reply, as they come. */
async function* eventsOf(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let at = text.indexOf("\n\n"); at >= 0; at = text.indexOf("\n\n")) {
      const data = text.slice(0, at).split("\n").find((line) => line.startsWith("data: "));
      text = text.slice(at + 2);
      if (data) yield JSON.parse(data.slice(6));
    }
  }
}

function samplesOf(base64) {
  const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  return new Int16Array(bytes.buffer); // little-endian on every machine that runs a browser
}

async function speak() {
  const body = requestBody();
  const began = performance.now();
  const one = (speech = { parts: [], abort: new AbortController(), player: null, rate: 0, done: false });
  fail(""); tell("Asking …"); buttons(true);
  for (const id of ["first", "rtf", "length", "used-seed", "ended"]) $(id).textContent = "–";
  try {
    const reply = await fetch("v1/audio/speech", {
      method: "POST", headers: headers(), body, signal: one.abort.signal,
    });
    if (!reply.ok) throw new Error((await reply.json()).error.message);
    one.rate = Number(reply.headers.get("X-Kazeia-Sample-Rate"));
    one.seed = reply.headers.get("X-Kazeia-Seed");
    one.player = new Player(one.rate);
    wave.clear(one.rate);
    requestAnimationFrame(() => animate(one));
    $("used-seed").textContent = one.seed;
    for await (const event of eventsOf(reply)) {
      if (event.error) throw new Error(event.error.message);
      if (event.type === "speech.audio.delta") hear(one, samplesOf(event.audio), began);
      if (event.type === "speech.audio.done") finish(one, event);
    }
    if (!one.done) throw new Error("the reply ended too early");
    one.player.end();
    await one.player.whenDone;
    tell(one.stopped ? "Stopped." : "Done.");
  } catch (error) {
    if (one.player) one.player.stop();
    if (one.stopped) tell("Stopped.");
    else { fail(error.message); tell("Not spoken."); }
  }
  if (speech === one) buttons(false);
}

function hear(one, samples, began) {
  if (!one.parts.length) {
    $("first").textContent = `${Math.round(performance.now() - began)} ms`;
    tell("Speaking …");
  }
  one.parts.push(samples);
  one.player.push(samples);
  wave.add(samples);
}

function finish(one, event) {
  one.done = true;
  const seconds = one.parts.reduce((sum, part) => sum + part.length, 0) / one.rate;
  $("rtf").textContent = event.timings.audio_ms ? (event.timings.total_ms / event.timings.audio_ms).toFixed(2) : "–";
  $("length").textContent = `${seconds.toFixed(2)} s`;
  $("ended").textContent = event.finish_reason;
  const link = new URLSearchParams();
  for (const name of LINKED) {
    const value = form.elements[name] ? form.elements[name].value.trim() : "";
    if (value) link.set(name, value);
  }
  link.set("seed", one.seed);
  one.link = `${location.origin}${location.pathname}#${link}`;
}

function animate(one) {
  if (speech !== one) return;
  wave.draw(one.player.position());
  if (one.player.context.state !== "closed") requestAnimationFrame(() => animate(one));
}

function stop() {
  if (!speech || $("stop").disabled) return;
  speech.stopped = true;
  speech.abort.abort();
  if (speech.player) speech.player.stop();
}

/** The audio as a WAV file: the very samples that were heard. */
function wavFile(one) {
  const count = one.parts.reduce((sum, part) => sum + part.length, 0);
  const view = new DataView(new ArrayBuffer(44));
  const text = (at, chars) => [...chars].forEach((char, i) => view.setUint8(at + i, char.charCodeAt(0)));
  text(0, "RIFF"); view.setUint32(4, 36 + 2 * count, true); text(8, "WAVEfmt ");
  view.setUint32(16, 16, true); view.setUint16(20, 1, true); view.setUint16(22, 1, true);
  view.setUint32(24, one.rate, true); view.setUint32(28, 2 * one.rate, true);
  view.setUint16(32, 2, true); view.setUint16(34, 16, true); text(36, "data"); view.setUint32(40, 2 * count, true);
  return new Blob([view, ...one.parts], { type: "audio/wav" });
}

function download() {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(wavFile(speech));
  anchor.download = `kazeia-${speech.seed}.wav`;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}

async function copyLink() {
  history.replaceState(null, "", speech.link);
  try { await navigator.clipboard.writeText(speech.link); tell("The link is copied; it speaks the same again."); }
  catch { tell("The link stands in the address bar; it speaks the same again."); }
}

function readLink() {
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    if (LINKED.includes(name) && form.elements[name] && !["voice", "language"].includes(name)) form.elements[name].value = value;
  }
  $("speed-shown").textContent = Number($("speed").value).toFixed(2);
}

form.addEventListener("submit", (event) => { event.preventDefault(); speak(); });
$("stop").addEventListener("click", stop);
$("download").addEventListener("click", download);
$("link").addEventListener("click", copyLink);
$("key").addEventListener("change", describe);
$("speed").addEventListener("input", readSpeed);
function readSpeed() { $("speed-shown").textContent = Number($("speed").value).toFixed(2); }
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") stop();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !$("speak").disabled) form.requestSubmit();
});
window.addEventListener("hashchange", () => { readLink(); describe(); });
readLink();
describe();
