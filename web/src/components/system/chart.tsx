import { useComputedColorScheme } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

type Props = { title: string; names: string[]; data: [number[], ...(number | null)[][]] };

const height = 180;
// Lines differ in their dashes, not only in colour.
const dashes = [[], [8, 4], [2, 4], [12, 3, 2, 3]];

const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Chart draws lines over time on a canvas. A canvas has no accessible content, so each screen also shows a table.
export default function Chart({ title, names, data }: Props) {
  const { ref: size, width } = useElementSize();
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const series = names.join("\n");
  const scheme = useComputedColorScheme("light");
  useEffect(() => {
    if (width === 0 || frame.current === null) return;
    const text = colour("--mantine-color-text");
    const grid = { stroke: colour("--mantine-color-default-border"), width: 1 };
    const axis = { stroke: text, grid, ticks: grid };
    plot.current = new uPlot(
      {
        width,
        height,
        axes: [axis, axis],
        series: [{}, ...series.split("\n").map((label, index) => ({ label, stroke: colour("--mantine-color-anchor"), width: 1.5, dash: dashes[index % dashes.length], spanGaps: true }))],
      },
      data,
      frame.current,
    );
    return () => plot.current?.destroy();
    // New data are set below; they need no new plot. A canvas does not follow the colours of the page.
  }, [width, series, scheme]);
  useEffect(() => plot.current?.setData(data), [data]);
  return (
    <figure ref={size} style={{ margin: 0 }}>
      <figcaption>{title}</figcaption>
      <div ref={frame} className="plot" aria-hidden />
    </figure>
  );
}
