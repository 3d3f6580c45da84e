import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { api, unwrap } from "../../api/client";
import { Heading } from "../../components/a11y/heading";
import { Command } from "../../components/system/copy";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { FilterForm } from "../../components/system/filter-form";
import { useListControls } from "../../components/system/list-controls";
import { Empty } from "../../components/system/states";
import { useFormat } from "../../i18n/format";
import { type PolicyFilter, keys } from "../../query/keys";
import { Origin } from "./policy/origin";
import { type Key, useValue } from "./policy/value";

const platformOf = ({ set }: Key) => set.find(({ scope }) => scope === "platform");

export function Policies() {
  const t = useTranslations("policies");
  const { columns: _, ...filter } = useSearch({ from: "/admin/policies" });
  const navigate = useNavigate({ from: "/admin/policies" });
  const [columns, controls] = useListControls("policies", useColumns());
  const set = (change: PolicyFilter) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <FilterForm fields={[{ name: "prefix", label: t("prefix"), most: 64 }]} filter={filter} set={set} />
      {controls}
      <CursorTable
        label={t("title")}
        queryKey={keys.policyList(filter)}
        load={(cursor) => unwrap(api.GET("/api/v1/admin/policies", { params: { query: { ...filter, cursor, limit: 200 } } }))}
        columns={columns}
        rowKey={({ key }) => key}
        empty={<Empty text={t("none")} />}
      />
      <Command text={`gpuaas get policies '${(filter.prefix ?? "").replaceAll("'", "")}'`} label={t("command")} />
    </div>
  );
}

function useColumns(): Column<Key>[] {
  const t = useTranslations("policies");
  const { number } = useFormat();
  return useMemo(
    () => [
      { id: "key", header: t("key"), cell: ({ key }) => <Link to="/admin/policies/$key" params={{ key }}>{key}</Link> },
      { id: "value", header: t("inEffect"), cell: (key) => <InEffect policy={key} /> },
      { id: "elsewhere", header: t("elsewhere"), cell: ({ set }) => number(set.filter(({ scope }) => scope !== "platform").length), number: true },
      { id: "source", header: t("source"), cell: (key) => <Declared policy={key} /> },
      { id: "readers", header: t("readers"), cell: ({ readers, not_in_force: reason }) => (reason === undefined ? readers.join(", ") : t("noReader")) },
      { id: "effect", header: t("effect"), cell: ({ meaning }) => meaning },
    ],
    [t, number],
  );
}

function InEffect({ policy }: { policy: Key }) {
  const t = useTranslations("policies");
  const text = useValue();
  const own = platformOf(policy);
  return <>{own === undefined ? t("defaultValue", { value: text(policy, policy.default) }) : text(policy, own.value)}</>;
}

function Declared({ policy }: { policy: Key }) {
  const t = useTranslations("policies");
  const own = platformOf(policy);
  return own === undefined ? <>{t("byDefault")}</> : <Origin source={own.source} />;
}
