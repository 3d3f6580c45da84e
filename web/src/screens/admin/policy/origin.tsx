import { useQuery } from "@tanstack/react-query";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../../api/client";
import { keys, stale } from "../../../query/keys";
import { Place } from "../../change/place";

// Origin is what declares a value: the API, or a line of a file in Git, with a link to its forge.
export function Origin({ source: { owner, source, commit = "", path, line } }: { source: Schemas["Source"] }) {
  const t = useTranslations("policies");
  const sources = useQuery({
    queryKey: keys.gitSources,
    queryFn: () => unwrap(api.GET("/api/v1/admin/git-sources", { params: { query: { limit: 200 } } })),
    staleTime: stale.catalogue,
    enabled: owner === "git",
  });
  if (owner !== "git") return <>{t("api")}</>;
  if (path === undefined) return <>{source}</>;
  return (
    <>
      {source} <Place path={path} line={line ?? 1} commit={commit} source={sources.data?.items.find(({ name }) => name === source)} />
    </>
  );
}
