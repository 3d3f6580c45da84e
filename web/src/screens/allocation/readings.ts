import type { Schemas } from "../../api/client";

type Gpu = Schemas["GpuTelemetry"];
type Reading = Schemas["GpuReading"];

const measured = {
  utilisation: (reading: Reading) => reading.utilisation_percent,
  memory: (reading: Reading) => reading.used_mib / 1_024,
  power: (reading: Reading) => reading.power_mw / 1_000,
};

export type Measure = keyof typeof measured;
export const measures = Object.keys(measured) as Measure[];
export type Row = { at: string; gpu: number; celsius: number } & Record<Measure, number>;

// seriesOf returns the times and the values of each GPU at these times. GPUs are read at different times, so a GPU can
// have no value at a time.
export function seriesOf(gpus: Gpu[], measure: Measure): [number[], ...(number | null)[][]] {
  const times = [...new Set(gpus.flatMap(({ readings }) => readings.map(({ at }) => Date.parse(at))))].sort((a, b) => a - b);
  const values = gpus.map(({ readings }) => {
    const byTime = new Map(readings.map((reading) => [Date.parse(reading.at), measured[measure](reading)]));
    return times.map((time) => byTime.get(time) ?? null);
  });
  return [times.map((time) => time / 1_000), ...values];
}

export const tableOf = (gpus: Gpu[]): Row[] =>
  gpus
    .flatMap(({ readings }, gpu) =>
      readings.map((reading) => ({
        at: reading.at,
        gpu,
        celsius: reading.celsius,
        utilisation: measured.utilisation(reading),
        memory: measured.memory(reading),
        power: measured.power(reading),
      })),
    )
    .sort((a, b) => Date.parse(b.at) - Date.parse(a.at) || a.gpu - b.gpu);
