import { Button } from "@mantine/core";
import { type InfiniteData, type QueryKey, useInfiniteQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, memo, useEffect, useRef } from "react";
import { useTranslations } from "use-intl";
import type { Interval } from "../../query/keys";
import { usePrinting } from "./printing";
import { Content } from "./section";

type Page<Row> = { items: Row[]; next_cursor?: string };
export type Column<Row> = { id: string; header: string; cell: (row: Row) => ReactNode; number?: boolean };

type Props<Row> = {
  label: string;
  queryKey: QueryKey;
  load: (cursor: string | undefined) => Promise<Page<Row>>;
  columns: Column<Row>[];
  rowKey: (row: Row) => string | number;
  empty: ReactNode;
  refetchInterval?: Interval;
  // first is the first page, where the read model of the screen has it.
  first?: Page<Row>;
  // onRows gets the rows of the list that is shown, and none while it loads.
  onRows?: (rows: Row[]) => void;
};

// virtualFrom is the number of rows from which only the visible ones are in the document. Paper has all of them.
const virtualFrom = 100;
const rowHeight = 42;

// CursorTable shows a list of the server page by page. The server filters and sorts.
export function CursorTable<Row extends object>({ queryKey, load, empty, refetchInterval, first, onRows, ...table }: Props<Row>) {
  const query = useInfiniteQuery<Page<Row>, Error, InfiniteData<Page<Row>>, QueryKey, string | undefined>({
    queryKey,
    queryFn: ({ pageParam }) => load(pageParam),
    initialPageParam: undefined,
    getNextPageParam: (page) => page.next_cursor,
    refetchInterval,
    initialData: first && { pages: [first], pageParams: [undefined] },
  });
  useEffect(() => onRows?.(query.data?.pages.flatMap(({ items }) => items) ?? []), [query.data, onRows]);
  return (
    <Content query={query} isEmpty={(data) => data.pages.every((page) => page.items.length === 0)} empty={empty}>
      {(data) => (
        <>
          <Rows {...table} rows={data.pages.flatMap((page) => page.items)} />
          <More query={query} />
        </>
      )}
    </Content>
  );
}

type Paged = { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown };

// More loads the next page of a list.
export function More({ query }: { query: Paged }) {
  const t = useTranslations("table");
  if (!query.hasNextPage) return null;
  return (
    <Button variant="default" mt="sm" loading={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
      {t("more")}
    </Button>
  );
}

const alignmentOf = ({ number }: { number?: boolean }) => (number ? "number" : undefined);

type LineProps<Row> = { row: Row; index: number; columns: Column<Row>[] };

// Line is rendered again only for another row or other columns: while a list scrolls, most of its lines stay.
const Line = memo(function Line<Row>({ row, index, columns }: LineProps<Row>) {
  return (
    <tr aria-rowindex={index + 2}>
      {columns.map((column) => (
        <td key={column.id} className={alignmentOf(column)}>
          {column.cell(row)}
        </td>
      ))}
    </tr>
  );
}) as <Row>(props: LineProps<Row>) => ReactNode;

type RowsProps<Row> = Pick<Props<Row>, "label" | "columns" | "rowKey"> & { rows: Row[] };

export function Rows<Row extends object>({ label, columns, rows, rowKey }: RowsProps<Row>) {
  const frame = useRef<HTMLDivElement>(null);
  const printing = usePrinting();
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => frame.current, estimateSize: () => rowHeight, overscan: 4, enabled: rows.length > virtualFrom });
  const items = virtual.getVirtualItems();
  const isVirtual = rows.length > virtualFrom && !printing;
  const first = isVirtual ? (items[0]?.index ?? 0) : 0;
  const shown = isVirtual ? rows.slice(first, (items.at(-1)?.index ?? -1) + 1) : rows;
  const before = isVirtual ? (items[0]?.start ?? 0) : 0;
  const after = isVirtual ? virtual.getTotalSize() - (items.at(-1)?.end ?? 0) : 0;
  return (
    <div ref={frame} className="scroll" tabIndex={0} role="region" aria-label={label}>
      <table aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.id} scope="col" className={alignmentOf(column)}>
                {column.header}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {before > 0 && <tr aria-hidden style={{ height: before }} />}
          {shown.map((row, index) => (
            <Line key={rowKey(row)} row={row} index={first + index} columns={columns} />
          ))}
          {after > 0 && <tr aria-hidden style={{ height: after }} />}
        </tbody>
      </table>
    </div>
  );
}
