import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { blocksOf } from "../components/system/markdown";
import { Content } from "../components/system/section";
import { keys, stale } from "../query/keys";
import { Page } from "./runbook/page";

const index = "README";

export function Runbooks() {
  return <Shown name={index} />;
}

export function Runbook() {
  const { name } = useParams({ from: "/runbooks/$name" });
  const t = useTranslations("runbooks");
  return (
    <div className="stack">
      <Shown key={name} name={name} />
      <Link to="/runbooks">{t("all")}</Link>
    </div>
  );
}

function Shown({ name }: { name: string }) {
  const t = useTranslations("runbooks");
  const query = useQuery({ queryKey: keys.runbook(name), queryFn: () => unwrap(api.GET("/api/v1/runbooks/{name}", { params: { path: { name } } })), staleTime: stale.catalogue });
  const title = blocksOf(query.data?.text ?? "").find(({ kind }) => kind === "heading");
  return (
    <div className="stack">
      <Heading title={title?.kind === "heading" ? title.text : t("title")} />
      <Content query={query}>{({ text }) => <Page text={text} />}</Content>
    </div>
  );
}
