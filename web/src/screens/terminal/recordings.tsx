import { Button, Modal } from "@mantine/core";
import { useMemo, useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Command } from "../../components/system/copy";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { Empty } from "../../components/system/states";
import { Time } from "../../components/system/time";
import { keys } from "../../query/keys";
import { unreported } from "../../stream/unreported";
import { Player } from "./player";

type Recording = Schemas["TerminalRecording"];

// Recordings are the recorded terminals of an allocation.
export function Recordings({ allocation }: { allocation: string }) {
  const t = useTranslations("recordings");
  const [played, setPlayed] = useState<string>();
  return (
    <div className="stack">
      <p>{t("who")}</p>
      <CursorTable
        label={t("list")}
        queryKey={keys.recordings(allocation)}
        load={(cursor) => unwrap(api.GET("/api/v1/terminal-recordings", { params: { query: { allocation_id: allocation, cursor, limit: 50 } } }))}
        columns={useColumns(setPlayed)}
        rowKey={({ id }) => id}
        refetchInterval={unreported.terminals.every}
        empty={<Empty text={t("none")} />}
      />
      <Command text="gpuaas recording list" label={t("command")} />
      <Modal opened={played !== undefined} onClose={() => setPlayed(undefined)} title={t("title")} closeButtonProps={{ "aria-label": t("close") }} size="auto">
        {played !== undefined && <Player id={played} />}
      </Modal>
    </div>
  );
}

function useColumns(play: (id: string) => void): Column<Recording>[] {
  const t = useTranslations("recordings");
  return useMemo(
    () => [
      { id: "created", header: t("begun"), cell: ({ created_at }) => <Time at={created_at} /> },
      { id: "status", header: t("status"), cell: ({ status, incomplete_reason: why }) => (why === undefined ? t(`states.${status}`) : t(`reasons.${why}`)) },
      { id: "principal", header: t("principal"), cell: ({ principal_id }) => principal_id },
      { id: "duration", header: t("duration"), cell: ({ duration_seconds: seconds }) => t("seconds", { seconds }), number: true },
      {
        id: "play",
        header: t("change"),
        cell: ({ id, created_at }) => (
          <Button variant="default" size="compact-sm" aria-label={t("playOf", { at: created_at })} onClick={() => play(id)}>
            {t("play")}
          </Button>
        ),
      },
    ],
    [t, play],
  );
}
