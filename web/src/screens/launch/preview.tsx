import { Anchor } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { errorPage } from "../../api/error";
import { Content } from "../../components/system/section";
import { useFormat } from "../../i18n/format";
import { keys, stale } from "../../query/keys";
import { Suggestions } from "../allocation/why";
import { type Draft, requestOf } from "./request";

const pause = 300;

export function Preview({ draft, project }: { draft: Draft; project: string }) {
  const [settled] = useDebouncedValue(draft, pause);
  const query = useQuery({
    queryKey: keys.preview({ ...settled, project }),
    queryFn: () => unwrap(api.POST("/api/v1/allocations/preview", { params: { header: { "X-Project-ID": project } }, body: requestOf(settled) })),
    staleTime: stale.live,
    placeholderData: keepPreviousData,
  });
  return <Content query={query}>{(preview) => <Result preview={preview} />}</Content>;
}

function Result({ preview }: { preview: Schemas["AllocationPreview"] }) {
  const t = useTranslations("launch");
  const format = useFormat();
  const facts: [string, string | undefined][] = [
    [t("perHour"), format.money(preview.price_per_hour)],
    [t("atMost"), preview.cost_at_most && format.money(preview.cost_at_most)],
    [t("runway"), preview.runway_minutes === undefined ? undefined : format.duration(preview.runway_minutes * 60)],
    [t("remaining"), t("remainingText", preview.remaining)],
  ];
  return (
    <div className="stack" role="status">
      <p>
        {preview.fits ? t("fits", { free: preview.free }) : t("fitsNot")}{" "}
        {preview.queue_position !== undefined && t("position", { position: preview.queue_position })}
      </p>
      <dl className="facts">
        {facts.map(([name, value]) => value !== undefined && <Fact key={name} name={name} value={value} />)}
      </dl>
      {preview.rejections.length > 0 && (
        <div className="failure">
          <h3>{t("rejected")}</h3>
          <ul>
            {preview.rejections.map(({ code, message, suggestion }) => (
              <li key={code}>
                {message}. {suggestion} <Anchor href={errorPage(code)}>{code}</Anchor>
              </li>
            ))}
          </ul>
        </div>
      )}
      <Suggestions title={t("suggestions")} suggestions={preview.suggestions} />
    </div>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}
