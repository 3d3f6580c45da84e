import { type Column, Rows } from "../../components/system/cursor-table";
import { Empty } from "../../components/system/states";

type Props<Row> = { title: string; empty: string; columns: Column<Row>[]; rows: Row[]; rowKey: (row: Row) => string | number };

// List is one list of a node, which the section of the node has as a whole.
export function List<Row extends object>({ title, empty, columns, rows, rowKey }: Props<Row>) {
  return (
    <section className="panel">
      <h2>{title}</h2>
      {rows.length === 0 ? <Empty text={empty} /> : <Rows label={title} columns={columns} rows={rows} rowKey={rowKey} />}
    </section>
  );
}
