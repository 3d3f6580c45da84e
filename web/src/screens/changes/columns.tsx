import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import type { Column } from "../../components/system/cursor-table";
import { Time } from "../../components/system/time";
import { useWords } from "../../components/system/words";
import { short } from "./sources";

type Plan = Schemas["Plan"];

// usePlanColumns are the columns of a list of plans.
export function usePlanColumns(): Column<Plan>[] {
  const t = useTranslations("changes");
  const word = useWords();
  return useMemo(
    () => [
      { id: "plan", header: t("plan"), cell: ({ id, hash }) => <Link to="/changes/$id" params={{ id }}>{short(hash)}</Link> },
      { id: "state", header: t("state"), cell: ({ status }) => word(status) },
      { id: "origin", header: t("origin"), cell: ({ origin }) => origin !== undefined && word(origin) },
      { id: "source", header: t("source"), cell: ({ source }) => source },
      { id: "commit", header: t("commit"), cell: ({ commit }) => commit !== undefined && short(commit) },
      { id: "author", header: t("author"), cell: ({ author }) => author },
      { id: "summary", header: t("summary"), cell: ({ summary, actions, blocked }) => summary ?? t("actionsText", { actions, blocked }) },
      {
        id: "approvals",
        header: t("approvals"),
        cell: ({ approvals = [], approvals_needed }) => (approvals_needed === undefined ? null : t("approvalsText", { given: approvals.length, needed: approvals_needed })),
      },
      { id: "created", header: t("created"), cell: ({ created_at }) => <Time at={created_at} /> },
    ],
    [t, word],
  );
}
