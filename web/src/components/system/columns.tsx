import { Checkbox } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Column } from "./cursor-table";

// useColumnChoice returns the columns that the address names, and the control that chooses them. An address without known
// columns shows all of them. The route needs the parameter columns.
export function useColumnChoice<Row>(all: Column<Row>[]): [Column<Row>[], ReactNode] {
  const t = useTranslations("columns");
  const { columns: text } = useSearch({ strict: false }) as { columns?: string };
  const navigate = useNavigate();
  // The first columns always select a row and name it.
  const optional = useMemo(() => all.slice(all[0]?.id === "select" ? 2 : 1), [all]);
  const named = optional.filter(({ id }) => text?.split(",").includes(id));
  const chosen = named.length > 0 ? named : optional;
  const ids = chosen.map(({ id }) => id).join();
  const shown = useMemo(() => all.filter((each) => !optional.includes(each) || ids.split(",").includes(each.id)), [all, optional, ids]);
  const set = (id: string, on: boolean) => {
    const next = optional.filter((each) => (each.id === id ? on : chosen.includes(each)));
    const columns = next.length === optional.length ? undefined : next.map((each) => each.id).join();
    void navigate({ to: ".", search: ((old: object) => ({ ...old, columns })) as never, replace: true });
  };
  const control = (
    <details>
      <summary>{t("title", { shown: chosen.length, all: optional.length })}</summary>
      <fieldset className="row">
        <legend>{t("legend")}</legend>
        {optional.map(({ id, header }) => (
          <Checkbox key={id} label={header} checked={chosen.some((each) => each.id === id)} disabled={chosen.length === 1 && chosen[0]?.id === id} onChange={(event) => set(id, event.currentTarget.checked)} />
        ))}
      </fieldset>
    </details>
  );
  return [shown, control];
}
