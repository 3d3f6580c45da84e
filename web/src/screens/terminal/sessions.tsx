import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { Remove } from "../../components/system/remove";
import { Empty } from "../../components/system/states";
import { Time } from "../../components/system/time";
import { useWords } from "../../components/system/words";
import { keys } from "../../query/keys";
import { useSession } from "../../session/session";
import { unreported } from "../../stream/unreported";
import { useReason } from "./reason";

type Session = Schemas["TerminalSession"];

// Sessions are the terminals and SSH connections of an allocation.
export function Sessions({ allocation }: { allocation: string }) {
  const t = useTranslations("terminal");
  const { may } = useSession();
  return (
    <CursorTable
      label={t("sessions")}
      queryKey={keys.terminalSessions(allocation)}
      load={(cursor) => unwrap(api.GET("/api/v1/terminal-sessions", { params: { query: { allocation_id: allocation, cursor, limit: 50 } } }))}
      columns={useSessionColumns(may("endTerminalSession") ? End : undefined, false)}
      rowKey={({ id }) => id}
      refetchInterval={unreported.terminals.every}
      empty={<Empty text={t("noSessions")} />}
    />
  );
}

// useSessionColumns are the columns of terminal sessions, with a button that ends an open one.
export function useSessionColumns(end: ((props: { session: Session }) => React.ReactNode) | undefined, all: boolean): Column<Session>[] {
  const t = useTranslations("terminal");
  const word = useWords();
  const because = useReason();
  return useMemo(
    () => [
      { id: "purpose", header: t("purpose"), cell: ({ purpose }) => t(`purposes.${purpose}`) },
      { id: "status", header: t("status"), cell: ({ status, end_reason: reason }) => (reason === undefined ? word(status) : `${word(status)}: ${because(reason)}`) },
      ...(all ? [{ id: "allocation", header: t("allocation"), cell: ({ allocation_id: id }: Session) => <Link to="/admin/allocations/$id" params={{ id }}>{id}</Link> }] : []),
      { id: "principal", header: t("principal"), cell: ({ principal_id }) => principal_id },
      { id: "address", header: t("address"), cell: ({ address }) => address },
      { id: "program", header: t("program"), cell: ({ user_agent }) => user_agent },
      { id: "opened", header: t("opened"), cell: ({ created_at }) => <Time at={created_at} /> },
      { id: "closed", header: t("closedAt"), cell: ({ ended_at: at }) => (at === undefined ? "" : <Time at={at} />) },
      ...(end === undefined ? [] : [{ id: "end", header: t("change"), cell: (session: Session) => (session.status === "open" ? end({ session }) : "") }]),
    ],
    [t, word, because, end, all],
  );
}

function End({ session: { id, allocation_id: allocation } }: { session: Session }) {
  const t = useTranslations("terminal");
  return (
    <Remove
      action={t("end")}
      name={id}
      text={t("endText")}
      done={t("endDone")}
      typed={false}
      run={(key) => unwrap(api.DELETE("/api/v1/terminal-sessions/{id}", { params: { path: { id }, header: { "X-Idempotency-Key": key } } }))}
      invalidates={[keys.terminalSessions(allocation)]}
    />
  );
}
