import { useState } from "react";
import { expect, test, vi } from "vitest";
import { type Column, Rows } from "../src/components/system/cursor-table";
import { button, click, render } from "./render";

type Row = { id: string };
const rows: Row[] = [{ id: "a" }, { id: "b" }];
const keyOf = ({ id }: Row) => id;
const cell = vi.fn(({ id }: Row) => id);
const columns: Column<Row>[] = [{ id: "id", header: "Id", cell, number: true }];
const others: Column<Row>[] = [...columns, { id: "more", header: "More", cell: ({ id }) => `${id}!` }];

function Table() {
  const [times, setTimes] = useState(0);
  return (
    <>
      <button onClick={() => setTimes(times + 1)}>again</button>
      <Rows label={`rendered ${times}`} columns={times > 1 ? others : columns} rows={rows} rowKey={keyOf} />
    </>
  );
}

// A list renders with each step of its scrolling. To render the lines that stay took most of the time of a frame.
test("a line is rendered again only for another row or other columns", async () => {
  await render(<Table />);
  expect(cell).toHaveBeenCalledTimes(rows.length);
  await click(button("again"));
  expect(document.querySelector('[aria-label="rendered 1"]')).not.toBeNull();
  expect(cell).toHaveBeenCalledTimes(rows.length);
  await click(button("again"));
  expect([...document.querySelectorAll("td")].map(({ textContent }) => textContent)).toEqual(["a", "a!", "b", "b!"]);
  expect([...document.querySelectorAll("tbody tr")].map((line) => line.getAttribute("aria-rowindex"))).toEqual(["2", "3"]);
});

test("of 100,000 rows few are on the page", async () => {
  const many = Array.from({ length: 100_000 }, (_, index) => ({ id: `row-${index}` }));
  await render(<Rows label="many" columns={columns} rows={many} rowKey={keyOf} />);
  expect(document.querySelectorAll("tbody tr").length).toBeLessThan(60);
  expect(document.querySelector("table")?.getAttribute("aria-rowcount")).toBe("100001");
});
