import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../../api/client";
import { type Column, CursorTable } from "../../../components/system/cursor-table";
import { Empty } from "../../../components/system/states";
import { Time } from "../../../components/system/time";
import { useWords } from "../../../components/system/words";
import { type LetterFilter, keys } from "../../../query/keys";
import { unreported } from "../../../stream/unreported";
import { Decide, DecideOne } from "./decide";

type Letter = Schemas["DeadLetter"];

// choiceOf is what the list selects. The value of the address is a text, which the server checks.
export const choiceOf = ({ consumer, stream, subject }: LetterFilter) => ({ consumer, stream: stream as Schemas["DeadLetterDecision"]["stream"], subject });

export function Letters({ filter, columns }: { filter: LetterFilter; columns: Column<Letter>[] }) {
  const t = useTranslations("events");
  const filtered = Object.values(filter).some((value) => value !== undefined);
  return (
    <section className="stack">
      <h2>{t("letters")}</h2>
      <p>{t("lettersText")}</p>
      <CursorTable
        label={t("letters")}
        queryKey={keys.deadLetterList(filter)}
        load={(cursor) => unwrap(api.GET("/api/v1/admin/events/dead-letters", { params: { query: { ...choiceOf(filter), resolved: filter.state === "resolved", cursor, limit: 100 } } }))}
        columns={columns}
        rowKey={({ id }) => id}
        refetchInterval={unreported.letters.every}
        empty={<Empty text={filtered ? t("noMatch") : t("none")} />}
      />
      <Decide name={t("all")} choice={choiceOf(filter)} note={t("everyText")} />
    </section>
  );
}

export function useLetterColumns(): Column<Letter>[] {
  const t = useTranslations("events");
  const word = useWords();
  return useMemo(
    () => [
      { id: "subject", header: t("subject"), cell: ({ id, subject }) => <Link to="/admin/events/$id" params={{ id }}>{subject}</Link> },
      { id: "consumer", header: t("consumer"), cell: ({ consumer }) => consumer },
      { id: "error", header: t("error"), cell: ({ error }) => error },
      { id: "attempts", header: t("attempts"), cell: ({ attempts }) => attempts, number: true },
      { id: "status", header: t("status"), cell: ({ status }) => word(status) },
      { id: "failed", header: t("failed"), cell: ({ updated_at }) => <Time at={updated_at} /> },
      { id: "act", header: t("act"), cell: (letter) => <DecideOne letter={letter} /> },
    ],
    [t, word],
  );
}
