import { useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import type { Column } from "../../components/system/cursor-table";
import { Time } from "../../components/system/time";
import { useWords } from "../../components/system/words";
import { List } from "./list";

type Task = Schemas["NodeTask"];

export function Tasks({ tasks }: { tasks: Task[] }) {
  const t = useTranslations("node");
  const word = useWords();
  const columns = useMemo(
    (): Column<Task>[] => [
      { id: "type", header: t("type"), cell: ({ type }) => type },
      { id: "status", header: t("status"), cell: ({ status }) => word(status) },
      { id: "step", header: t("step"), cell: ({ step }) => step },
      { id: "attempt", header: t("attempt"), cell: ({ attempt }) => attempt, number: true },
      { id: "message", header: t("message"), cell: ({ message, code }) => [code, message].filter(Boolean).join(": ") },
      { id: "since", header: t("since"), cell: ({ created_at }) => <Time at={created_at} /> },
    ],
    [t, word],
  );
  return <List title={t("tasks")} empty={t("noTasks")} columns={columns} rows={tasks} rowKey={({ id }) => id} />;
}
