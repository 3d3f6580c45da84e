import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Playback, castOf } from "../src/terminal/playback";

const cast = [
  '{"version": 2, "width": 80, "height": 24}',
  '[0.001, "o", "one "]',
  '[0.002, "o", "two "]',
  '[0.5, "i", "typed"]',
  '[1.002, "r", "132x43"]',
  '[3600, "o", "three"]',
  "",
].join("\n");

let shown = "";
let ended = false;
const screen = { write: (text: string) => void (shown += text), resize: (columns: number, rows: number) => void (shown += `${columns}x${rows} `), ended: () => void (ended = true) };

beforeEach(() => {
  vi.useFakeTimers();
  shown = "";
  ended = false;
});
afterEach(() => void vi.useRealTimers());

test("a recording has a size, output and sizes, and no input", () => {
  const { columns, rows, events } = castOf(cast);
  expect([columns, rows]).toEqual([80, 24]);
  expect(events.map(({ kind }) => kind)).toEqual(["o", "o", "r", "o"]);
});

test("a playback retains the timing and bounds long pauses", () => {
  new Playback(castOf(cast), screen, 1).play();
  expect(shown).toBe("one two ");
  vi.advanceTimersByTime(990);
  expect(shown).toBe("one two ");
  vi.advanceTimersByTime(20);
  expect(shown).toBe("one two 132x43 ");
  vi.advanceTimersByTime(2_000);
  expect(shown).toBe("one two 132x43 three");
  expect(ended).toBe(true);
});

test("a paused playback shows nothing, and continues at another speed", () => {
  const playback = new Playback(castOf(cast), screen, 1);
  playback.play();
  playback.pause();
  vi.advanceTimersByTime(10_000);
  expect(shown).toBe("one two ");
  playback.play(10);
  vi.advanceTimersByTime(110);
  expect(shown).toBe("one two 132x43 ");
});
