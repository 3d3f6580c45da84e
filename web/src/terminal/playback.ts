// Cast is a recording in asciicast v2.
export type Cast = { columns: number; rows: number; events: Event[] };
type Event = { at: number; kind: "o" | "r"; data: string };

const eventOf = (value: unknown): Event | undefined => {
  if (!Array.isArray(value)) return undefined;
  const [at, kind, data] = value as unknown[];
  return typeof at === "number" && (kind === "o" || kind === "r") && typeof data === "string" ? { at, kind, data } : undefined;
};

// castOf reads a recording. Events that a player does not show are left out.
export function castOf(text: string): Cast {
  const [first = "", ...lines] = text.split("\n");
  const { width, height } = JSON.parse(first) as { width: number; height: number };
  const events = lines.filter((line) => line !== "").map((line) => eventOf(JSON.parse(line)));
  return { columns: width, rows: height, events: events.filter((event) => event !== undefined) };
}

export type Screen = { write: (text: string) => void; resize: (columns: number, rows: number) => void; ended: () => void };

// The longest pause in seconds, and the shortest one: browsers wait longer than that for each timer.
const longestPause = 2;
const shortestPause = 0.005;

// Playback shows a recording with its timing.
export class Playback {
  private next = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly cast: Cast,
    private readonly screen: Screen,
    private speed: number,
  ) {}

  play(speed = this.speed) {
    this.pause();
    this.speed = speed;
    this.step();
  }

  pause() {
    clearTimeout(this.timer);
  }

  private step() {
    for (;;) {
      const event = this.cast.events[this.next];
      if (event === undefined) return this.screen.ended();
      const before = this.cast.events[this.next - 1]?.at ?? 0;
      const pause = Math.min(longestPause, (event.at - before) / this.speed);
      if (pause >= shortestPause) {
        this.timer = setTimeout(() => this.show(event), pause * 1_000);
        return;
      }
      this.draw(event);
    }
  }

  private show(event: Event) {
    this.draw(event);
    this.step();
  }

  private draw({ kind, data }: Event) {
    this.next++;
    const [columns, rows] = data.split("x").map(Number);
    if (kind === "o") this.screen.write(data);
    else if (columns !== undefined && rows !== undefined) this.screen.resize(columns, rows);
  }
}
