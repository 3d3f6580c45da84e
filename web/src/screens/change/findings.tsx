import { useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { type Column, Rows } from "../../components/system/cursor-table";
import { Empty } from "../../components/system/states";
import { Place } from "./place";

type Finding = Schemas["Finding"];
type Props = { findings: Finding[]; commit: string; source: Schemas["GitSource"] | undefined };

// Findings are what the validation has found, at file and line.
export function Findings({ findings, commit, source }: Props) {
  const t = useTranslations("change");
  const columns = useMemo(
    (): Column<Finding>[] => [
      { id: "where", header: t("where"), cell: ({ path, line }) => <Place path={path} line={line} commit={commit} source={source} /> },
      { id: "object", header: t("object"), cell: ({ object }) => object },
      { id: "field", header: t("findingField"), cell: ({ field }) => field },
      { id: "message", header: t("message"), cell: ({ message }) => message },
      { id: "expected", header: t("expected"), cell: ({ expected }) => expected },
    ],
    [t, commit, source],
  );
  return (
    <section className="panel">
      <h2>{t("findings")}</h2>
      {findings.length === 0 ? (
        <Empty text={t("noFindings")} />
      ) : (
        <Rows label={t("findings")} columns={columns} rows={findings} rowKey={(each) => [each.path, each.line, each.column, each.field, each.message].join(" ")} />
      )}
    </section>
  );
}
