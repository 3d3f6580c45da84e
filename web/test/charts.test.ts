import { expect, test } from "vitest";
import { measures, seriesOf, tableOf } from "../src/screens/allocation/readings";

test("the table of a chart has its points and no other", () => {
  const reading = (gpu: number, minute: number) => ({ at: `2026-01-05T10:0${minute}:0${gpu}Z`, utilisation_percent: 10 * minute + gpu, used_mib: 1_536 * minute, power_mw: 250_000 + gpu, celsius: 40 });
  const gpus = [0, 1].map((gpu) => ({ uuid: `GPU-${gpu}`, readings: [0, 1, 2].map((minute) => reading(gpu, minute)) }));
  const rows = tableOf(gpus);
  expect(rows).toHaveLength(6);
  for (const measure of measures) {
    const [times, ...lines] = seriesOf(gpus, measure);
    const points = lines.flatMap((line, gpu) => line.flatMap((value, index) => (value === null ? [] : [`${gpu} ${times[index]! * 1_000} ${value}`])));
    expect(points.sort(), measure).toEqual(rows.map((row) => `${row.gpu} ${Date.parse(row.at)} ${row[measure]}`).sort());
  }
});
