import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../../api/client";
import { type Column, CursorTable } from "../../../components/system/cursor-table";
import { Empty } from "../../../components/system/states";
import { Time } from "../../../components/system/time";
import { keys } from "../../../query/keys";
import { useSession } from "../../../session/session";
import { unreported } from "../../../stream/unreported";
import { Replay } from "./replay";

type Consumer = Schemas["Consumer"];

export function Consumers() {
  const t = useTranslations("events");
  return (
    <section className="stack">
      <h2>{t("consumers")}</h2>
      <CursorTable
        label={t("consumers")}
        queryKey={keys.consumers}
        load={(cursor) => unwrap(api.GET("/api/v1/admin/events/consumers", { params: { query: { cursor, limit: 100 } } }))}
        columns={useColumns()}
        rowKey={({ name }) => name}
        refetchInterval={unreported.letters.every}
        empty={<Empty text={t("noConsumers")} />}
      />
    </section>
  );
}

function useColumns(): Column<Consumer>[] {
  const t = useTranslations("events");
  const { may } = useSession();
  const replays = may("replayConsumer");
  return useMemo(
    () => [
      { id: "name", header: t("name"), cell: ({ name }) => name },
      { id: "stream", header: t("stream"), cell: ({ stream }) => stream },
      { id: "pending", header: t("pending"), cell: ({ pending }) => pending, number: true },
      { id: "redelivered", header: t("redelivered"), cell: ({ redelivered }) => redelivered, number: true },
      { id: "oldest", header: t("oldest"), cell: ({ oldest_at: at }) => (at === undefined ? t("upToDate") : <Time at={at} />) },
      { id: "checked", header: t("checked"), cell: ({ checked_at }) => <Time at={checked_at} /> },
      ...(replays ? [{ id: "replay", header: t("act"), cell: ({ name, stream }: Consumer) => stream !== "DLQ" && <Replay name={name} /> }] : []),
    ],
    [t, replays],
  );
}
