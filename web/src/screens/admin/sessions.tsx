import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { Heading } from "../../components/a11y/heading";
import { Command } from "../../components/system/copy";
import { FilterForm } from "../../components/system/filter-form";
import { useListControls } from "../../components/system/list-controls";
import { SessionTable, useSessionColumns } from "./sessions/table";

export function AdminSessions() {
  const t = useTranslations("sessions");
  const { columns: _, ...filter } = useSearch({ from: "/admin/sessions" });
  const [columns, controls] = useListControls("sessions", useSessionColumns(filter.user));
  const navigate = useNavigate({ from: "/admin/sessions" });
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <FilterForm fields={[{ name: "user", label: t("userId"), most: 36 }]} filter={filter} set={(change) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true })} />
      {controls}
      <SessionTable user={filter.user} columns={columns} />
      <Command text="gpuaas admin sessions" label={t("command")} />
    </div>
  );
}
