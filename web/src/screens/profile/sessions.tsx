import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { Remove } from "../../components/system/remove";
import { Section } from "../../components/system/section";
import { Empty } from "../../components/system/states";
import { Time } from "../../components/system/time";
import { keys } from "../../query/keys";
import type { Part } from "../../query/model";

type Session = Schemas["Session"];

export function Sessions({ part }: { part: Part<Schemas["SessionList"]> }) {
  const t = useTranslations("profile");
  const columns = useMemo(
    (): Column<Session>[] => [
      { id: "agent", header: t("device"), cell: (session) => <Device session={session} /> },
      { id: "address", header: t("address"), cell: ({ address }) => address },
      { id: "created", header: t("signedIn"), cell: ({ created_at }) => <Time at={created_at} /> },
      { id: "used", header: t("used"), cell: ({ last_used_at }) => (last_used_at === undefined ? t("never") : <Time at={last_used_at} />) },
      { id: "expires", header: t("expires"), cell: ({ expires_at }) => <Time at={expires_at} /> },
      // The button at the top ends this session.
      { id: "end", header: t("change"), cell: (session) => (session.current ? t("current") : <End session={session} />) },
    ],
    [t],
  );
  return (
    <Section title={t("sessions")} query={part}>
      {(first) => (
        <CursorTable
          first={first}
          label={t("sessions")}
          queryKey={keys.sessionList}
          load={(cursor) => unwrap(api.GET("/api/v1/auth/sessions", { params: { query: { cursor, limit: 50 } } }))}
          columns={columns}
          rowKey={({ id }) => id}
          empty={<Empty text={t("none")} />}
        />
      )}
    </Section>
  );
}

// Device names the kind of a session. One of a newer server has its own name.
function Device({ session: { kind, user_agent } }: { session: Session }) {
  const t = useTranslations("profile");
  const known: Record<string, string> = { browser: t("browser"), program: t("program") };
  return t("deviceText", { kind: known[kind] ?? kind, agent: user_agent });
}

function End({ session: { id, address } }: { session: Session }) {
  const t = useTranslations("profile");
  return (
    <Remove
      action={t("end")}
      name={address}
      text={t("endText")}
      done={t("ended")}
      typed={false}
      run={(key) => unwrap(api.DELETE("/api/v1/auth/sessions/{id}", { params: { path: { id }, header: { "X-Idempotency-Key": key } } }))}
      invalidates={[keys.sessions]}
    />
  );
}
