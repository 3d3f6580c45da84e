import { NativeSelect } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Heading } from "../../components/a11y/heading";
import { Command } from "../../components/system/copy";
import { CursorTable } from "../../components/system/cursor-table";
import { FilterForm } from "../../components/system/filter-form";
import { useListControls } from "../../components/system/list-controls";
import { Remove } from "../../components/system/remove";
import { Empty } from "../../components/system/states";
import { useWords } from "../../components/system/words";
import { keys } from "../../query/keys";
import { useSession } from "../../session/session";
import { unreported } from "../../stream/unreported";
import { useSessionColumns } from "../terminal/sessions";

// Terminals are the terminals and SSH connections of all tenants.
export function Terminals() {
  const t = useTranslations("terminal");
  const { may } = useSession();
  const { columns: _, ...filter } = useSearch({ from: "/admin/terminal-sessions" });
  const [columns, controls] = useListControls("terminals", useSessionColumns(may("endAdminTerminalSession") ? End : undefined, true));
  const navigate = useNavigate({ from: "/admin/terminal-sessions" });
  const set = (change: Record<string, string | undefined>) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const word = useWords();
  const status = filter.status === "open" || filter.status === "ended" ? filter.status : undefined;
  return (
    <div className="stack">
      <Heading title={t("all")} />
      <FilterForm
        fields={[
          { name: "node", label: t("node"), most: 63 },
          { name: "tenant", label: t("tenant"), most: 36 },
        ]}
        filter={filter}
        set={set}
      >
        <NativeSelect
          label={t("status")}
          value={status ?? ""}
          onChange={({ currentTarget }) => set({ status: currentTarget.value || undefined })}
          data={[{ value: "", label: t("any") }, ...["open", "ended"].map((value) => ({ value, label: word(value) }))]}
        />
      </FilterForm>
      {controls}
      <CursorTable
        label={t("all")}
        queryKey={keys.allTerminalSessions(filter)}
        load={(cursor) => unwrap(api.GET("/api/v1/admin/terminal-sessions", { params: { query: { status, node: filter.node, tenant: filter.tenant, cursor, limit: 100 } } }))}
        columns={columns}
        rowKey={({ id }) => id}
        refetchInterval={unreported.terminals.every}
        empty={<Empty text={t("noSessions")} />}
      />
      <Command text="gpuaas admin terminal-session list" label={t("listCommand")} />
    </div>
  );
}

function End({ session: { id } }: { session: Schemas["TerminalSession"] }) {
  const t = useTranslations("terminal");
  return (
    <Remove
      action={t("end")}
      name={id}
      text={t("endText")}
      done={t("endDone")}
      typed={false}
      run={(key) => unwrap(api.DELETE("/api/v1/admin/terminal-sessions/{id}", { params: { path: { id }, header: { "X-Idempotency-Key": key } } }))}
      invalidates={[keys.allTerminals]}
    />
  );
}
