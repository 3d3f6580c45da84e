import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../../api/client";
import { type Column, CursorTable } from "../../../components/system/cursor-table";
import { Remove } from "../../../components/system/remove";
import { Empty } from "../../../components/system/states";
import { Time } from "../../../components/system/time";
import { keys } from "../../../query/keys";
import { useSession } from "../../../session/session";

type Session = Schemas["Session"];

// useSessionColumns are the columns of the sessions of all users, or of one.
export function useSessionColumns(user: string | undefined): Column<Session>[] {
  const t = useTranslations("sessions");
  const { may } = useSession();
  const ends = may("endAnySession");
  return useMemo(
    () => [
      ...(user === undefined ? [{ id: "user", header: t("user"), cell: ({ user_id: id }: Session) => <Link to="/admin/users/$id" params={{ id }}>{id}</Link> }] : []),
      { id: "device", header: t("device"), cell: ({ user_agent }) => user_agent },
      { id: "address", header: t("address"), cell: ({ address }) => address },
      { id: "created", header: t("signedIn"), cell: ({ created_at }) => <Time at={created_at} /> },
      { id: "used", header: t("used"), cell: ({ last_used_at: at }) => (at === undefined ? t("never") : <Time at={at} />) },
      { id: "expires", header: t("expires"), cell: ({ expires_at }) => <Time at={expires_at} /> },
      ...(ends ? [{ id: "end", header: t("change"), cell: (session: Session) => (session.current ? t("current") : <End session={session} />) }] : []),
    ],
    [t, user, ends],
  );
}

export function SessionTable({ user, columns }: { user: string | undefined; columns: Column<Session>[] }) {
  const t = useTranslations("sessions");
  return (
    <CursorTable
      label={t("title")}
      queryKey={keys.allSessionList(user)}
      load={(cursor) => unwrap(api.GET("/api/v1/admin/sessions", { params: { query: { user_id: user, cursor, limit: 100 } } }))}
      columns={columns}
      rowKey={({ id }) => id}
      empty={<Empty text={t("none")} />}
    />
  );
}

function End({ session: { id, address } }: { session: Session }) {
  const t = useTranslations("sessions");
  return (
    <Remove
      action={t("end")}
      name={address}
      text={t("endText")}
      done={t("ended")}
      typed={false}
      run={(key) => unwrap(api.DELETE("/api/v1/admin/sessions/{id}", { params: { path: { id }, header: { "X-Idempotency-Key": key } } }))}
      invalidates={[keys.allSessions]}
    />
  );
}
